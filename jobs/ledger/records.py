"""The records of the ledger as frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from fractions import Fraction

from dpcore.errors import BudgetExceededError, ConfigError
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.item_threshold import LARGEST_THRESHOLD_DELTA, without_threshold_delta
from dpcore.kernel.sensitivity import Neighbours
from jobs.ledger.amounts import total_of
from jobs.ledger.partitioning import Blocks, Partitioning
from jobs.ledger.windows import Window, current_start
from jobs.planning.identity import Identity
from jobs.planning.series import SeriesFacts
from pipelines.source.content import FileContent


class State(StrEnum):
    """State of a release. It only ever moves forward, in this order."""

    PLANNED = "planned"
    RESERVED = "reserved"
    AGGREGATED = "aggregated"
    MEASURING = "measuring"
    ESTIMATED = "estimated"
    PUBLISHED = "published"

    @property
    def step(self) -> int:
        """Position in the order, from 0."""
        return list(State).index(self)


class Accounting(StrEnum):
    """Accounting of a dataset with delta > 0. With AUTO, the first reservation fixes it."""

    AUTO = "auto"
    ZCDP = "zcdp"
    GDP = "gdp"

    @property
    def currency(self) -> Currency | None:
        """The currency; None if the first reservation will choose it."""
        return {Accounting.AUTO: None, Accounting.ZCDP: Currency.ZCDP, Accounting.GDP: Currency.GDP}[self]


@dataclass(frozen=True)
class Protection:
    """Whom a guarantee protects: the units of one column, under one neighbouring relation.

    unit: Column that identifies the unit; None if the first reservation will bind it.
    contribution: What the bound counts, "rows" or "items"; None without a bound.
    max_per_unit: Maximum number of rows or items of a unit that are used; None if there is no bound.
    neighbours: Neighbouring relation; None if the first reservation will bind it.
    """

    unit: str | None = None
    contribution: str | None = None
    max_per_unit: int | None = None
    neighbours: Neighbours | None = None

    @property
    def is_bound(self) -> bool:
        """Whether nothing is left for a reservation to bind."""
        return self.unit is not None and self.neighbours is not None

    def bound_by(self, release: Protection) -> Protection:
        """This protection, in which a release has bound whatever was open."""
        bound = self if self.unit is not None else replace(release, neighbours=self.neighbours)
        return replace(bound, neighbours=self.neighbours or release.neighbours)


OPEN = Protection()


@dataclass(frozen=True)
class DatasetSecrets:
    """The secrets of a dataset, which runs alone need. SENSITIVE.

    salt: Key of the hash that chooses which rows of a unit are kept.
    fingerprint_key: Key of the hash that identifies the input of a release.
    """

    salt: bytes = field(repr=False)
    fingerprint_key: bytes = field(repr=False)


@dataclass(frozen=True)
class DatasetBudget:
    """The budget of a dataset for all time.

    name: Name of the dataset.
    path: The bound path of its data; None before its first run.
    currency: Currency of its budget; None if the first reservation will choose it.
    total: Exact amount that all releases together may spend; None as long as the currency is open.
    spent: Exact amount that the releases so far have spent; of a partitioned dataset, what a unit has lost at most.
    epsilon: Epsilon of the total, as the operator wrote it.
    delta: Delta of the total, as the operator wrote it.
    consumers_only: Whether every release must name a consumer.
    protection: Whom the total protects.
    shares_with: Another dataset whose data this dataset may use too, if the operator has allowed that.
    partitioning: How the dataset is partitioned; None for a dataset that is charged as a whole.
    threshold_delta: Sum of the threshold deltas of its releases, which delta pays for (``thresholds``).
    surcharges: The part of ``spent`` that pays for these threshold deltas, beside the noise of the releases.
    """

    name: str
    path: str | None
    currency: Currency | None
    total: Fraction | None
    spent: Fraction
    epsilon: float
    delta: float
    consumers_only: bool
    protection: Protection
    shares_with: str | None
    partitioning: Partitioning | None = None
    threshold_delta: Fraction = Fraction(0)
    surcharges: Fraction = Fraction(0)

    @property
    def data_owner(self) -> str:
        """Name that all datasets that may use the same data have in common."""
        return self.shares_with or self.name

    @property
    def remaining(self) -> Fraction | None:
        """Exact amount that may still be spent; None as long as the currency is open."""
        return None if self.total is None else self.total - self.spent - self.kept_free

    @property
    def kept_free(self) -> Fraction:
        """Exact amount that stays free for the thresholds of its releases, because no surcharge covers it.

        The surcharges cover the total at their time; a total that was raised since then may need more. A ledger that
        was changed by hand so that delta is too small for its thresholds has nothing to spend.
        """
        try:
            return self.uncovered(self.threshold_delta)
        except BudgetExceededError:
            return self.total or Fraction(0)

    def uncovered(self, threshold_delta: Fraction) -> Fraction:
        """What thresholds with this sum of threshold deltas keep free of the total, beyond the surcharges so far.

        Raises: BudgetExceededError when the delta of the dataset is too small for them.
        """
        if not threshold_delta or self.total is None or self.currency is None:
            return Fraction(0)
        try:
            smaller = total_of(*without_threshold_delta(self.epsilon, self.delta, threshold_delta), self.currency)
        except (ValueError, ConfigError) as error:
            delta = min(Fraction(self.delta), LARGEST_THRESHOLD_DELTA)
            raise BudgetExceededError("delta of discovered items", threshold_delta, delta, "delta") from error
        return max(Fraction(0), self.total - smaller - self.surcharges)

    def settled(self, currency: Currency) -> DatasetBudget:
        """The budget after the first reservation has chosen ``currency``."""
        return replace(self, currency=currency, total=total_of(self.epsilon, self.delta, currency))


@dataclass(frozen=True)
class ConsumerBudget:
    """The limit of one consumer of a dataset, per window.

    dataset: Name of the dataset.
    name: Name of the consumer.
    window: Calendar window in which the limit applies.
    epsilon: Epsilon of the limit, as the operator wrote it.
    delta: Delta of the limit, as the operator wrote it.
    total: Exact limit per window, in the dataset's currency; None as long as the currency is open.
    spent: Exact amount spent in the window that starts at ``window_start``.
    window_start: First day of that window, such as 2026-11-01; empty for a limit without windows.
    """

    dataset: str
    name: str
    window: Window
    epsilon: float
    delta: float
    total: Fraction | None
    spent: Fraction
    window_start: str

    @property
    def remaining(self) -> Fraction | None:
        """Exact amount that may still be spent in the window; None as long as the currency is open."""
        return None if self.total is None else self.total - self.spent

    def at(self, now: datetime) -> ConsumerBudget:
        """The limit in the window of ``now``. In a new window nothing is spent yet."""
        start = current_start(self.window, self.window_start, now)
        return self if start == self.window_start else replace(self, window_start=start, spent=Fraction(0))

    def settled(self, currency: Currency) -> ConsumerBudget:
        """The limit after the dataset's first reservation has chosen ``currency``."""
        return replace(self, total=total_of(self.epsilon, self.delta, currency))


