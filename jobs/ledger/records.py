"""What the ledger holds, as values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from fractions import Fraction

from dpcore.kernel.budget import Budget, Currency
from jobs.ledger.amounts import total_of
from jobs.ledger.windows import Window, current_start


class State(StrEnum):
    """How far a release has come; a release only moves down this list."""

    PLANNED = "planned"
    RESERVED = "reserved"
    AGGREGATED = "aggregated"
    MEASURING = "measuring"
    ESTIMATED = "estimated"
    PUBLISHED = "published"

    @property
    def step(self) -> int:
        return list(State).index(self)


class Accounting(StrEnum):
    """In what a dataset with delta > 0 is accounted. AUTO: as its first reservation is, and from then on for ever."""

    AUTO = "auto"
    ZCDP = "zcdp"
    GDP = "gdp"

    @property
    def currency(self) -> Currency | None:
        return {Accounting.AUTO: None, Accounting.ZCDP: Currency.ZCDP, Accounting.GDP: Currency.GDP}[self]


@dataclass(frozen=True)
class DatasetBudget:
    """A dataset's budget, for ever. epsilon and delta are as the operator wrote them; total and spent are exact.

    currency, total: None while the first reservation has yet to choose the currency.
    consumers_only: Whether every release has to name a consumer.
    salt, fingerprint_key: SENSITIVE.
    """

    name: str
    path: str | None
    currency: Currency | None
    total: Fraction | None
    spent: Fraction
    epsilon: float
    delta: float
    consumers_only: bool
    salt: bytes = field(repr=False)
    fingerprint_key: bytes = field(repr=False)

    @property
    def remaining(self) -> Fraction | None:
        return None if self.total is None else self.total - self.spent

    def settled(self, currency: Currency) -> DatasetBudget:
        """The same budget in a currency that nothing has chosen yet."""
        return replace(self, currency=currency, total=total_of(self.epsilon, self.delta, currency))


@dataclass(frozen=True)
class ConsumerBudget:
    """How much of a dataset's budget one consumer may spend, in each window.

    spent: In the window that starts at ``window_start``. total: None while the dataset has no currency.
    """

    dataset: str
    name: str
    window: Window
    epsilon: float
    delta: float
    total: Fraction | None
    spent: Fraction
    window_start: str

    def at(self, now: datetime) -> ConsumerBudget:
        """The same in the window of ``now``: a new one starts with nothing spent."""
        start = current_start(self.window, self.window_start, now)
        return self if start == self.window_start else replace(self, window_start=start, spent=Fraction(0))

    def settled(self, currency: Currency) -> ConsumerBudget:
        """The same limit in a currency that nothing has chosen yet."""
        return replace(self, total=total_of(self.epsilon, self.delta, currency))


@dataclass(frozen=True)
class ReleaseRecord:
    """What the ledger knows of a release.

    answers, journal_head: How many answers it knows to be in the journal, and the hash of the last of them. answers is
        None in a release of layout 1, whose head is that of the first answer, and from ESTIMATED on that of all.
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


@dataclass(frozen=True)
class ChargeRecord:
    """One charge of a dataset; the amount is in the dataset's currency."""

    release_id: str
    consumer: str | None
    amount: Fraction
    state: State
    charged: str


@dataclass(frozen=True)
class GrantRecord:
    """One change of what a dataset (consumer None) or a consumer may spend; amount None without a currency."""

    consumer: str | None
    window: Window
    epsilon: float
    delta: float
    amount: Fraction | None
    reason: str
    granted: str


@dataclass(frozen=True)
class PlannedRelease:
    """What a run tells the ledger before it reserves.

    path: Where the data are, in the one spelling to which the dataset's name is bound.
    fingerprint: SENSITIVE.
    consumer: Who pays beside the dataset.
    promise: Its (epsilon, delta), for advice in a refusal.
    """

    release_id: str
    dataset: str
    budget: Budget
    path: str
    fingerprint: str = field(repr=False)
    state_folder: str
    consumer: str | None = None
    promise: tuple[float, float] | None = None
