"""The ledger: what has been promised about each dataset, and what is left. SQLite by default, any SQLAlchemy URL."""

from __future__ import annotations

import secrets
import shlex
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, final

from sqlalchemy import Connection, insert, inspect, select, update
from sqlalchemy.engine import Row

from dpcore.errors import BudgetExceededError, ConfigError, IntegrityError, NoBudgetError
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import budget_of
from jobs.figures import exactly
from jobs.ledger_connection import Database
from jobs.ledger_records import ChargeRecord, DatasetBudget, PlannedRelease, ReleaseRecord, State, charged_amount
from jobs.ledger_tables import CHARGES, DATASETS, METADATA, RELEASES

DEFAULT_LEDGER = "sqlite:///marquee.db"
LOCK_SECONDS = 30.0
_SECRET_BYTES = 16  # Of the row-bound salt and of the fingerprint key.


@final
class SqlLedger:
    """Every method is one transaction; with SQLite it takes the write lock first (BEGIN IMMEDIATE).

    Raises LedgerUnavailableError when the database cannot be reached or stays locked; nothing is written then.
    """

    def __init__(self, url: str, lock_seconds: float = LOCK_SECONDS) -> None:
        self._database = Database(url, lock_seconds)

    @property
    def shown_url(self) -> str:
        return self._database.shown_url

    def create_dataset(self, name: str, epsilon: float, delta: float) -> DatasetBudget:
        """Gives a dataset its budget, once; the same figures again change nothing."""
        budget = budget_of(epsilon, delta)
        with self._database.transaction(create=True) as connection:
            METADATA.create_all(connection)
            existing = _dataset_row(connection, name)
            if existing is not None:
                if (existing.currency, existing.total) != (budget.currency.value, str(budget.amount)):
                    raise ConfigError(f"dataset {name!r} has a budget already; a budget is set once and never changed")
                return _dataset(connection, existing)
            secret = {key: secrets.token_bytes(_SECRET_BYTES) for key in ("salt", "fingerprint_key")}  # SENSITIVE
            figures = {"currency": budget.currency.value, "total": str(budget.amount)}
            row = {"name": name, "epsilon": epsilon, "delta": delta, "created": _now(), **figures, **secret}
            connection.execute(insert(DATASETS).values(row))
            return _dataset(connection, _existing_dataset(connection, name))

    def datasets(self) -> list[DatasetBudget]:
        if not self._database.exists():
            return []
        with self._database.transaction() as connection:
            if not _is_ledger(connection):
                return []
            rows = connection.execute(select(DATASETS).order_by(DATASETS.c.name)).all()
            return [_dataset(connection, row) for row in rows]

    def dataset(self, name: str, epsilon: float, delta: float) -> DatasetBudget:
        """The budget of a dataset. Raises NoBudgetError with the command that would create it.

        epsilon, delta: Figures for that command.
        """
        if not self._database.exists():
            raise NoBudgetError(self._missing(name, epsilon, delta))
        with self._database.transaction() as connection:
            row = _dataset_row(connection, name) if _is_ledger(connection) else None
            if row is None:
                raise NoBudgetError(self._missing(name, epsilon, delta))
            return _dataset(connection, row)

    def history(self, name: str) -> list[ChargeRecord]:
        """Every charge of a dataset, oldest first. Raises NoBudgetError for an unknown one."""
        unknown = f"dataset {name!r} has no budget in {self.shown_url}; want a dataset that marquee budget show lists"
        if not self._database.exists():
            raise NoBudgetError(unknown)
        with self._database.transaction() as connection:
            if not _is_ledger(connection) or _dataset_row(connection, name) is None:
                raise NoBudgetError(unknown)
            query = (
                select(CHARGES.c.release_id, CHARGES.c.amount, RELEASES.c.state, CHARGES.c.charged)
                .join(RELEASES, RELEASES.c.release_id == CHARGES.c.release_id)
                .where(CHARGES.c.dataset == name)
                .order_by(CHARGES.c.number)
            )
            rows = connection.execute(query).all()
            return [ChargeRecord(row[0], Fraction(row[1]), State(row[2]), row[3]) for row in rows]

    def release(self, release_id: str) -> ReleaseRecord | None:
        """What is known of a release, or None."""
        if not self._database.exists():
            return None
        with self._database.transaction() as connection:
            row = _release_row(connection, release_id) if _is_ledger(connection) else None
            return None if row is None else _release(row)

    def plan(self, planned: PlannedRelease) -> ReleaseRecord:
        """Records a release that is ready to run, binds the dataset's name to its path, and returns where it stands.

        Raises, with nothing written: ConfigError when name and path do not belong together, BudgetExceededError when
        the release does not fit, IntegrityError when the release ran on other input.
        """
        with self._database.transaction() as connection:
            dataset = _dataset(connection, _existing_dataset(connection, planned.dataset))
            _bind(connection, dataset, planned.path)
            row = _release_row(connection, planned.release_id)
            if row is None:
                _amount_that_fits(dataset, planned.budget)
                connection.execute(insert(RELEASES).values(_new_release(planned)))
                row = _existing_release(connection, planned.release_id)
            if row.fingerprint != planned.fingerprint:
                raise IntegrityError(
                    f"release {planned.release_id[:12]} of dataset {planned.dataset!r} ran on other input; want the "
                    "same files, or a new dataset.snapshot"
                )
            return _release(row)

    def reserve(self, release_id: str, budget: Budget) -> None:
        """Charges the whole budget of a release; again for the same release it changes nothing."""
        with self._database.transaction() as connection:
            dataset_name = _existing_release(connection, release_id).dataset
            dataset = _dataset(connection, _existing_dataset(connection, dataset_name))
            row = _existing_release(connection, release_id, lock=True)  # As it is now that the dataset is locked.
            if _release(row).budget != budget:
                raise IntegrityError(f"release {release_id[:12]} was planned with another budget; want the same config")
            if State(row.state) is not State.PLANNED:
                return
            amount = _amount_that_fits(dataset, budget)
            charge = {"dataset": row.dataset, "release_id": release_id, "amount": str(amount), "charged": _now()}
            connection.execute(insert(CHARGES).values(charge))
            _set(connection, release_id, state=State.RESERVED.value)

    def advance(
        self, release_id: str, state: State, *, journal_head: str | None = None, output: str | None = None
    ) -> None:
        """Moves a release forward; a state it has passed already changes nothing but the output folder.

        journal_head: Hash of the release's journal: of its first answer on the way to MEASURING, of all from ESTIMATED.

        Raises IntegrityError when the release is there already with another journal, such as that of a run on another
        machine: using both would reveal two draws for one charge.
        """
        with self._database.transaction() as connection:
            row = _existing_release(connection, release_id, lock=True)
            changes: dict[str, str] = {} if output is None else {"output": output}
            if state.step > State(row.state).step:
                changes["state"] = state.value
                if journal_head is not None:
                    changes["journal_head"] = journal_head
            elif journal_head not in (None, row.journal_head):
                raise IntegrityError(
                    f"another run of release {release_id[:12]} has stored other answers; want one run at a time, with "
                    f"the journal in {row.state_folder}"
                )
            if changes:
                _set(connection, release_id, **changes)

    def _missing(self, name: str, epsilon: float, delta: float) -> str:
        ledger, dataset = shlex.quote(self.shown_url), shlex.quote(name)
        return (
            f"dataset {name!r} has no budget in {self.shown_url}; create one with: marquee budget create "
            f"--ledger {ledger} --dataset {dataset} --epsilon {exactly(epsilon)} --delta {exactly(delta)}"
        )


