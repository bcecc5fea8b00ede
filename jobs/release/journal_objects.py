"""The lines of a journal in an object store: one object each, written by a conditional put before it is used."""

from __future__ import annotations

import re
from typing import Final, final

from dpcore.errors import IntegrityError, LedgerUnavailableError
from jobs.objects.folder import StoredFolder

FOLDER: Final = "journal"
OWNER: Final = "ledger"
_NAME: Final = re.compile(r"(\d{6,})\.json")


@final
class JournalObjects:
    """Objects ``journal/000000.json`` and so on in the state folder of a release.

    No two runs can store different lines with one number, on whatever machines they run, because the store writes an
    object only if there is none: the run that comes second stops before it has used what it drew. The object
    ``ledger`` names the ledger in the same way, so that runs with different ledgers cannot share a journal.

    state: The state folder of the release.
    ledger_id: Id of the ledger that is charged.
    """

    def __init__(self, state: StoredFolder, ledger_id: str | None) -> None:
        self._state = state
        self._folder = state / FOLDER
        self._owner = f"{ledger_id}\n".encode()

    def __str__(self) -> str:
        return str(self._folder)

    def read(self) -> list[bytes]:
        """All lines in order.

        Raises: IntegrityError when one is missing before the last, or another ledger was charged for them.
        """
        numbers = sorted(int(match[1]) for name in self._folder.sizes() if (match := _NAME.fullmatch(name)))
        if numbers != list(range(len(numbers))):
            raise IntegrityError(f"{self._folder} lacks answers before number {numbers[-1]}; restore the journal")
        if not numbers:
            return []
        self._check_owner(self._state.read(OWNER))
        lines = self._folder.read_all(map(_name, numbers))
        if None in lines:
            raise IntegrityError(f"an answer in {self._folder} was deleted while it was read; restore the journal")
        return [line for line in lines if line is not None]

    def append(self, index: int, line: bytes) -> None:
        """Stores a line by one conditional put.

        Raises: LedgerUnavailableError when another run has stored another line; IntegrityError when that run has
            another ledger.
        """
        if index == 0 and not self._state.create(OWNER, self._owner):
            self._check_owner(self._state.read(OWNER))
        if not self._folder.create(_name(index), line):
            raise LedgerUnavailableError(
                f"another process runs this release and has stored answer {index} in {self._folder}; try again after "
                "it has ended"
            )

    def _check_owner(self, owner: bytes | None) -> None:
        if owner != self._owner:
            raise IntegrityError(
                f"{self._folder} belongs to another ledger, whose charge covers its answers; want that ledger, or "
                "another dataset.snapshot, which makes a new release with a new charge"
            )


def _name(number: int) -> str:
    return f"{number:06}.json"
