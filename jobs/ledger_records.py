"""What the ledger holds, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from dpcore.errors import NoBudgetError
from dpcore.kernel.budget import Budget, Currency


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


@dataclass(frozen=True)
class DatasetBudget:
    """A dataset's budget. epsilon and delta are as the operator wrote them; total and spent are exact.

    salt, fingerprint_key: SENSITIVE.
    """

    name: str
    path: str | None
    currency: Currency
    total: Fraction
    spent: Fraction
    epsilon: float
    delta: float
    salt: bytes = field(repr=False)
    fingerprint_key: bytes = field(repr=False)

    @property
    def remaining(self) -> Fraction:
        return self.total - self.spent


@dataclass(frozen=True)
class ReleaseRecord:
    """What the ledger knows of a release.

    journal_head: Hash of the journal's first answer in state MEASURING, of the whole journal from ESTIMATED on.
    """

    release_id: str
    dataset: str
    budget: Budget
    state: State
    state_folder: str
    journal_head: str | None
    output: str | None


@dataclass(frozen=True)
class ChargeRecord:
    """One line of a dataset's history; the amount is in the dataset's currency."""

    release_id: str
    amount: Fraction
    state: State
    charged: str


@dataclass(frozen=True)
class PlannedRelease:
    """What a run tells the ledger before it reserves.

    path: Where the data are, in the one spelling to which the dataset's name is bound.
    fingerprint: SENSITIVE.
    """

    release_id: str
    dataset: str
    budget: Budget
    path: str
    fingerprint: str = field(repr=False)
    state_folder: str


def charged_amount(budget: Budget, currency: Currency, dataset: str) -> Fraction:
    """What a release costs in the dataset's currency: epsilon-DP implies epsilon^2 / 2 zCDP.

    Source: Bun and Steinke (2016), Proposition 1.4. Raises NoBudgetError for the other direction, which has no bound.
    """
    if budget.currency is currency:
        return budget.amount
    if currency is Currency.ZCDP:
        return budget.amount**2 / 2
    raise NoBudgetError(
        f"dataset {dataset!r} has a budget of pure epsilon, which no release with delta > 0 can be charged to; "
        "want privacy.delta: 0"
    )
