"""What ``marquee budget`` prints about the ledger: one line for each dataset, consumer, charge and grant."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from dpcore.kernel.budget import Currency
from jobs.budget_facts import epsilon_alone, epsilon_spent, not_negative
from jobs.figures import format_exact
from jobs.ledger.partitioning import BlockSums
from jobs.ledger.protection import described
from jobs.ledger.records import OPEN, ChargeRecord, ConsumerBudget, DatasetBudget, GrantRecord
from jobs.ledger.windows import Window

HOW_TO_ADD: Final = (
    "Only amounts of rho or mu^2 add up and subtract. The epsilons in brackets do not: each is the epsilon of its "
    "amount alone."
)
BUDGET_COLUMNS: Final = ("dataset", "accounting", "epsilon", "delta", "total", "spent", "remaining", "used")
_SHOWN_BLOCKS = 10


def dataset_line(dataset: DatasetBudget) -> str:
    """The budget of a dataset, and what was spent."""
    figures = f"epsilon {format_exact(dataset.epsilon)}, delta {format_exact(dataset.delta)}"
    figures = f"{figures} {described(dataset.protection, spent=bool(dataset.spent))}"
    only = "; consumers only" if dataset.consumers_only else ""
    if dataset.currency is None:
        return (
            f"{dataset.name}: {figures}; nothing spent; the first release fixes the accounting (zCDP or Gaussian DP)"
            f"{only}"
        )
    return (
        f"{dataset.name}: {figures}; {_spending(dataset, dataset.currency, dataset.delta)}{_kept_free(dataset)}{only}"
    )


def _kept_free(dataset: DatasetBudget) -> str:
    amount = dataset.kept_free
    return f"; {float(amount):.6g} kept free for the thresholds of discovered items" if amount else ""


def budget_row(dataset: DatasetBudget) -> list[str]:
    """The budget of a dataset as a row of a table with the columns ``BUDGET_COLUMNS``."""
    total, spent = dataset.total or Fraction(0), dataset.spent
    amounts = ["-", "-", "-"]
    if dataset.currency is not None:
        amounts = [f"{float(amount):.6g}" for amount in (total, spent, not_negative(dataset.remaining))]
    part = f"{float(spent / total):.1%}" if total else "-"
    accounting = "set by the first release" if dataset.currency is None else dataset.currency.value
    return [dataset.name, accounting, format_exact(dataset.epsilon), format_exact(dataset.delta), *amounts, part]


def block_lines(dataset: DatasetBudget, sums: BlockSums) -> list[str]:
    """How a partitioned dataset is composed, and its partitions with the largest sums."""
    if dataset.partitioning is None:
        return []
    amount = "" if dataset.currency is None else f"{dataset.currency.value} "
    lines = [f"partitioned {dataset.partitioning.described}; spent is {dataset.partitioning.composition}"]
    lines.append(f"the whole dataset: {amount}{float(sums.whole):.6g}; all charges: {amount}{float(sums.all):.6g}")
    largest = sorted(sums.blocks.items(), key=lambda block: (-block[1], block[0]))
    shown = largest[:_SHOWN_BLOCKS]
    lines += [f"{dataset.partitioning.column} = {name}: {amount}{float(spent):.6g}" for name, spent in shown]
    if len(largest) > len(shown):
        lines.append(f"and {len(largest) - len(shown):,} more of {len(largest):,} charged partitions")
    return lines


def _listed(column: str, names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{column}{', '.join(names[:3])}{more}"


def consumer_line(consumer: ConsumerBudget, currency: Currency | None) -> str:
    """The limit of a consumer, and what was spent. currency: That of the dataset."""
    window = "" if consumer.window is Window.NONE else f" each {consumer.window.value}"
    figures = f"epsilon {format_exact(consumer.epsilon)}, delta {format_exact(consumer.delta)}{window}"
    line = f"consumer {consumer.name}: {figures}"
    if currency is None:
        return line
    since = f" since {consumer.window_start}" if consumer.window_start else ""
    return f"{line}; {_spending(consumer, currency, consumer.delta)}{since}"


def _spending(budget: DatasetBudget | ConsumerBudget, currency: Currency, delta: float) -> str:
    total = budget.total or Fraction(0)
    remaining = not_negative(budget.remaining)
    spent_text = f"spent {currency.value} {float(budget.spent):.6g} of {float(total):.6g}"
    remaining_text = f"remaining {currency.value} {float(remaining):.6g}"
    return (
        f"{spent_text}{_as_text(epsilon_spent(budget, currency), currency, delta)}; "
        f"{remaining_text}{_as_text(epsilon_alone(remaining, currency, delta), currency, delta)}"
    )


def _as_text(epsilon: float, currency: Currency, delta: float) -> str:
    return "" if currency is Currency.PURE or not epsilon else f" (epsilon {epsilon:.4g} at delta {delta:g})"


def charge_line(charge: ChargeRecord, dataset: DatasetBudget) -> str:
    """One charge of a dataset."""
    amount = f"{float(charge.amount):.6g}"
    payer = "" if charge.consumer is None else f"  by {charge.consumer}"
    line = f"{charge.release_id[:12]}  {charge.state.value:<11}{amount:>12}  {charge.amount}{payer}"
    line = f"{line}  {described(charge.protection, spent=True)}"
    if charge.protection.is_bound and charge.protection.neighbours is not dataset.protection.neighbours:
        line = f"{line}, charged for {dataset.protection.neighbours}"
    if charge.blocks:
        column = "" if dataset.partitioning is None else f"{dataset.partitioning.column} = "
        line = f"{line}, for {_listed(column, charge.blocks)}"
    elif dataset.partitioning is not None:
        line = f"{line}, for the whole dataset"
    if charge.threshold_delta:
        surcharge = f"{float(charge.surcharge):.3g} of it a surcharge for threshold delta"
        line = f"{line}, {surcharge} {float(charge.threshold_delta):.3g} of discovered items"
    if charge.repeats is not None:
        line = f"{line}, again after {charge.repeats[:12]} of another version"
    return line


def grant_line(granted: GrantRecord) -> str:
    """One decision about what a dataset or a consumer may spend."""
    window = "" if granted.window is Window.NONE else f" each {granted.window.value}"
    whose = "the dataset" if granted.consumer is None else f"consumer {granted.consumer}"
    reason = f": {granted.reason}" if granted.reason else ""
    amount = f"epsilon {format_exact(granted.epsilon)}, delta {format_exact(granted.delta)}"
    if granted.protection != OPEN:
        amount = f"{amount} {described(granted.protection)}"
    return f"granted to {whose}: {amount}{window}{reason}"