@dataclass(frozen=True)
class ReleaseRecord:
    """The ledger's record of a release.

    release_id: SHA-256 of the release's public facts.
    dataset: Name of its dataset.
    consumer: Name of the consumer that is charged too, if there is one.
    budget: Its budget, in its own currency.
    state: Its state.
    state_folder: Folder of its journal.
    answers: Number of answers that the ledger has recorded; None for a release of layout 1.
    journal_head: Hash of the last of these answers; None before the first answer. For a release of layout 1 it is the
        hash of the first answer and, from ESTIMATED on, the hash of all answers.
    output: Its published folder; None before it is published.
    protection: Whom it protects; open for a release of layouts 1 and 2.
    manifest_sha256: SHA-256 of its published manifest.json; None before it is published, and for a release that
        layouts 1 and 2 have published.
    version: Version of the program that planned it; None for a release of layouts 1 and 2.
    """

    release_id: str
    dataset: str
    consumer: str | None
    budget: Budget
    state: State
    state_folder: str
    answers: int | None
    journal_head: str | None
    output: str | None
    protection: Protection
    manifest_sha256: str | None
    version: str | None = None


@dataclass(frozen=True)
class OtherVersion:
    """A charged release that another version of the program made for the same config, snapshot and files.

    record: The ledger's record of it.
    version: Version of the program.
    charged: Time of its charge, in UTC.
    fingerprint: Keyed hash of its input. SENSITIVE.
    """

    record: ReleaseRecord
    version: str
    charged: str
    fingerprint: str = field(repr=False)

    @property
    def described(self) -> str:
        """Release, version and date, for a message."""
        return (
            f"release {self.record.release_id[:12]} of version {self.version}, charged on {self.charged[:10]}, is the "
            "same release: it has the same config, schema and snapshot"
        )


