"""The kernel's answers on disk: one JSON line each, durable before it is used, chained by hash."""

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

Tell = Callable[[int, str | None, str], None]


@dataclass(frozen=True, eq=False)
class _Entry:
    request: str
    answer: NDArray[np.int64]


@final
class FileJournal:
    """Answers of one release in the order of the kernel's calls. Public values only.

    Guarantees:
        * When ``record`` or ``recall`` returns, the answer is on disk (fsync).
        * ``tell`` gets each answer when that is on disk: how many come before it, the hash of the last of them (None
          before the first), and its own. When it raises, the answer is never used by this process.
        * Each line carries the hash of all before it, the first one that of the release id: a line that was changed,
          removed from the middle or moved from another release raises IntegrityError.
        * A last line that a crash cut short was never used; it is dropped, and cut off before the next line is written.
    """

    def __init__(self, path: Path, release_id: str, tell: Tell = lambda *_: None) -> None:
        self._path = path
        self._tell = tell
        self._untold = False
        self._seed = hashlib.sha256(release_id.encode()).hexdigest()
        self._heads: list[str] = []
        self._entries: list[_Entry] = []
        self._good_bytes = self._load()

    @property
    def head(self) -> str | None:
        """Hash of the whole journal."""
        return self.head_at(len(self))

    def head_at(self, answers: int) -> str | None:
        """Hash of that many answers from the first on; None for none. Two draws of one release do not share it."""
        return self._heads[answers - 1] if answers else None

    def __len__(self) -> int:
        return len(self._entries)

    def agree(self, answers: int, head: str | None) -> None:
        """Checks the journal against what is known of it elsewhere, and tells of one answer more, if there is one.

        answers, head: How many answers were told, and the hash of the last of them.

        One answer more was stored by a process that died before it told, and was not used. Raises IntegrityError for
        fewer answers, for others, and for more than one more: then what is known elsewhere is an old copy.
        """
        self.check_holds(answers, head)
        if len(self) > answers + 1:
            raise IntegrityError(
                f"{self._path} holds more answers than the ledger knows; want the ledger that was told of them, not "
                "an older copy"
            )
        if len(self) == answers + 1:
            self._tell(answers, head, self._heads[answers])

    def check_holds(self, answers: int, head: str | None) -> None:
        """Raises IntegrityError unless the first ``answers`` are there, and the last of them has this hash."""
        if len(self) < answers or self.head_at(answers) != head:
            raise IntegrityError(
                f"{self._path} lacks answers that were drawn and used; want the journal back, because a second draw "
                "would reveal more than was charged"
            )

    def recall(self, index: int, request: str) -> NDArray[np.int64] | None:
        self._check_told()
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
        if index != len(self._entries):
            raise IntegrityError(f"answer {index} comes after {len(self._entries)} in {self._path}; want them in order")
        self._check_told()
        packed = base64.b64encode(np.asarray(answer, dtype="<i8").tobytes()).decode()
        head = _link(self.head or self._seed, index, request, packed)
        line = json.dumps({"index": index, "request": request, "answer": packed, "chain": head}) + "\n"
        self._append(line.encode())
        self._untold = True
        self._tell(index, self.head, head)
        self._untold = False
        self._keep(_Entry(request, answer.copy()), head)

    def _check_told(self) -> None:
        if self._untold:  # Another draw in its place would be a second one.
            raise LedgerUnavailableError(
                f"the ledger was not told of answer {len(self)} in {self._path}; want a new run, which goes on there"
            )

    def _keep(self, entry: _Entry, head: str) -> None:
        self._entries.append(entry)
        self._heads.append(head)

    def _append(self, line: bytes) -> None:
        with open(self._path, "r+b" if self._path.exists() else "xb") as file:
            file.truncate(self._good_bytes)
            file.seek(self._good_bytes)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if not self._good_bytes:  # Whoever made the file may have died before its name was durable.
            sync_folder(self._path.parent)
        self._good_bytes += len(line)

    def _load(self) -> int:
        """Reads what is there; returns how many bytes of it hold whole lines."""
        if not self._path.exists():
            return 0
        good = 0
        with open(self._path, "rb") as file:
            os.fsync(file.fileno())  # A process that was killed may have written lines and not synced them.
            lines = file.readlines()
        for number, line in enumerate(lines):
            # A crash may leave a prefix of the line, or blocks of zeros where data never arrived.
            if number == len(lines) - 1 and (not line.endswith(b"\n") or b"\0" in line):
                break
            self._replay(line)
            good += len(line)
        return good

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
    """The part of a journal from answer number ``first`` on, numbered from 0."""

    journal: FileJournal
    first: int

    def recall(self, index: int, request: str) -> NDArray[np.int64] | None:
        return self.journal.recall(self.first + index, request)

    def record(self, index: int, request: str, answer: NDArray[np.int64]) -> None:
        self.journal.record(self.first + index, request, answer)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _link(before: str, index: int, request: str, packed: str) -> str:
    return hashlib.sha256(json.dumps([before, index, request, packed]).encode()).hexdigest()
