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

from dpcore.errors import IntegrityError


@dataclass(frozen=True, eq=False)
class _Entry:
    request: str
    answer: NDArray[np.int64]


@final
class FileJournal:
    """Answers of one release in the order of the kernel's calls. Public values only.

    Guarantees:
        * When ``record`` or ``recall`` returns, the answer is on disk (fsync).
        * ``on_start`` gets the hash of the first answer when that is on disk; when it raises, nothing is returned.
        * Each line carries the hash of all before it, the first one that of the release id: a line that was changed,
          removed from the middle or moved from another release raises IntegrityError.
        * A last line that a crash cut short was never used; it is dropped, and cut off before the next line is written.
    """

    def __init__(self, path: Path, release_id: str, on_start: Callable[[str], None] = lambda _: None) -> None:
        self._path = path
        self._on_start = on_start
        self._start: str | None = None
        self._head = hashlib.sha256(release_id.encode()).hexdigest()
        self._entries: list[_Entry] = []
        self._good_bytes = self._load()

    @property
    def head(self) -> str:
        """Hash of the whole journal."""
        return self._head

    @property
    def start(self) -> str | None:
        """Hash of the first answer; None while there is none. Two draws of one release do not share it."""
        return self._start

    def __len__(self) -> int:
        return len(self._entries)

    def recall(self, index: int, request: str) -> NDArray[np.int64] | None:
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
        packed = base64.b64encode(np.asarray(answer, dtype="<i8").tobytes()).decode()
        head = _link(self._head, index, request, packed)
        line = json.dumps({"index": index, "request": request, "answer": packed, "chain": head}) + "\n"
        self._append(line.encode())
        self._keep(_Entry(request, answer.copy()), head)
        if index == 0:
            self._on_start(head)

    def _keep(self, entry: _Entry, head: str) -> None:
        self._entries.append(entry)
        self._head = head
        self._start = self._start or head

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
        if chain != _link(self._head, index, request, packed):
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
