"""The price of a release: what it costs in its dataset's currency, and whether dataset and consumer can pay it."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from sqlalchemy import Connection

from dpcore.errors import BudgetExceededError, NoBudgetError
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.item_threshold import epsilon_with_threshold_delta
from jobs.figures import format_exact
from jobs.ledger.amounts import advice, charged_amount, settled_currency
from jobs.ledger.audit import check_sums
from jobs.ledger.block_rows import block_sums, check_blocks
from jobs.ledger.connection import shown
from jobs.ledger.partitioning import Blocks
from jobs.ledger.protection import is_for_replacing
from jobs.ledger.records import ConsumerBudget, DatasetBudget, PlannedRelease, Protection
from jobs.ledger.rows import find_consumer
from jobs.ledger.thresholds import check_discoverable
from jobs.ledger.windows import Window


@dataclass(frozen=True)
class Request:
    """What a release asks of the ledger.

    budget: Its whole budget, in its own currency.
    protection: Whom it protects; nothing in it is open.
    consumer: Name of the consumer that is charged too, if there is one.
    promise: Its (epsilon, delta), if it is known, for the advice in a refusal.
    blocks: The partitions that it is charged to; None for the whole dataset.
    paid: Whether the charge of another release pays for it (``jobs.ledger.series``).
    threshold_delta: What the threshold of a discovery takes from delta (``jobs.ledger.thresholds``); 0 without one.
    """

    budget: Budget
    protection: Protection
    consumer: str | None
    promise: tuple[float, float] | None = None
    blocks: Blocks | None = None
    paid: bool = False
    threshold_delta: Fraction = Fraction(0)

    @classmethod
    def of(cls, planned: PlannedRelease, *, paid: bool) -> Request:
        """The request of a planned release. paid: Whether the charge of another release pays for it."""
        protection, consumer, blocks = planned.protection, planned.consumer, planned.blocks
        return cls(planned.budget, protection, consumer, planned.promise, blocks, paid, planned.threshold_delta)


@dataclass(frozen=True)
class Price:
    """A charge that fits the remaining budget.

    amount: Exact amount in the dataset's currency, for the units and the relation of the dataset; with ``surcharge``.
    protection: Whom the dataset's total protects after the charge.
    replacing: Whether the release is for add/remove and the dataset for replace-one.
    currency: Currency of the dataset.
    dataset: The dataset before the charge.
    consumer: The consumer before the charge, if there is one.
    spent: Exact amount that the dataset has spent after the charge; of a partitioned one, what a unit has lost at most.
    available: Exact amount that could be charged to the same partitions, or to the whole dataset.
    surcharge: The part of the amount that pays for the threshold of a discovery.
    """

    amount: Fraction
    protection: Protection
    replacing: bool
    currency: Currency
    dataset: DatasetBudget
    consumer: ConsumerBudget | None
    spent: Fraction
    available: Fraction
    surcharge: Fraction = Fraction(0)


def priced(connection: Connection, dataset: DatasetBudget, request: Request, now: datetime) -> Price:
    """The charge of a release. Nothing is written.

    Raises: NoBudgetError when the release cannot be charged to the dataset or its consumer; BudgetExceededError when
        too little of the budget remains.
    """
    budget, promise, ledger = request.budget, request.promise, shown(connection.engine.url)
    replacing = is_for_replacing(dataset, request.protection, ledger)
    check_blocks(connection, dataset, request.blocks, request.protection, ledger)
    consumer = _consumer(connection, dataset, request.consumer, promise)
    check_sums(connection, dataset, consumer)
    if dataset.currency is None:
        currency = settled_currency(budget.currency)
        dataset = dataset.settled(currency)
        consumer = consumer and consumer.settled(currency)
    assert dataset.currency is not None
    amount = charged_amount(budget, dataset.currency, dataset.name, replacing=replacing)
    amount = Fraction(0) if request.paid else amount
    surcharge, kept_free = _of_thresholds(dataset, request, replacing=replacing)
    amount += surcharge
    consumer = consumer and consumer.at(now)
    spent, available = _composed(connection, dataset, amount, request.blocks)
    available -= kept_free
    exceeds = amount > available
    hint = advice(budget, dataset.currency, promise, replacing=replacing) if exceeds else ""
    cost = _Cost(amount, budget, dataset.currency, promise, surcharge, request.threshold_delta)
    where = "" if request.blocks is None else f", {request.blocks.described}"
    _check_fits(f"a release of dataset {dataset.name!r}{where}{hint}", cost, available)
    if consumer is not None and consumer.total is not None:
        _check_fits(_label(consumer), cost, consumer.total - consumer.spent, consumer.window)
    protection = dataset.protection.bound_by(request.protection)
    return Price(amount, protection, replacing, dataset.currency, dataset, consumer, spent, available, surcharge)


def _of_thresholds(dataset: DatasetBudget, request: Request, *, replacing: bool) -> tuple[Fraction, Fraction]:
    """The surcharge of a release that discovers items, and what stays free for the thresholds of earlier ones."""
    if not request.threshold_delta:
        return Fraction(0), dataset.kept_free
    plain = request.consumer is None and request.blocks is None and not request.paid
    check_discoverable(dataset, plain=plain, replacing=replacing)
    return dataset.uncovered(dataset.threshold_delta + request.threshold_delta), Fraction(0)


def _composed(
    connection: Connection, dataset: DatasetBudget, amount: Fraction, blocks: Blocks | None
) -> tuple[Fraction, Fraction]:
    """What the dataset has spent after a charge, and the largest amount of its total that could be charged."""
    total = dataset.total or Fraction(0)
    if dataset.partitioning is None:
        return dataset.spent + amount, total - dataset.spent
    sums, names = block_sums(connection, dataset), () if blocks is None else blocks.names
    return sums.plus(amount, names).spent, sums.available(total, names)


def _label(consumer: ConsumerBudget) -> str:
    window = "" if consumer.window is Window.NONE else f" in the {consumer.window.value} from {consumer.window_start}"
    return f"a release of consumer {consumer.name!r} of dataset {consumer.dataset!r}{window}"


@dataclass(frozen=True)
class _Cost:
    """The cost of a release.

    amount: Exact amount in the dataset's currency.
    budget: The release's own budget.
    currency: Currency of the dataset.
    promise: (epsilon, delta) of the release, if it is known.
    surcharge: The part of the amount that pays for a threshold. It does not fall with epsilon.
    threshold_delta: That of the threshold.
    """

    amount: Fraction
    budget: Budget
    currency: Currency
    promise: tuple[float, float] | None
    surcharge: Fraction
    threshold_delta: Fraction


def _check_fits(label: str, cost: _Cost, remaining: Fraction | None, window: Window = Window.NONE) -> None:
    available = max(remaining or Fraction(0), Fraction(0))
    if cost.amount > available:
        raise BudgetExceededError(
            label, cost.amount, available, cost.currency.value, _next_step(cost, available, window)
        )


def _next_step(cost: _Cost, available: Fraction, window: Window) -> str:
    steps = []
    available -= cost.surcharge
    if available > 0 and cost.promise is not None and cost.budget.currency is cost.currency:
        # What is available, for the release's own relation.
        own_amount = available * cost.budget.amount / (cost.amount - cost.surcharge)
        max_epsilon = epsilon_with_threshold_delta(
            Budget(cost.currency, own_amount), cost.promise[1], cost.threshold_delta
        )
        steps.append(f"privacy.epsilon at most {math.floor(max_epsilon * 1e4) / 1e4:g}")
    if window is not Window.NONE:
        steps.append(f"another {window.value}")
    return ", ".join([*steps, "or more by marquee budget grant" if steps else "more by marquee budget grant"])


def _consumer(
    connection: Connection, dataset: DatasetBudget, name: str | None, promise: tuple[float, float] | None
) -> ConsumerBudget | None:
    if name is None:
        if dataset.consumers_only:
            raise NoBudgetError(
                f"dataset {dataset.name!r} accepts only releases of a consumer; want privacy.consumer in the config"
            )
        return None
    consumer = find_consumer(connection, dataset.name, name)
    if consumer is None:
        epsilon, delta = promise or (dataset.epsilon, dataset.delta)
        if bool(delta) is not bool(dataset.delta):
            delta = dataset.delta
        url = shown(connection.engine.url)
        raise NoBudgetError(
            f"dataset {dataset.name!r} has no consumer {name!r}; add it with: marquee budget grant --ledger "
            f"{shlex.quote(url)} --dataset {shlex.quote(dataset.name)} --consumer {shlex.quote(name)} "
            f"--epsilon {format_exact(epsilon)} --delta {format_exact(delta)}"
        )
    return consumer