@dataclass(frozen=True)
class ChargeRecord:
    """One charge of a dataset.

    release_id: The release that was charged.
    consumer: The consumer that was charged too, if there is one.
    amount: Exact amount in the dataset's currency, and for whom the dataset's total protects.
    state: Current state of the release.
    charged: Time of the charge, in UTC.
    protection: Whom the release itself protects; open for a release of layouts 1 and 2.
    repeats: The release of another version that it makes again, at the operator's request; None for all others.
    blocks: Names of the partitions that it was charged to; empty for the whole dataset.
    surcharge: The part of the amount that pays for the threshold of a discovery; the rest is its budget.
    threshold_delta: What this threshold takes from the delta of the dataset; 0 for a release without a discovery.
    """

    release_id: str
    consumer: str | None
    amount: Fraction
    state: State
    charged: str
    protection: Protection
    repeats: str | None = None
    blocks: tuple[str, ...] = ()
    surcharge: Fraction = Fraction(0)
    threshold_delta: Fraction = Fraction(0)


@dataclass(frozen=True)
class GrantRecord:
    """One change of what a dataset or a consumer may spend.

    consumer: Name of the consumer; None for the dataset's total.
    window: Calendar window of the limit.
    epsilon: Epsilon of the new limit, as the operator wrote it.
    delta: Delta of the new limit, as the operator wrote it.
    amount: The new limit in the dataset's currency; None as long as the currency is open.
    protection: Whom the dataset's total protects; open for a consumer.
    reason: The operator's reason.
    granted: Time of the grant, in UTC.
    """

    consumer: str | None
    window: Window
    epsilon: float
    delta: float
    amount: Fraction | None
    protection: Protection
    reason: str
    granted: str


@dataclass(frozen=True)
class PlannedRelease:
    """What a run tells the ledger about its release before it reserves the budget.

    identity: What makes another release the same as this one.
    dataset: Name of the dataset.
    budget: Budget of the release.
    path: Canonical path of the data, as ``jobs.planning.identity.bound_path`` returns it.
    fingerprint: Keyed hash of the input. SENSITIVE.
    state_folder: Folder of the release's journal.
    protection: Whom the release protects; nothing in it is open.
    linked_files: Canonical paths of files outside ``path`` to which links in it lead.
    contents: What identifies the content of each file, without a key. SENSITIVE.
    rows: What identifies the rows of a table of a catalog, or of a frame; None for files. SENSITIVE.
    consumer: Consumer that is charged in addition to the dataset, if there is one.
    promise: (epsilon, delta) of the release, for the advice in a refusal.
    again: Whether it is charged although another version was charged for the same release.
    blocks: The partitions that it is charged to; None for the whole dataset.
    series: The series that it is a step of; None for a release that stands alone.
    threshold_delta: What the threshold of a discovery takes from delta; 0 without one.
    """

    identity: Identity
    dataset: str
    budget: Budget
    path: str
    fingerprint: str = field(repr=False)
    state_folder: str
    protection: Protection
    linked_files: tuple[str, ...] = ()
    contents: tuple[FileContent, ...] = field(default=(), repr=False)
    rows: FileContent | None = field(default=None, repr=False)
    consumer: str | None = None
    promise: tuple[float, float] | None = None
    again: bool = False
    blocks: Blocks | None = None
    series: SeriesFacts | None = None
    threshold_delta: Fraction = Fraction(0)

    @property
    def release_id(self) -> str:
        """SHA-256 of the release's public facts."""
        return self.identity.release_id
