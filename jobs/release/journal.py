"""The journal: the kernel's noisy answers on disk, one JSON line each, durable before use and chained by hash."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import IntegrityError, LedgerUnavailableError

Report = Callable[[int, str | None, str], None]
"""Records one durable answer elsewhere: its number from 0, the hash of the answer before it (None before the first),
and its own hash."""


@dataclass(frozen=True, eq=False)
class _Entry:
    """One answer. request: Description of the kernel call. answer: Its noisy answer, int64 in the call's shape."""

    request: str
    answer: NDArray[np.int64]


@final
class FileJournal:
    """Answers of one release in the order of the kernel's calls. Public values only.

    path: The journal's file; it is made with the first answer.
    release_id: Id of the release, which starts the chain of hashes.
    report: Called with each answer as soon as the answer is on disk.

    Guarantees:
        * When ``record`` or ``recall`` returns, the answer is on disk (fsync).
        * ``report`` gets each answer after it is on disk. When ``report`` raises, this process never uses the answer.
        * Each line carries the hash of all lines before it, and the first line that of the release id. A line that was
          changed, removed from the middle or moved from another release raises IntegrityError.
        * A last line that a crash cut short was never used. It is dropped, and truncated before the next line is
          written.

    Raises: IntegrityError when the file is no journal of this release.
    """

    def __init__(self, path: Path, release_id: str, report: Report = lambda *_: None) -> None:
        self._path = path
        self._report = report
        self._unreported = False
        self._seed = hashlib.sha256(release_id.encode()).hexdigest()
        self._heads: list[str] = []
        self._entries: list[_Entry] = []
        self._valid_bytes = self._load()

    @property
    def head(self) -> str | None:
        """Hash of the whole journal; None where it is empty."""
        return self.head_at(len(self))

    def head_at(self, answers: int) -> str | None:
        """Hash of the first ``answers`` answers; None for 0. Two runs with different draws have different hashes."""
        return self._heads[answers - 1] if answers else None

    def __len__(self) -> int:
        return len(self._entries)

    def reconcile(self, answers: int, head: str | None) -> None:
        """Checks the journal against the ledger, and reports the one answer that the ledger may lack.

        The journal may hold one answer more than the ledger knows: its process died before it reported the answer, and
        so never used it.

        answers: Number of answers that the ledger knows, at least 0.
        head: Hash of the last of them; None for 0.

        Raises: IntegrityError when the journal has fewer answers or other answers, or two or more answers that the
            ledger lacks: then the ledger is an old copy.
        """
        self.check_holds(answers, head)
        if len(self) > answers + 1:
            raise IntegrityError(
                f"{self._path} holds more answers than the ledger knows; want the ledger that recorded them, not an "
                "older copy"
            )
        if len(self) == answers + 1:
            self._report(answers, head, self._heads[answers])

    def check_holds(self, answers: int, head: str | None) -> None:
        """Raises IntegrityError unless the journal has ``answers`` answers or more, and that one has this hash."""
        if len(self) < answers or self.head_at(answers) != head:
            raise IntegrityError(
                f"{self._path} lacks answers that were drawn and used; want the journal back, because a second draw "
                "would reveal more than was charged"
            )

    def recall(self, index: int, request: str) -> NDArray[np.int64] | None:
        """The stored answer of kernel call number ``index``; None where it is not stored yet.

        Raises: IntegrityError when the stored answer belongs to another request.
        """
        self._check_reported()
        if index >= len(self._entries):
            return None
        entry = self._entries[index]
        if entry.request != request:
            raise IntegrityError(
                f"answer {index} in {self._path} belongs to another request; want the version and the settings that "
                "recorded it"
            )
        return entry.answer.copy()

    def record(self, index: int, request: str, answer: NDArray[np.int64]) -> None:
        """Stores the answer of kernel call number ``index``, which must be the next one, and reports it.

        Raises: IntegrityError when the index is not the next one; whatever ``report`` raises.
        """
        if index != len(self._entries):
            raise IntegrityError(f"answer {index} comes after {len(self._entries)} in {self._path}; want them in order")
        self._check_reported()
        packed = base64.b64encode(np.asarray(answer, dtype="<i8").tobytes()).decode()
        head = _link(self.head or self._seed, index, request, packed)
        line = json.dumps({"index": index, "request": request, "answer": packed, "chain": head}) + "\n"
        self._append(line.encode())
        self._unreported = True
        self._report(index, self.head, head)
        self._unreported = False
        self._keep(_Entry(request, answer.copy()), head)

    def _check_reported(self) -> None:
        if self._unreported:  # The answer is on disk: drawing it again would reveal more than was charged.
            raise LedgerUnavailableError(
                f"the ledger did not record answer {len(self)} in {self._path}; want a new run, which continues there"
            )

    def _keep(self, entry: _Entry, head: str) -> None:
        self._entries.append(entry)
        self._heads.append(head)

    def _append(self, line: bytes) -> None:
        with open(self._path, "r+b" if self._path.exists() else "xb") as file:
            file.truncate(self._valid_bytes)
            file.seek(self._valid_bytes)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if not self._valid_bytes:  # The process that made the file may have died before the file's name was durable.
            sync_folder(self._path.parent)
        self._valid_bytes += len(line)

    def _load(self) -> int:
        """Reads the whole lines of the file; returns their length in bytes."""
        if not self._path.exists():
            return 0
        valid_bytes = 0
        with open(self._path, "rb") as file:
            os.fsync(file.fileno())  # A process that was killed may have written lines and not synced them.
            lines = file.readlines()
        for number, line in enumerate(lines):
            # A crash may leave a prefix of the line, or blocks of zeros where data never arrived.
            if number == len(lines) - 1 and (not line.endswith(b"\n") or b"\0" in line):
                break
            self._replay(line)
            valid_bytes += len(line)
        return valid_bytes

    def _replay(self, line: bytes) -> None:
        index = len(self._entries)
        try:
            stored = json.loads(line)
            request, packed, chain = str(stored["request"]), str(stored["answer"]), str(stored["chain"])
            answer = np.frombuffer(base64.b64decode(packed, validate=True), dtype="<i8").astype(np.int64)
        except (ValueError, KeyError, TypeError, binascii.Error) as error:
            raise IntegrityError(f"line {index + 1} of {self._path} is damaged; want it as it was written") from error
        if chain != _link(self.head or self._seed, index, request, packed):
            raise IntegrityError(
                f"line {index + 1} of {self._path} does not follow from those before it; want this release's journal"
            )
        self._keep(_Entry(request, answer), chain)


@final
@dataclass(frozen=True)
class JournalFrom:
    """The part of a journal from one answer on, as a journal of its own.

    journal: The whole journal.
    first: Number of the answer that this part numbers 0.
    """

    journal: FileJournal
    first: int

    def recall(self, index: int, request: str) -> NDArray[np.int64] | None:
        """The stored answer of this part's call ``index``; see ``FileJournal.recall``."""
        return self.journal.recall(self.first + index, request)

    def record(self, index: int, request: str, answer: NDArray[np.int64]) -> None:
        """Stores the answer of this part's call ``index``; see ``FileJournal.record``."""
        self.journal.record(self.first + index, request, answer)


def sync_folder(folder: Path) -> None:
    """Makes the names of the files in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _link(before: str, index: int, request: str, packed: str) -> str:
    return hashlib.sha256(json.dumps([before, index, request, packed]).encode()).hexdigest()
