"""The ledger: what has been promised about each dataset, and what is left. SQLite by default, PostgreSQL by URL."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from typing import final

from sqlalchemy import Connection, select

from dpcore.errors import NoBudgetError
from dpcore.kernel.budget import Budget
from jobs.figures import format_exact
from jobs.ledger import binding, budgets, releases, schema
from jobs.ledger.audit import verify
from jobs.ledger.budgets import Creation
from jobs.ledger.connection import Database
from jobs.ledger.records import (
    Accounting,
    ChargeRecord,
    ConsumerBudget,
    DatasetBudget,
    GrantRecord,
    PlannedRelease,
    ReleaseRecord,
    State,
)
from jobs.ledger.rows import find_dataset, find_release, locked_dataset, release_of
from jobs.ledger.tables import CHARGES, DATASETS, RELEASES
from jobs.ledger.windows import Window

DEFAULT_LEDGER = "sqlite:///marquee.db"
LOCK_SECONDS = 30.0
_FIGURES = "--epsilon EPSILON --delta DELTA"


@final
class SqlLedger:
    """Every method is one transaction: with SQLite it takes the write lock first, with PostgreSQL the dataset's row.

    Formal guarantees:
        * The charges of a dataset never pass its total, nor those of a consumer in a window its limit, whatever
          processes and machines charge at once and wherever they die.
        * A release is charged once, however often it is reserved; what ``reserve`` returned from stays charged.
        * Charges and grants refuse to be changed or removed.

    Raises LedgerUnavailableError when the database cannot be reached or stays locked; ConfigError when its layout is
    newer than this program. A ledger of an older layout is brought up to date by whatever touches it first.
    """

    def __init__(
        self, url: str, lock_seconds: float = LOCK_SECONDS, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._database = Database(url, lock_seconds)
        self._clock = clock
        self._found = False

    @property
    def shown_url(self) -> str:
        return self._database.shown_url

    def create_dataset(
        self,
        name: str,
        epsilon: float,
        delta: float,
        *,
        accounting: Accounting = Accounting.AUTO,
        consumers_only: bool = False,
    ) -> DatasetBudget:
        """Gives a dataset its budget; figures that it had already change nothing.

        accounting: What a budget with delta > 0 is counted in.
        consumers_only: Refuses releases that name no consumer.
        """
        asked = Creation(name, epsilon, delta, accounting, consumers_only)
        asked.check()  # Before there is a file: what is refused leaves none behind.
        with self._database.transaction(create=True) as connection:
            schema.create(connection)
            return budgets.create_dataset(connection, asked, self._clock())

    def raise_total(self, name: str, epsilon: float, delta: float, reason: str) -> DatasetBudget:
        """Raises what all releases of a dataset together may spend to (epsilon, delta); less is refused."""
        with self._transaction() as connection:
            return budgets.raise_total(connection, name, epsilon, delta, reason, self._clock())

    def grant_consumer(
        self,
        dataset: str,
        consumer: str,
        epsilon: float,
        delta: float,
        window: Window = Window.NONE,
        reason: str = "",
    ) -> ConsumerBudget:
        """Lets a consumer spend that much of a dataset's total, in each window; the total bounds all of them for ever.

        Asked again it sets another limit; the window is chosen once.
        """
        asked = ConsumerBudget(dataset, consumer, window, epsilon, delta, None, Fraction(0), "")
        with self._transaction() as connection:
            return budgets.grant_consumer(connection, asked, reason, self._clock())

    def move(self, name: str, path: str, reason: str) -> DatasetBudget:
        """Binds a dataset to the path to which its data went; what it may spend stays, and the move is on record.

        path: In the one spelling of ``jobs.planning.identity.bound_path``.
        """
        with self._transaction() as connection:
            return binding.move(connection, name, path, reason, self._clock())

    def check_there(self) -> None:
        """Raises NoBudgetError where there is no ledger."""
        if not self._is_there():
            raise NoBudgetError(self._no_ledger())

    def datasets(self) -> list[DatasetBudget]:
        """Every dataset, checked against its charges and grants; none where there is no ledger.

        Raises IntegrityError when they differ.
        """
        if not self._is_there():
            return []
        with self._transaction() as connection:
            names = connection.execute(select(DATASETS.c.name).order_by(DATASETS.c.name)).scalars().all()
            return [self._verified(connection, name) for name in names]

    def dataset(self, name: str, epsilon: float, delta: float) -> DatasetBudget:
        """The budget of a dataset. Raises NoBudgetError with the command that would create it.

        epsilon, delta: Figures for that command.
        """
        figures = f"--epsilon {format_exact(epsilon)} --delta {format_exact(delta)}"
        if not self._is_there():
            raise NoBudgetError(self._no_ledger(name, figures))
        with self._transaction() as connection:
            found = find_dataset(connection, name)
        if found is None:
            raise NoBudgetError(self._missing(name, figures))
        return found

    def verified(self, name: str) -> DatasetBudget:
        """The budget of a dataset, checked against its charges and grants; other datasets are not looked at.

        Raises NoBudgetError for an unknown one, IntegrityError when they differ.
        """
        with self._transaction() as connection:
            return self._verified(connection, name)

    def consumers(self, dataset: str) -> list[ConsumerBudget]:
        """The consumers of a dataset by name, with what they have spent in the window of this moment."""
        with self._transaction() as connection:
            return [consumer.at(self._clock()) for consumer in budgets.consumers(connection, dataset)]

    def grants(self, dataset: str) -> list[GrantRecord]:
        """Every change of what a dataset and its consumers may spend, oldest first."""
        with self._transaction() as connection:
            return budgets.grants(connection, dataset)

    def history(self, name: str) -> list[ChargeRecord]:
        """Every charge of a dataset, oldest first. Raises NoBudgetError for an unknown one, IntegrityError as above."""
        with self._transaction() as connection:
            self._verified(connection, name)
            query = (
                select(CHARGES, RELEASES.c.state)
                .join(RELEASES, RELEASES.c.release_id == CHARGES.c.release_id)
                .where(CHARGES.c.dataset == name)
                .order_by(CHARGES.c.number)
            )
            return [
                ChargeRecord(row.release_id, row.consumer, Fraction(row.amount), State(row.state), row.charged)
                for row in connection.execute(query)
            ]

    def release(self, release_id: str) -> ReleaseRecord | None:
        """What is known of a release, or None."""
        if not self._is_there():
            return None
        with self._transaction() as connection:
            row = find_release(connection, release_id)
            return None if row is None else release_of(row)

    def plan(self, planned: PlannedRelease) -> ReleaseRecord:
        """Records a release that is ready to run, binds the dataset's name to its path, and returns where it stands.

        Raises, with nothing written: ConfigError when name and path do not belong together, BudgetExceededError when
        the release does not fit, NoBudgetError when its dataset or consumer has no budget or none that it can be
        charged to, IntegrityError when the release ran on other input.
        """
        with self._transaction() as connection:
            return releases.plan(connection, planned, self._clock())

    def reserve(self, release_id: str, budget: Budget) -> None:
        """Charges the whole budget of a release; again for the same release it changes nothing.

        Raises as ``plan``, with nothing charged.
        """
        with self._transaction() as connection:
            releases.reserve(connection, release_id, budget, self._clock())

    def record_answer(self, release_id: str, number: int, before: str | None, head: str) -> None:
        """Makes known that answer ``number`` (from 0) is in the journal, before it is used.

        before, head: Hash of the journal before it (None when it is the first) and with it.

        Raises IntegrityError when the release has other answers, such as those of a run on another machine: using both
        would reveal two draws for one charge.
        """
        with self._transaction() as connection:
            releases.record_answer(connection, release_id, number, before, head, self._clock())

    def adopt_journal(self, release_id: str, answers: int, head: str) -> None:
        """Learns the whole journal of a release that a ledger of layout 1 knew by one hash alone."""
        with self._transaction() as connection:
            releases.adopt_journal(connection, release_id, answers, head, self._clock())

    def advance(
        self, release_id: str, state: State, *, journal_head: str | None = None, output: str | None = None
    ) -> None:
        """Moves a release forward; a state it has passed already changes nothing but the output folder.

        journal_head: Hash of the release's journal. Raises IntegrityError when the ledger knows another.
        """
        with self._transaction() as connection:
            releases.advance(connection, release_id, state, journal_head, output, self._clock())

    def _is_there(self) -> bool:
        """Whether there is a ledger; one of an older layout is brought up to date."""
        if not self._database.exists():
            return False
        if not self._found:
            with self._database.transaction() as connection:
                self._found = schema.prepare(connection)
        return self._found

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """A transaction on a ledger of the layout that this program knows."""
        self.check_there()
        with self._database.transaction() as connection:
            # Another program may have moved the ledger on since; while this transaction lasts, none can.
            schema.check(schema.read_version(connection))
            yield connection

    def _verified(self, connection: Connection, name: str) -> DatasetBudget:
        if find_dataset(connection, name) is None:
            raise NoBudgetError(self._missing(name))
        dataset = locked_dataset(connection, name)
        verify(connection, dataset)
        return dataset

    def _missing(self, name: str, figures: str = _FIGURES) -> str:
        return f"dataset {name!r} has no budget in {self.shown_url}; create one with: {self._creation(name, figures)}"

    def _no_ledger(self, name: str = "NAME", figures: str = _FIGURES) -> str:
        return (
            f"there is no ledger in {self.shown_url}; restore its backup if there was one, else create one with: "
            f"{self._creation(name, figures)}"
        )

    def _creation(self, name: str, figures: str) -> str:
        ledger, dataset = shlex.quote(self.shown_url), shlex.quote(name)
        return f"marquee budget create --ledger {ledger} --dataset {dataset} {figures}"
