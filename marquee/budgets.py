"""Privacy budgets as objects: the ledger, the budget of a dataset, and amounts of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, final

from dpcore.errors import ConfigError
from dpcore.kernel.sensitivity import Neighbours
from jobs.budget_facts import epsilon_alone, epsilon_spent, not_negative
from jobs.budget_lines import dataset_line
from jobs.ledger import DEFAULT_LEDGER, SqlLedger
from jobs.ledger.connection import shown_ledger
from jobs.ledger.protection import protection_of_bounds
from jobs.ledger.records import Accounting, ChargeRecord, DatasetBudget, GrantRecord
from jobs.ledger.windows import Window
from marquee.sentences import of_python
from pipelines.unit_names import combined_name


def ledger_url(ledger: str | os.PathLike[str] | Ledger) -> str:
    """The database URL of a ledger.

    ledger: A ``Ledger``, a database URL, or the path of a SQLite file.
    """
    if isinstance(ledger, Ledger):
        return ledger.url
    text = os.fspath(ledger)
    return text if "://" in text else f"sqlite:///{text}"


@dataclass(frozen=True)
class Amount:
    """A part of a budget. Amounts of one currency add up and subtract; the epsilons of their own do not.

    currency: ``"epsilon"``, ``"rho"`` or ``"mu^2"``; None until the first release fixes the accounting.
    amount: The exact amount in this currency; None until then.
    epsilon: The epsilon of this amount alone, at ``delta``.
    delta: The delta of the dataset's total.
    """

    currency: str | None
    amount: Fraction | None
    epsilon: float
    delta: float

    def __str__(self) -> str:
        figures = f"epsilon {self.epsilon:.4g} at delta {self.delta:g}"
        return figures if self.amount is None else f"{self.currency} = {float(self.amount):.6g} ({figures})"


@final
@dataclass(frozen=True)
class Ledger:
    """A ledger: the privacy budgets of datasets, and every charge against them.

    url: Database URL, or the path of a SQLite file. It is created with the first budget.
    """

    url: str = DEFAULT_LEDGER

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", ledger_url(self.url))

    def __repr__(self) -> str:
        return f"marquee.Ledger({shown_ledger(self.url)!r})"

    def create(
        self,
        name: str,
        epsilon: float,
        delta: float,
        *,
        accounting: Literal["auto", "zcdp", "gdp"] = "auto",
        consumers_only: bool = False,
        unit: str | Sequence[str] | None = None,
        rows_per_unit: int | None = None,
        items_per_unit: int | None = None,
        neighbours: Literal["add_remove_unit", "replace_one_unit"] | None = None,
    ) -> Budget:
        """Creates the budget of a dataset, as ``marquee budget create`` does. A second equal call changes nothing.

        name: Name of the dataset, as in configs.
        epsilon, delta: The guarantee that all releases of the dataset have together.
        accounting: Accounting of the budget if delta > 0. With ``"auto"`` the first release fixes it.
        consumers_only: Whether every release must name a consumer.
        unit: Column of the unit that the total protects, or several that name it together. By default the first release
            binds it.
        rows_per_unit, items_per_unit: Largest number of rows or items of a unit that the total protects.
        neighbours: Neighbouring relation of the total. By default the first release binds it.

        Raises: ConfigError when the numbers define no budget, or the dataset has another one.
        """
        name_of_unit = unit if unit is None or isinstance(unit, str) else combined_name(unit)
        relation = None if neighbours is None else Neighbours(neighbours)
        protection = protection_of_bounds(name_of_unit, rows_per_unit, items_per_unit, relation)
        chosen = Accounting(accounting)
        SqlLedger(self.url).create_dataset(
            name, epsilon, delta, accounting=chosen, consumers_only=consumers_only, protection=protection
        )
        return Budget(self, name)

    def dataset(self, name: str) -> Budget:
        """The budget of a dataset.

        Raises: NoBudgetError when there is none.
        """
        budget = Budget(self, name)
        _ = budget.record
        return budget

    def datasets(self) -> list[Budget]:
        """The budgets of all datasets, by name."""
        return [Budget(self, record.name) for record in SqlLedger(self.url).datasets()]


@final
@dataclass(frozen=True)
class Budget:
    """The budget of a dataset. Every property asks the ledger anew, and checks its sums against its charges.

    ledger: The ledger.
    name: Name of the dataset.
    """

    ledger: Ledger = field(repr=False)
    name: str

    @property
    def record(self) -> DatasetBudget:
        """All that the ledger records of the dataset.

        Raises: NoBudgetError for an unknown dataset; IntegrityError when the sums contradict the charges.
        """
        with of_python(self.ledger.url, self.name):
            return SqlLedger(self.ledger.url).verified(self.name)

    @property
    def total(self) -> Amount:
        """What all releases together may spend."""
        record = self.record
        return Amount(_currency(record), record.total, record.epsilon, record.delta)

    @property
    def spent(self) -> Amount:
        """What the releases so far have spent; of a partitioned dataset, what a unit has lost at most."""
        record = self.record
        epsilon = 0.0 if record.currency is None else epsilon_spent(record, record.currency)
        return Amount(_currency(record), record.spent, epsilon, record.delta)

    @property
    def remaining(self) -> Amount:
        """What may still be spent."""
        record = self.record
        if record.remaining is None:
            return Amount(None, None, record.epsilon, record.delta)
        return _amount(record, not_negative(record.remaining))

    @property
    def history(self) -> list[ChargeRecord]:
        """Every charge, oldest first."""
        with of_python(self.ledger.url, self.name):
            return SqlLedger(self.ledger.url).history(self.name)

    @property
    def grants(self) -> list[GrantRecord]:
        """Every decision about what the dataset and its consumers may spend, oldest first."""
        return SqlLedger(self.ledger.url).grants(self.name)

    def raise_total(self, epsilon: float, delta: float, *, reason: str) -> None:
        """Raises the total. It can never be lowered, and the reason is recorded.

        epsilon, delta: The new guarantee of all releases together.
        reason: Why the total is raised.

        Raises: ConfigError when epsilon is smaller than before, delta differs, or there is no reason.
        """
        if not reason.strip():
            raise ConfigError("reason is empty; want the reason why the dataset's total is raised")
        SqlLedger(self.ledger.url).raise_total(self.name, epsilon, delta, reason)

    def grant(self, consumer: str, epsilon: float, delta: float, *, window: str = "none", reason: str = "") -> None:
        """Sets the limit of a consumer, as ``marquee budget grant --consumer`` does.

        consumer: Name of the consumer, as in ``consumer`` of a release.
        epsilon, delta: The limit per window.
        window: Calendar window (UTC) of the limit, such as ``"month"``; ``"none"`` for all time.
        reason: Reason for the grant, which is recorded.
        """
        SqlLedger(self.ledger.url).grant_consumer(self.name, consumer, epsilon, delta, Window(window), reason)

    def __str__(self) -> str:
        return dataset_line(self.record)


def _currency(record: DatasetBudget) -> str | None:
    return None if record.currency is None else record.currency.value


def _amount(record: DatasetBudget, amount: Fraction) -> Amount:
    epsilon = 0.0 if record.currency is None else epsilon_alone(amount, record.currency, record.delta)
    return Amount(_currency(record), amount, epsilon, record.delta)
