"""The journal of a release: its noisy answers, one JSON line each, durable before use and chained by hashes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import IntegrityError, LedgerUnavailableError

Report = Callable[[int, str | None, str], None]
"""Called with each answer that is stored: its number from 0, the hash of the answer before it (None for the first
answer), and its own hash."""


class Lines(Protocol):
    """Where the lines of a journal are kept. ``str`` of it names the place."""

    def read(self) -> list[bytes]:
        """All stored lines in order, each with its end. An incomplete one was never used, and is not among them."""
        ...

    def append(self, index: int, line: bytes) -> None:
        """Stores line number ``index``, from 0, which is durable when this returns.

        Raises: LedgerUnavailableError when another run has stored another line with this number.
        """
        ...


@dataclass(frozen=True, eq=False)
class _Entry:
    """One answer.

    request: Description of the kernel call.
    answer: The noisy answer, int64 in the shape of the call.
    """

    request: str
    answer: NDArray[np.int64]


@final
class Journal:
    """The answers of one release in the order of the kernel's calls. It contains public values only.

    lines: Where its lines are kept.
    release_id: Id of the release, with which the chain of hashes starts.
    report: Called with each answer as soon as the answer is stored.

    Guarantees:
        * When ``record`` or ``recall`` returns, the answer is durable.
        * ``report`` is called with each answer after it is stored. If ``report`` raises, this process never uses the
          answer.
        * Each line contains a hash over itself and all lines before it, and the chain starts with the release id. A
          line that was changed, removed from the middle or taken from another release raises IntegrityError.

    Raises: IntegrityError when these are not the lines of this release; ConfigError when they may not be read.
    """

    def __init__(self, lines: Lines, release_id: str, report: Report = lambda *_: None) -> None:
        self._lines = lines
        self._report = report
        self._unreported = False
        self._seed = hashlib.sha256(release_id.encode()).hexdigest()
        self._heads: list[str] = []
        self._entries: list[_Entry] = []
        for line in lines.read():
            self._replay(line)

    @property
    def head(self) -> str | None:
        """Hash of the whole journal; None for an empty journal."""
        return self.head_at(len(self))

    def head_at(self, answers: int) -> str | None:
        """Hash of the first ``answers`` answers; None for 0. Runs with different draws have different hashes."""
        return self._heads[answers - 1] if answers else None

    def __len__(self) -> int:
        return len(self._entries)

    def reconcile(self, answers: int, head: str | None) -> None:
        """Checks the journal against the ledger, and reports the one answer that the ledger may lack.

        The journal may hold one answer more than the ledger: its process died before it reported that answer, and
        therefore never used it.

        answers: Number of answers in the ledger, at least 0.
        head: Hash of the last of these answers; None for 0 answers.

        Raises: IntegrityError when the journal has fewer answers or other answers than the ledger, or two or more
            answers that the ledger lacks, because the ledger is then an old copy.
        """
        self.check_holds(answers, head)
        if len(self) > answers + 1:
            raise IntegrityError(
                f"{self._lines} holds more answers than the ledger has recorded; want the ledger that recorded them, "
                "not an older copy"
            )
        if len(self) == answers + 1:
            self._report(answers, head, self._heads[answers])

    def check_holds(self, answers: int, head: str | None) -> None:
        """Checks that the journal starts with ``answers`` answers whose last hash is ``head``.

        Raises: IntegrityError when it does not.
        """
        if len(self) < answers or self.head_at(answers) != head:
            raise IntegrityError(
                f"{self._lines} lacks answers that were already used; restore the journal, because drawing them again "
                "would reveal more than was charged"
            )

    def recall(self, index: int, request: str) -> NDArray[np.int64] | None:
        """The stored answer of kernel call number ``index``; None when it is not stored yet.

        index: Number of the call, from 0.
        request: Description of the call.

        Raises: IntegrityError when the stored answer belongs to another request.
        """
        self._check_reported()
        if index >= len(self._entries):
            return None
        entry = self._entries[index]
        if entry.request != request:
            raise IntegrityError(
                f"answer {index} in {self._lines} belongs to another request; want the version and the settings that "
                "recorded it"
            )
        return entry.answer.copy()

    def record(self, index: int, request: str, answer: NDArray[np.int64]) -> None:
        """Stores the answer of kernel call number ``index``, and reports it.

        index: Number of the call, from 0, which must be the number of stored answers.
        request: Description of the call.
        answer: The noisy answer, int64.

        Raises: IntegrityError when the index is not the next one; any exception that ``report`` raises.
        """
        if index != len(self._entries):
            raise IntegrityError(
                f"answer {index} follows {len(self._entries)} answers in {self._lines}; want them in order"
            )
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
        if self._unreported:  # The answer is already stored; drawing it again would reveal more than was charged.
            raise LedgerUnavailableError(
                f"the ledger did not record answer {len(self)} in {self._lines}; run the release again to continue "
                "there"
            )

    def _keep(self, entry: _Entry, head: str) -> None:
        self._entries.append(entry)
        self._heads.append(head)

    def _append(self, line: bytes) -> None:
        self._lines.append(len(self), line)

    def _replay(self, line: bytes) -> None:
        index = len(self._entries)
        try:
            stored = json.loads(line)
            request, packed, chain = str(stored["request"]), str(stored["answer"]), str(stored["chain"])
            answer = np.frombuffer(base64.b64decode(packed, validate=True), dtype="<i8").astype(np.int64)
        except (ValueError, KeyError, TypeError, binascii.Error) as error:
            raise IntegrityError(f"line {index + 1} of {self._lines} is damaged; restore the journal") from error
        if chain != _link(self.head or self._seed, index, request, packed):
            raise IntegrityError(
                f"line {index + 1} of {self._lines} does not follow from the lines before it; restore this release's "
                "journal"
            )
        self._keep(_Entry(request, answer), chain)


@final
@dataclass(frozen=True)
class JournalFrom:
    """The part of a journal that starts at one answer, as a journal of its own.

    journal: The whole journal.
    first: Number, in the whole journal, of the first answer of this part.
    """

    journal: Journal
    first: int

    def recall(self, index: int, request: str) -> NDArray[np.int64] | None:
        """The stored answer of call ``index`` of this part; see ``Journal.recall``."""
        return self.journal.recall(self.first + index, request)

    def record(self, index: int, request: str, answer: NDArray[np.int64]) -> None:
        """Stores the answer of call ``index`` of this part; see ``Journal.record``."""
        self.journal.record(self.first + index, request, answer)


def _link(before: str, index: int, request: str, packed: str) -> str:
    return hashlib.sha256(json.dumps([before, index, request, packed]).encode()).hexdigest()
