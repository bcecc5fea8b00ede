"""What ``marquee budget`` prints as JSON: datasets, consumers, grants and charges. ``budget_lines`` words the same.

An exact amount is a text such as ``1/20``, beside the nearest number.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import epsilon_of
from dpcore.kernel.item_threshold import epsilon_with_threshold_delta
from jobs.ledger import SqlLedger
from jobs.ledger.partitioning import BlockSums
from jobs.ledger.records import ChargeRecord, ConsumerBudget, DatasetBudget, GrantRecord, Protection


def ledger_facts(ledger: SqlLedger, datasets: list[DatasetBudget]) -> dict[str, Any]:
    """The ledger with datasets and everything below them: what ``marquee budget show`` shows."""
    return {
        "ledger": ledger.shown_url,
        "ledger_id": ledger.ledger_id(),
        "datasets": [_whole(ledger, budget) for budget in datasets],
    }


def _whole(ledger: SqlLedger, budget: DatasetBudget) -> dict[str, Any]:
    facts = dataset_facts(budget)
    if budget.partitioning is not None:
        facts["partitions"] = partition_facts(budget, ledger.block_sums(budget.name))
    consumers, grants = ledger.consumers(budget.name), ledger.grants(budget.name)
    facts["consumers"] = [consumer_facts(consumer, budget.currency) for consumer in consumers]
    facts["grants"] = [grant_facts(granted) for granted in grants]
    return facts


def history_facts(ledger: SqlLedger, name: str) -> dict[str, Any]:
    """Every grant and charge of a dataset: what ``marquee budget history`` lists.

    Raises: IntegrityError when the recorded sums differ from the charges.
    """
    charges = ledger.history(name)
    return {
        "ledger": ledger.shown_url,
        "ledger_id": ledger.ledger_id(),
        "dataset": dataset_facts(ledger.verified(name)),
        "grants": [grant_facts(granted) for granted in ledger.grants(name)],
        "charges": [charge_facts(charge) for charge in charges],
    }


def dataset_facts(budget: DatasetBudget) -> dict[str, Any]:
    """The budget of a dataset, and what was spent."""
    return {
        "name": budget.name,
        "path": budget.path,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        **_spending(budget, budget.currency),
        "kept_free": None if budget.currency is None else _amount(budget.kept_free),
        "consumers_only": budget.consumers_only,
        "protects": _protection_facts(budget.protection),
        "shares_with": budget.shares_with,
        "partitioned": None if budget.partitioning is None else budget.partitioning.described,
    }


def consumer_facts(consumer: ConsumerBudget, currency: Currency | None) -> dict[str, Any]:
    """The limit of a consumer, and what was spent. currency: That of the dataset."""
    return {
        "name": consumer.name,
        "epsilon": consumer.epsilon,
        "delta": consumer.delta,
        "window": consumer.window.value,
        "window_start": consumer.window_start or None,
        **_spending(consumer, currency),
    }


def grant_facts(granted: GrantRecord) -> dict[str, Any]:
    """One decision about what a dataset or a consumer may spend."""
    return {
        "granted": granted.granted,
        "consumer": granted.consumer,
        "epsilon": granted.epsilon,
        "delta": granted.delta,
        "window": granted.window.value,
        "protects": _protection_facts(granted.protection),
        "reason": granted.reason,
    }


def charge_facts(charge: ChargeRecord) -> dict[str, Any]:
    """One charge of a dataset."""
    return {
        "charged": charge.charged,
        "release_id": charge.release_id,
        "state": charge.state.value,
        "amount": _amount(charge.amount),
        "consumer": charge.consumer,
        "protects": _protection_facts(charge.protection),
        "repeats": charge.repeats,
        "partitions": list(charge.blocks),
        "surcharge": _amount(charge.surcharge),
        "threshold_delta": _amount(charge.threshold_delta),
    }


def partition_facts(budget: DatasetBudget, sums: BlockSums) -> dict[str, Any]:
    """What the partitions of a dataset have spent."""
    assert budget.partitioning is not None
    return {
        "column": budget.partitioning.column,
        "composition": budget.partitioning.composition,
        "whole_dataset": _amount(sums.whole),
        "all_charges": _amount(sums.all),
        "spent": {name: _amount(spent) for name, spent in sorted(sums.blocks.items())},
    }


def _spending(budget: DatasetBudget | ConsumerBudget, currency: Currency | None) -> dict[str, Any]:
    """Total, spent and remaining amounts; null as long as the first release has not fixed the accounting."""
    if currency is None:
        return {"currency": None, "total": None, "spent": None, "remaining": None}
    total = budget.total or Fraction(0)
    amounts = {"total": total, "spent": budget.spent, "remaining": not_negative(budget.remaining)}
    return {
        "currency": currency.value,
        **{
            name: {**_amount(amount), "epsilon_alone": epsilon_alone(amount, currency, budget.delta)}
            for name, amount in amounts.items()
            if name != "spent"
        },
        "spent": {**_amount(budget.spent), "epsilon_alone": epsilon_spent(budget, currency)},
    }


def not_negative(remaining: Fraction | None) -> Fraction:
    """What remains, as it is shown: 0 where more was spent than a later total allows, and before there is a total."""
    return max(remaining or Fraction(0), Fraction(0))


def epsilon_spent(budget: DatasetBudget | ConsumerBudget, currency: Currency) -> float:
    """The epsilon of what was spent at the delta of the total, thresholds of discovered items included."""
    if isinstance(budget, DatasetBudget) and budget.threshold_delta:
        return epsilon_with_threshold_delta(
            Budget(currency, budget.spent - budget.surcharges), budget.delta, budget.threshold_delta
        )
    return epsilon_alone(budget.spent, currency, budget.delta)


def epsilon_alone(amount: Fraction, currency: Currency, delta: float) -> float:
    """The epsilon that an amount gives alone at ``delta``. Amounts add up, but these epsilons do not."""
    if currency is Currency.PURE or not amount:
        return float(amount)
    return epsilon_of(Budget(currency, amount), delta)


def _amount(amount: Fraction) -> dict[str, Any]:
    return {"exact": str(amount), "number": float(amount)}


def _protection_facts(protection: Protection) -> dict[str, Any]:
    return {
        "unit": protection.unit,
        "neighbours": None if protection.neighbours is None else protection.neighbours.value,
        "contribution": protection.contribution,
        "max_per_unit": protection.max_per_unit,
    }
