"""The interface of the ledger, with one transaction per method, on SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from typing import final

from sqlalchemy import Connection, select

from dpcore.errors import NoBudgetError
from dpcore.kernel.budget import Budget
from jobs.figures import format_exact
from jobs.ledger import binding, budgets, missing, releases, schema
from jobs.ledger.audit import verify
from jobs.ledger.binding import Move
from jobs.ledger.block_rows import block_sums
from jobs.ledger.budgets import Creation
from jobs.ledger.connection import Database
from jobs.ledger.contents import is_content_known
from jobs.ledger.other_versions import charged_by_others
from jobs.ledger.partitioning import BlockSums, Partitioning
from jobs.ledger.pricing import Price, Request, priced
from jobs.ledger.records import (
    OPEN,
    Accounting,
    ChargeRecord,
    ConsumerBudget,
    DatasetBudget,
    DatasetSecrets,
    GrantRecord,
    OtherVersion,
    PlannedRelease,
    Protection,
    ReleaseRecord,
    State,
)
from jobs.ledger.rows import charged_at, charges_of, find_dataset, find_release, find_secrets, release_of
from jobs.ledger.series_records import SeriesRecords
from jobs.ledger.tables import DATASETS
from jobs.ledger.windows import Window
from jobs.planning.identity import Identity
from jobs.planning.series import SeriesFacts
from pipelines.source.content import FileContent

DEFAULT_LEDGER = "sqlite:///marquee.db"
LOCK_SECONDS = 30.0


@final
class SqlLedger:
    """The privacy budgets of datasets, and every charge against them.

    Every method is one transaction, but ``create_dataset`` first creates missing tables in another. A transaction
    begins by taking a lock: the write lock on SQLite, the lock of the dataset's row on PostgreSQL. There, methods
    that only read see one state of the ledger without a lock. The first transaction on a ledger of an older layout
    migrates it.

    url: Database URL.
    lock_seconds: Maximum wait for a lock, in seconds.
    clock: Returns the current time.

    Formal guarantees:
        * The sum of a dataset's charges (of a partitioned one: what a unit can have lost) never exceeds its total, and
          the sum of a consumer's charges in a window never exceeds its limit, however many processes and machines
          charge at the same time and wherever they are killed.
        * A release is charged once, however often it is reserved. When ``reserve`` returns, the charge is durable.
        * The database refuses to change or delete charges and grants.

    Raises: LedgerUnavailableError when the database cannot be reached or stays locked; ConfigError when its layout is
        newer than this program.
    """

    def __init__(
        self, url: str, lock_seconds: float = LOCK_SECONDS, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._database = Database(url, lock_seconds)
        self._clock = clock
        self._prepared = False

    @property
    def series(self) -> SeriesRecords:
        """What is known of series of releases, with one transaction per method as well."""
        return SeriesRecords(self._transaction)

    @property
    def shown_url(self) -> str:
        """The database URL without secrets."""
        return self._database.shown_url

    def create_dataset(
        self,
        name: str,
        epsilon: float,
        delta: float,
        *,
        accounting: Accounting = Accounting.AUTO,
        consumers_only: bool = False,
        protection: Protection = OPEN,
        shares_with: str | None = None,
        reason: str = "",
        partitioning: Partitioning | None = None,
    ) -> DatasetBudget:
        """Creates the budget of a dataset. A second call with the same arguments changes nothing.

        For an existing dataset, a second call may bind what is still open in ``protection``.

        name: Name of the dataset, as in configs.
        epsilon: Epsilon that all releases together may spend, positive.
        delta: Delta of that guarantee, in [0, 1).
        accounting: Accounting of the budget if delta > 0.
        consumers_only: Whether every release must name a consumer.
        protection: Whom the total protects; the first reservation binds what is open.
        shares_with: Another dataset of this ledger whose data this dataset may use too. Nothing then bounds what a unit
            loses through both.
        reason: The operator's reason, which ``shares_with`` requires.
        partitioning: How the dataset is partitioned for ever; a second call may bind it if it is open.

        Raises: ConfigError when the numbers do not define a budget, or the dataset has another budget; NoBudgetError
            when there is no dataset ``shares_with``.
        """
        creation = Creation(
            name, epsilon, delta, accounting, consumers_only, protection, shares_with, reason, partitioning
        )
        creation.check()  # The check comes before the file is created, so that a refusal leaves no file behind.
        with self._database.transaction(create=True) as connection:
            schema.create(connection)
        with self._transaction() as connection:
            find_dataset(connection, name, lock=True)
            schema.lock_layout(connection)  # A dataset that does not exist yet has no row that could be locked.
            return budgets.create_dataset(connection, creation, self._clock())

    def raise_total(self, name: str, epsilon: float, delta: float, reason: str) -> DatasetBudget:
        """Raises the total of a dataset to (epsilon, delta).

        Raises: ConfigError when epsilon is smaller than before, or delta differs.
        """
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
        """Sets the limit of a consumer per window, within the dataset's total.

        A later call may change the limit, but not the window.

        Raises: ConfigError when the window differs from the one before, or when only one of the deltas of the consumer
            and the dataset is 0.
        """
        limit = ConsumerBudget(dataset, consumer, window, epsilon, delta, None, Fraction(0), "")
        with self._transaction() as connection:
            return budgets.grant_consumer(connection, limit, reason, self._clock())

    def move(
        self,
        name: str,
        path: str,
        reason: str,
        contents: tuple[FileContent, ...] | None = None,
        *,
        new_content: bool = False,
    ) -> DatasetBudget:
        """Binds a dataset to the new path of its data. The budget does not change, and the move is recorded.

        name: Name of the dataset.
        path: Canonical path, as ``jobs.planning.identity.bound_path`` returns it.
        reason: The operator's reason.
        contents: The files there, as ``pipelines.source.read_contents`` returns them; None if they were not read, which
            only ``new_content`` or an unknown content of the dataset (``is_content_known``) permits.
        new_content: Whether the files there need not hold content of the dataset. It is recorded.

        Raises: ConfigError when no run has bound the dataset yet, the path or its files belong to another dataset, or
            no file holds content of the dataset.
        """
        with self._transaction() as connection:
            return binding.move(connection, name, Move(path, reason, contents, new_content), self._clock())

    def is_content_known(self, name: str) -> bool:
        """Whether the ledger can recognise the data of a dataset. Only runs of version 0.11 or later record that."""
        with self._transaction() as connection:
            return is_content_known(connection, name)

    def check_there(self) -> None:
        """Raises NoBudgetError when there is no ledger at the URL."""
        if not self._ledger_exists():
            raise NoBudgetError(missing.no_ledger(self.shown_url))

    def ledger_id(self) -> str | None:
        """The id of this ledger, 16 hexadecimal digits; None if there is no ledger yet."""
        if not self._ledger_exists():
            return None
        with self._transaction() as connection:
            return schema.read_id(connection)

    def datasets(self) -> list[DatasetBudget]:
        """All datasets, each checked against its charges and grants; empty if there is no ledger.

        Raises: IntegrityError when a dataset contradicts its charges or grants.
        """
        if not self._ledger_exists():
            return []
        with self._transaction(snapshot=True) as connection:
            names = connection.execute(select(DATASETS.c.name).order_by(DATASETS.c.name)).scalars().all()
            return [self._verified(connection, name) for name in names]

    def dataset(self, name: str, epsilon: float, delta: float) -> DatasetBudget:
        """The budget of a dataset.

        epsilon, delta: What the error message suggests for a missing budget.

        Raises: NoBudgetError, with the command that creates the budget, when there is none.
        """
        figures = f"--epsilon {format_exact(epsilon)} --delta {format_exact(delta)}"
        if not self._ledger_exists():
            raise NoBudgetError(missing.no_ledger(self.shown_url, name, figures))
        with self._transaction() as connection:
            budget = find_dataset(connection, name)
        if budget is None:
            raise NoBudgetError(missing.no_budget(self.shown_url, name, figures))
        return budget

    def secrets(self, dataset: str) -> DatasetSecrets:
        """The secrets of a dataset, for its runs. SENSITIVE. Raises NoBudgetError for an unknown dataset."""
        with self._transaction() as connection:
            return find_secrets(connection, dataset)

    def verified(self, name: str) -> DatasetBudget:
        """The budget of one dataset, checked against its charges and grants. Raises the exceptions of ``history``."""
        with self._transaction(snapshot=True) as connection:
            return self._verified(connection, name)

    def block_sums(self, name: str) -> BlockSums:
        """The sums of a dataset's charges by partition. Raises NoBudgetError for an unknown dataset."""
        with self._transaction(snapshot=True) as connection:
            return block_sums(connection, self._verified(connection, name))

    def consumers(self, dataset: str) -> list[ConsumerBudget]:
        """The consumers of a dataset, by name, with what they have spent in the current window."""
        with self._transaction() as connection:
            return [consumer.at(self._clock()) for consumer in budgets.consumers(connection, dataset)]

    def grants(self, dataset: str) -> list[GrantRecord]:
        """All grants of a dataset and its consumers, oldest first."""
        with self._transaction() as connection:
            return budgets.grants(connection, dataset)

    def history(self, name: str) -> list[ChargeRecord]:
        """All charges of a dataset, oldest first.

        Raises: NoBudgetError for an unknown dataset; IntegrityError when the dataset contradicts its charges or grants.
        """
        with self._transaction(snapshot=True) as connection:
            self._verified(connection, name)
            return charges_of(connection, name)

    def charged_at(self, release_id: str) -> str | None:
        """The time at which a release was charged, in UTC and ISO format; None if it was not charged."""
        with self._transaction() as connection:
            return charged_at(connection, release_id)

    def release(self, release_id: str) -> ReleaseRecord | None:
        """The record of a release; None if the ledger has none."""
        if not self._ledger_exists():
            return None
        with self._transaction() as connection:
            row = find_release(connection, release_id)
            return None if row is None else release_of(row)

    def charged_by_others(self, identity: Identity) -> list[OtherVersion]:
        """The charged releases of other versions that are the same as this one, the latest first."""
        if not self._ledger_exists():
            return []
        with self._transaction() as connection:
            return charged_by_others(connection, identity)

    def price(self, dataset: str, request: Request) -> Price:
        """What a release would be charged now. Nothing is written, and another release may be charged before it.

        Raises: BudgetExceededError when the release exceeds the remaining budget; NoBudgetError when there is no ledger
            or dataset, or the release cannot be charged to the dataset or its consumer.
        """
        with self._transaction() as connection:
            budget = find_dataset(connection, dataset)
            if budget is None:
                raise NoBudgetError(missing.no_budget(self.shown_url, dataset))
            return priced(connection, budget, request, self._clock())

    def plan(self, planned: PlannedRelease) -> ReleaseRecord:
        """Records a release that is ready to run, and binds the dataset's name to its path.

        Returns: The record of the release, whether it is new or already known.
        Raises: ConfigError when name and path do not belong together; BudgetExceededError when the release exceeds the
            remaining budget; NoBudgetError when its dataset or consumer has no budget for it; ChargedBeforeError when
            another version was charged for it; IntegrityError when it was planned with other input. Nothing is written.
        """
        with self._transaction() as connection:
            return releases.plan(connection, planned, self._clock())

    def reserve(
        self,
        release_id: str,
        budget: Budget,
        series: SeriesFacts | None = None,
        threshold_delta: Fraction = Fraction(0),
    ) -> None:
        """Charges the whole budget of a release, or 0 for a later step of a series, and its threshold delta.

        Raises: The exceptions of ``plan`` and ``paid_by``; nothing is charged then.
        """
        with self._transaction() as connection:
            releases.reserve(connection, release_id, budget, self._clock(), series, threshold_delta)

    def record_answer(self, release_id: str, number: int, before: str | None, head: str) -> None:
        """Records that an answer is in the journal. This happens before the answer is used.

        release_id: The release.
        number: Number of the answer, from 0.
        before: Hash of the journal before the answer; None for the first answer.
        head: Hash of the journal with the answer.

        Raises: IntegrityError when the release has other answers, such as those of a run on another machine. Using both
            would reveal two draws for one charge.
        """
        with self._transaction() as connection:
            releases.record_answer(connection, release_id, number, before, head, self._clock())

    def adopt_journal(self, release_id: str, answers: int, head: str) -> None:
        """Records the whole journal of a release of layout 1, for which the ledger has stored only one hash."""
        with self._transaction() as connection:
            releases.adopt_journal(connection, release_id, answers, head, self._clock())

    def advance(
        self,
        release_id: str,
        state: State,
        *,
        journal_head: str | None = None,
        output: str | None = None,
        manifest: str | None = None,
    ) -> None:
        """Advances a release to a state. If it is already there or beyond, only the output folder and a manifest that
        was not recorded yet change.

        release_id: The release.
        state: Its new state.
        journal_head: Hash of its journal, which is compared with the hash in the ledger; None skips the comparison.
        output: Its published folder; None leaves it unchanged.
        manifest: SHA-256 of its published manifest.json; it is recorded once. None leaves it unchanged.

        Raises: IntegrityError when the ledger has recorded another hash of the journal or of the manifest.
        """
        with self._transaction() as connection:
            publication = releases.Publication(output, manifest)
            releases.advance(connection, release_id, state, journal_head, publication, self._clock())

    def record_manifest(self, release_id: str, manifest: str) -> None:
        """Records the SHA-256 of the manifest of a release that is about to be published, in place of an earlier one.

        A folder that was lost is written again, and its certificate may name other versions of packages.
        """
        with self._transaction() as connection:
            releases.record_manifest(connection, release_id, manifest, self._clock())

    def _ledger_exists(self) -> bool:
        """Whether there is a ledger at the URL. A ledger of an older layout is migrated."""
        if not self._database.exists():
            return False
        if not self._prepared:
            with self._database.transaction() as connection:
                self._prepared = schema.prepare(connection)
        return self._prepared

    @contextmanager
    def _transaction(self, snapshot: bool = False) -> Iterator[Connection]:
        """A transaction on an existing ledger whose layout this program supports. snapshot: See ``Database``."""
        self.check_there()
        with self._database.transaction(snapshot=snapshot) as connection:
            # A newer program may have migrated the ledger since the last check; none can during this transaction.
            schema.check(schema.read_version(connection))
            yield connection

    def _verified(self, connection: Connection, name: str) -> DatasetBudget:
        dataset = find_dataset(connection, name)
        if dataset is None:
            raise NoBudgetError(missing.no_budget(self.shown_url, name))
        verify(connection, dataset)
        return dataset