def _amount_that_fits(dataset: DatasetBudget, budget: Budget) -> Fraction:
    amount = charged_amount(budget, dataset.currency, dataset.name)
    if amount > dataset.remaining:
        label = f"a release of dataset {dataset.name!r}"
        raise BudgetExceededError(label, amount, dataset.remaining, dataset.currency.value)
    return amount


def _bind(connection: Connection, dataset: DatasetBudget, path: str) -> None:
    if dataset.path is not None and dataset.path != path:
        raise ConfigError(
            f"dataset {dataset.name!r} is bound to {dataset.path}; want that path, or another dataset name with a "
            "budget of its own"
        )
    for other, bound in connection.execute(select(DATASETS.c.name, DATASETS.c.path)):
        if other != dataset.name and bound is not None and _overlap(path, bound):
            raise ConfigError(f"path {path} belongs to dataset {other!r} in this ledger; want dataset.name: {other}")
    if dataset.path is None:
        connection.execute(update(DATASETS).where(DATASETS.c.name == dataset.name).values(path=path))


def _overlap(path: str, other: str) -> bool:
    """Whether two bound paths are the same, or one lies in the other's folder."""
    return path == other or path.startswith(f"{other}/") or other.startswith(f"{path}/")


def _new_release(planned: PlannedRelease) -> dict[str, str]:
    return {
        "release_id": planned.release_id,
        "dataset": planned.dataset,
        "currency": planned.budget.currency.value,
        "amount": str(planned.budget.amount),
        "state": State.PLANNED.value,
        "fingerprint": planned.fingerprint,
        "state_folder": planned.state_folder,
        "created": _now(),
        "updated": _now(),
    }


def _dataset(connection: Connection, row: Row[Any]) -> DatasetBudget:
    amounts = connection.execute(select(CHARGES.c.amount).where(CHARGES.c.dataset == row.name)).scalars()
    return DatasetBudget(
        name=row.name,
        path=row.path,
        currency=Currency(row.currency),
        total=Fraction(row.total),
        spent=sum((Fraction(amount) for amount in amounts), Fraction(0)),
        epsilon=row.epsilon,
        delta=row.delta,
        salt=bytes(row.salt),
        fingerprint_key=bytes(row.fingerprint_key),
    )


def _release(row: Row[Any]) -> ReleaseRecord:
    budget = Budget(Currency(row.currency), Fraction(row.amount))
    return ReleaseRecord(
        row.release_id, row.dataset, budget, State(row.state), row.state_folder, row.journal_head, row.output
    )


def _dataset_row(connection: Connection, name: str) -> Row[Any] | None:
    return connection.execute(select(DATASETS).where(DATASETS.c.name == name).with_for_update()).one_or_none()


def _existing_dataset(connection: Connection, name: str) -> Row[Any]:
    row = _dataset_row(connection, name)
    if row is None:
        raise NoBudgetError(f"dataset {name!r} has no budget; create one with marquee budget create")
    return row


def _release_row(connection: Connection, release_id: str, *, lock: bool = False) -> Row[Any] | None:
    query = select(RELEASES).where(RELEASES.c.release_id == release_id)
    return connection.execute(query.with_for_update() if lock else query).one_or_none()


def _existing_release(connection: Connection, release_id: str, *, lock: bool = False) -> Row[Any]:
    row = _release_row(connection, release_id, lock=lock)
    if row is None:
        raise IntegrityError(f"release {release_id[:12]} is not in the ledger; want a release that was planned there")
    return row


def _set(connection: Connection, release_id: str, **values: str) -> None:
    connection.execute(update(RELEASES).where(RELEASES.c.release_id == release_id).values(updated=_now(), **values))


def _is_ledger(connection: Connection) -> bool:
    return inspect(connection).has_table(DATASETS.name)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
