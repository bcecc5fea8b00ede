"""The operator's decisions: who may spend how much. Every decision is appended to the grants, with its reason."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, exists, insert, select
from sqlalchemy.engine import Row

from dpcore.errors import ConfigError, NoBudgetError
from dpcore.kernel.budget import Currency
from jobs.figures import format_exact
from jobs.ledger.amounts import granted_amount
from jobs.ledger.block_rows import bind_partitioning
from jobs.ledger.partitioning import Partitioning
from jobs.ledger.records import OPEN, Accounting, ConsumerBudget, DatasetBudget, GrantRecord, Protection
from jobs.ledger.rows import (
    amount_of,
    consumer_of,
    find_consumer,
    find_dataset,
    locked_dataset,
    protection_columns,
    protection_of,
    reading,
    set_consumer,
    set_dataset,
    stamp,
    stored,
)
from jobs.ledger.tables import CONSUMERS, DATASETS, GRANTS
from jobs.ledger.windows import Window, start_of

_SECRET_BYTES = 16  # Length of the salt of the contribution bound, and of the fingerprint key.


@dataclass(frozen=True)
class Creation:
    """The budget of a new dataset.

    name: Name of the dataset.
    epsilon: Epsilon that all releases together may spend, positive.
    delta: Delta of that guarantee, in [0, 1).
    accounting: Accounting of the budget if delta > 0.
    consumers_only: Whether every release must name a consumer.
    protection: Whom the total protects; the first reservation binds what is open.
    shares_with: Another dataset whose data this dataset may use too.
    reason: The operator's reason for sharing data.
    partitioning: How the dataset is partitioned for ever; None for a dataset that is charged as a whole.
    """

    name: str
    epsilon: float
    delta: float
    accounting: Accounting = Accounting.AUTO
    consumers_only: bool = False
    protection: Protection = OPEN
    shares_with: str | None = None
    reason: str = ""
    partitioning: Partitioning | None = None

    @property
    def currency(self) -> Currency | None:
        """Currency of the budget; None if the first reservation will choose it."""
        if self.delta == 0:
            return Currency.PURE
        return self.accounting.currency

    def check(self) -> None:
        """Checks the numbers without a ledger. Raises ConfigError when they do not define a budget."""
        if self.delta == 0 and self.accounting is not Accounting.AUTO:
            raise ConfigError(
                f"accounting {self.accounting.value} needs delta > 0; want accounting auto when delta is 0"
            )
        if self.shares_with is not None and not self.reason.strip():
            raise ConfigError("--shares-with needs a reason, which is recorded; want --reason")
        granted_amount(self.epsilon, self.delta, self.currency)


def create_dataset(connection: Connection, creation: Creation, now: datetime) -> DatasetBudget:
    """Creates the budget of a dataset. Nothing happens if the dataset has this budget already.

    An existing dataset that has no data and no charges yet may begin to share the data of another one.

    Raises: ConfigError when the dataset has another budget.
    """
    creation.check()
    existing = find_dataset(connection, creation.name)
    shares_with = _data_owner(connection, creation)
    if existing is not None:
        new = existing.shares_with is existing.path is None and not existing.spent
        begins = new and shares_with is not None and _may_share(connection, creation)
        dataset = replace(existing, shares_with=shares_with) if begins else existing
        _check_same(connection, dataset, creation, shares_with)
        if begins:
            set_dataset(connection, dataset.name, shares_with=shares_with)
            dataset = keep_total(connection, dataset, _sharing(creation), now)
        dataset = _partitioned(connection, dataset, creation.partitioning, now)
        return _bind(connection, dataset, dataset.protection.bound_by(creation.protection), "bound", now)
    amount = granted_amount(creation.epsilon, creation.delta, creation.currency)
    reason = "created" if shares_with is None else f"created; {_sharing(creation)}"
    secret = {key: secrets.token_bytes(_SECRET_BYTES) for key in ("salt", "fingerprint_key")}  # SENSITIVE
    figures = {
        "epsilon": creation.epsilon,
        "delta": creation.delta,
        "consumers_only": creation.consumers_only,
        "spent": "0",
        "shares_with": shares_with,
    }
    connection.execute(insert(DATASETS).values(name=creation.name, created=stamp(now), **figures, **secret))
    dataset = replace(locked_dataset(connection, creation.name), protection=creation.protection)
    dataset = _set_total(connection, dataset, creation.currency, amount, reason, now)
    return _partitioned(connection, dataset, creation.partitioning, now)


def _partitioned(
    connection: Connection, dataset: DatasetBudget, partitioning: Partitioning | None, now: datetime
) -> DatasetBudget:
    """Binds how a dataset is partitioned. All charges so far are about the whole dataset, and reach every partition."""
    if partitioning is None or dataset.partitioning is not None:
        return dataset
    bind_partitioning(connection, dataset.name, partitioning, now)
    return keep_total(connection, dataset, f"partitioned {partitioning.described}", now)


def _data_owner(connection: Connection, creation: Creation) -> str | None:
    """The dataset that all datasets with the same data name, so that each may use the data of every other."""
    if creation.shares_with is None:
        return None
    other = find_dataset(connection, creation.shares_with)
    if other is None:
        raise NoBudgetError(f"dataset {creation.shares_with!r} has no budget, so its data cannot be shared")
    return other.data_owner


def _may_share(connection: Connection, creation: Creation) -> bool:
    """Whether a dataset is not the other one itself, and no third one names it, whose owner would change."""
    named = select(exists().where(DATASETS.c.shares_with == creation.name))
    return creation.shares_with != creation.name and not connection.execute(named).scalar_one()


def _sharing(creation: Creation) -> str:
    return f"may use the data of dataset {creation.shares_with!r}: {creation.reason}"


def _check_same(connection: Connection, existing: DatasetBudget, creation: Creation, owner: str | None) -> None:
    before = {(grant.epsilon, grant.delta) for grant in grants(connection, existing.name) if grant.consumer is None}
    difference = _difference(existing, creation, before, owner)
    if difference is not None:
        raise ConfigError(
            f"dataset {creation.name!r} already has a budget, with {difference}; marquee budget grant can raise "
            "epsilon; nothing else can be changed"
        )


def _difference(
    existing: DatasetBudget, creation: Creation, before: set[tuple[float, float]], owner: str | None
) -> str | None:
    if creation.delta != existing.delta:
        return f"delta {format_exact(existing.delta)} instead of {format_exact(creation.delta)}"
    if (creation.epsilon, creation.delta) not in before:
        return f"epsilon {format_exact(existing.epsilon)} instead of {format_exact(creation.epsilon)}"
    if creation.currency not in (None, existing.currency):
        current = next(accounting.value for accounting in Accounting if accounting.currency is existing.currency)
        return f"accounting {current} instead of {creation.accounting.value}"
    if creation.consumers_only != existing.consumers_only:
        return f"consumers_only {existing.consumers_only} instead of {creation.consumers_only}".lower()
    if owner not in (None, existing.shares_with):
        return "data of its own" if existing.shares_with is None else f"the data of {existing.shares_with!r}"
    if None not in (existing.partitioning, creation.partitioning) and existing.partitioning != creation.partitioning:
        assert existing.partitioning is not None
        return f"partitions {existing.partitioning.described}"
    return _different_protection(existing.protection, creation.protection)


def _different_protection(existing: Protection, created: Protection) -> str | None:
    """What two protections contradict each other in; whatever one of them leaves open contradicts nothing."""
    pairs = {
        "unit": (existing.unit, created.unit),
        "neighbours": (existing.neighbours, created.neighbours),
        "a bound of": (existing.max_per_unit, created.max_per_unit),
        "a bound on": (existing.contribution, created.contribution),
    }
    for name, (old, new) in pairs.items():
        if None not in (old, new) and old != new:
            return f"{name} {old} instead of {new}"
    return None


def raise_total(
    connection: Connection, name: str, epsilon: float, delta: float, reason: str, now: datetime
) -> DatasetBudget:
    """Raises the total that all releases of a dataset together may spend.

    Raises: ConfigError when epsilon is smaller than before, or delta differs.
    """
    dataset = locked_dataset(connection, name)
    if delta != dataset.delta:
        raise ConfigError(
            f"delta of dataset {name!r} is {format_exact(dataset.delta)} and cannot be changed; want --delta "
            f"{format_exact(dataset.delta)}"
        )
    if epsilon < dataset.epsilon:
        raise ConfigError(
            f"dataset {name!r} has epsilon {format_exact(dataset.epsilon)}, which is more than "
            f"{format_exact(epsilon)}; want at least {format_exact(dataset.epsilon)}, because a total is never lowered"
        )
    if epsilon == dataset.epsilon:
        return dataset
    amount = granted_amount(epsilon, delta, dataset.currency)
    set_dataset(connection, name, epsilon=epsilon)
    return _set_total(connection, locked_dataset(connection, name), dataset.currency, amount, reason, now)


def keep_total(connection: Connection, dataset: DatasetBudget, reason: str, now: datetime) -> DatasetBudget:
    """Records a decision about a dataset that leaves its total unchanged."""
    return _set_total(connection, dataset, dataset.currency, dataset.total, reason, now)


def grant_consumer(connection: Connection, limit: ConsumerBudget, reason: str, now: datetime) -> ConsumerBudget:
    """Sets the limit of a consumer per window. A later call may change the limit, but not the window.

    Raises: ConfigError when the window differs from the one before, or when only one of the deltas of the consumer and
        the dataset is 0.
    """
    dataset = locked_dataset(connection, limit.dataset)
    if (limit.delta == 0) != (dataset.delta == 0):
        wanted = "0" if dataset.delta == 0 else "> 0"
        raise ConfigError(f"delta is {format_exact(limit.delta)}; want {wanted}, as for dataset {dataset.name!r}")
    total = granted_amount(limit.epsilon, limit.delta, dataset.currency)
    existing = find_consumer(connection, limit.dataset, limit.name)
    figures: dict[str, Any] = {"epsilon": limit.epsilon, "delta": limit.delta, "total": stored(total)}
    if existing is None:
        start = start_of(limit.window, now)
        row = {"dataset": limit.dataset, "name": limit.name, "refresh": limit.window.value, "window_start": start}
        connection.execute(insert(CONSUMERS).values(**row, **figures, spent="0", created=stamp(now)))
    elif existing.window is not limit.window:
        # Each charge is recorded with its window, so the sums over windows of another length would not add up.
        raise ConfigError(
            f"consumer {limit.name!r} has window {existing.window.value}, which cannot be changed; want that window, "
            "or another consumer"
        )
    elif (existing.epsilon, existing.delta) == (limit.epsilon, limit.delta):
        return existing
    else:
        set_consumer(connection, limit.dataset, limit.name, **figures)
    granted = find_consumer(connection, limit.dataset, limit.name)
    assert granted is not None
    _record_consumer(connection, granted, dataset.currency, reason, now)
    return granted


def settle(
    connection: Connection, dataset: DatasetBudget, currency: Currency, release: Protection, now: datetime
) -> DatasetBudget:
    """Fixes, at the first reservation, whom a dataset protects, and its currency and that of all its consumers.

    Later calls change nothing.
    """
    bound = dataset.protection.bound_by(release)
    dataset = _bind(connection, dataset, bound, "bound by the first release", now)
    if dataset.currency is not None:
        return dataset
    reason = "accounting fixed by the first release"
    total = dataset.settled(currency).total
    for consumer in consumers(connection, dataset.name):
        settled = consumer.settled(currency)
        set_consumer(connection, dataset.name, consumer.name, total=stored(settled.total))
        _record_consumer(connection, settled, currency, reason, now)
    return _set_total(connection, dataset, currency, total, reason, now)


def _bind(
    connection: Connection, dataset: DatasetBudget, protection: Protection, reason: str, now: datetime
) -> DatasetBudget:
    """Records whom a dataset protects. Nothing happens if that is recorded already."""
    if protection == dataset.protection:
        return dataset
    if dataset.spent:  # By releases of layouts 1 and 2, which did not record whom they protect.
        reason = f"{reason}; stated also for earlier charges, which did not record it"
    return keep_total(connection, replace(dataset, protection=protection), reason, now)


def consumers(connection: Connection, dataset: str) -> list[ConsumerBudget]:
    """The consumers of a dataset, by name."""
    query = select(CONSUMERS).where(CONSUMERS.c.dataset == dataset).order_by(CONSUMERS.c.name)
    return [consumer_of(row) for row in connection.execute(query).all()]


def grants(connection: Connection, dataset: str) -> list[GrantRecord]:
    """The grants of a dataset and its consumers, oldest first."""
    query = select(GRANTS).where(GRANTS.c.dataset == dataset).order_by(GRANTS.c.number)
    return [grant_of(row) for row in connection.execute(query).all()]


@reading("row of a grant")
def grant_of(row: Row[Any]) -> GrantRecord:
    """A row of ``GRANTS`` as a value."""
    return GrantRecord(
        row.consumer,
        Window(row.refresh),
        float(row.epsilon),
        float(row.delta),
        amount_of(row.amount),
        protection_of(row),
        row.reason,
        row.granted,
    )


def _set_total(
    connection: Connection,
    dataset: DatasetBudget,
    currency: Currency | None,
    amount: Fraction | None,
    reason: str,
    now: datetime,
) -> DatasetBudget:
    """Changes a total and whom it protects, and appends the grant that records the change. No other function does."""
    protection = protection_columns(dataset.protection)
    set_dataset(connection, dataset.name, currency=currency and currency.value, total=stored(amount), **protection)
    row = {"dataset": dataset.name, "refresh": Window.NONE.value, "epsilon": dataset.epsilon, "delta": dataset.delta}
    row |= protection
    _record(connection, row, currency, amount, reason, now)
    return locked_dataset(connection, dataset.name)


def _record_consumer(
    connection: Connection, consumer: ConsumerBudget, currency: Currency | None, reason: str, now: datetime
) -> None:
    row = {"dataset": consumer.dataset, "consumer": consumer.name, "refresh": consumer.window.value}
    figures = {"epsilon": consumer.epsilon, "delta": consumer.delta}
    _record(connection, {**row, **figures}, currency, consumer.total, reason, now)


def _record(
    connection: Connection,
    row: dict[str, Any],
    currency: Currency | None,
    amount: Fraction | None,
    reason: str,
    now: datetime,
) -> None:
    figures = {"currency": currency and currency.value, "amount": stored(amount)}
    connection.execute(insert(GRANTS).values(**row, **figures, reason=reason, granted=stamp(now)))
