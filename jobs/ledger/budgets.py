"""What the operator decides: who may spend how much. Every decision is appended to the grants, with its reason."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, insert, select

from dpcore.errors import ConfigError
from dpcore.kernel.budget import Currency
from jobs.figures import format_exact
from jobs.ledger.amounts import granted_amount
from jobs.ledger.records import Accounting, ConsumerBudget, DatasetBudget, GrantRecord
from jobs.ledger.rows import (
    amount_of,
    consumer_of,
    find_consumer,
    find_dataset,
    locked_dataset,
    set_consumer,
    set_dataset,
    stamp,
    stored,
)
from jobs.ledger.tables import CONSUMERS, DATASETS, GRANTS
from jobs.ledger.windows import Window, start_of

_SECRET_BYTES = 16  # Of the row-bound salt and of the fingerprint key.


@dataclass(frozen=True)
class Creation:
    """A dataset's budget as the operator asks for it."""

    name: str
    epsilon: float
    delta: float
    accounting: Accounting = Accounting.AUTO
    consumers_only: bool = False

    @property
    def currency(self) -> Currency | None:
        if self.delta == 0:
            return Currency.PURE
        return self.accounting.currency

    def check(self) -> None:
        """Raises ConfigError for figures that are no budget; asks no ledger."""
        if self.delta == 0 and self.accounting is not Accounting.AUTO:
            raise ConfigError(
                f"accounting {self.accounting.value} needs delta > 0; a delta of 0 is accounted in epsilon"
            )
        granted_amount(self.epsilon, self.delta, self.currency)


def create_dataset(connection: Connection, asked: Creation, now: datetime) -> DatasetBudget:
    """Gives a dataset its budget; what was granted already is not granted again."""
    asked.check()
    existing = find_dataset(connection, asked.name)
    if existing is not None:
        _check_same(connection, existing, asked)
        return existing
    amount = granted_amount(asked.epsilon, asked.delta, asked.currency)
    secret = {key: secrets.token_bytes(_SECRET_BYTES) for key in ("salt", "fingerprint_key")}  # SENSITIVE
    figures = {"epsilon": asked.epsilon, "delta": asked.delta, "consumers_only": asked.consumers_only, "spent": "0"}
    connection.execute(insert(DATASETS).values(name=asked.name, created=stamp(now), **figures, **secret))
    dataset = locked_dataset(connection, asked.name)
    return _set_total(connection, dataset, asked.currency, amount, "created", now)


def _check_same(connection: Connection, existing: DatasetBudget, asked: Creation) -> None:
    before = {(grant.epsilon, grant.delta) for grant in grants(connection, existing.name) if grant.consumer is None}
    differs = _difference(existing, asked, before)
    if differs is not None:
        raise ConfigError(
            f"dataset {asked.name!r} has a budget already, with {differs}; marquee budget grant raises epsilon and "
            "nothing else: delta, accounting and consumers_only are chosen once"
        )


def _difference(existing: DatasetBudget, asked: Creation, before: set[tuple[float, float]]) -> str | None:
    if asked.delta != existing.delta:
        return f"delta {format_exact(existing.delta)} and not {format_exact(asked.delta)}"
    if (asked.epsilon, asked.delta) not in before:
        return f"epsilon {format_exact(existing.epsilon)} and not {format_exact(asked.epsilon)}"
    if asked.currency not in (None, existing.currency):
        held = next(one.value for one in Accounting if one.currency is existing.currency)
        return f"accounting {held} and not {asked.accounting.value}"
    if asked.consumers_only != existing.consumers_only:
        return f"consumers_only {existing.consumers_only} and not {asked.consumers_only}".lower()
    return None


def raise_total(
    connection: Connection, name: str, epsilon: float, delta: float, reason: str, now: datetime
) -> DatasetBudget:
    """Raises what all releases of a dataset together may spend. Raises ConfigError for less, or another delta."""
    dataset = locked_dataset(connection, name)
    if delta != dataset.delta:
        raise ConfigError(
            f"delta of dataset {name!r} is {format_exact(dataset.delta)} for ever; want --delta like that"
        )
    if epsilon < dataset.epsilon:
        raise ConfigError(
            f"dataset {name!r} has epsilon {format_exact(dataset.epsilon)}, more than {format_exact(epsilon)}; "
            "a total is never lowered"
        )
    if epsilon == dataset.epsilon:
        return dataset
    amount = granted_amount(epsilon, delta, dataset.currency)
    set_dataset(connection, name, epsilon=epsilon)
    return _set_total(connection, locked_dataset(connection, name), dataset.currency, amount, reason, now)


def keep_total(connection: Connection, dataset: DatasetBudget, reason: str, now: datetime) -> DatasetBudget:
    """Puts a decision about a dataset on record that leaves what may be spent as it is."""
    return _set_total(connection, dataset, dataset.currency, dataset.total, reason, now)


def grant_consumer(connection: Connection, asked: ConsumerBudget, reason: str, now: datetime) -> ConsumerBudget:
    """Sets what a consumer may spend, in each window; its window is chosen once, its limit may change."""
    dataset = locked_dataset(connection, asked.dataset)
    if (asked.delta == 0) != (dataset.delta == 0):
        wanted = "0" if dataset.delta == 0 else "> 0"
        raise ConfigError(f"delta is {format_exact(asked.delta)}; want {wanted}, as dataset {dataset.name!r} has it")
    total = granted_amount(asked.epsilon, asked.delta, dataset.currency)
    existing = find_consumer(connection, asked.dataset, asked.name)
    limit: dict[str, Any] = {"epsilon": asked.epsilon, "delta": asked.delta, "total": stored(total)}
    if existing is None:
        start = start_of(asked.window, now)
        row = {"dataset": asked.dataset, "name": asked.name, "refresh": asked.window.value, "window_start": start}
        connection.execute(insert(CONSUMERS).values(**row, **limit, spent="0", created=stamp(now)))
    elif existing.window is not asked.window:
        # Charges count in the windows in which they were made; those of another calendar would not add up.
        raise ConfigError(
            f"consumer {asked.name!r} has window {existing.window.value}, chosen once; want that, or another consumer"
        )
    elif (existing.epsilon, existing.delta) == (asked.epsilon, asked.delta):
        return existing
    else:
        set_consumer(connection, asked.dataset, asked.name, **limit)
    granted = find_consumer(connection, asked.dataset, asked.name)
    assert granted is not None
    _record_consumer(connection, granted, dataset.currency, reason, now)
    return granted


def settle(connection: Connection, dataset: DatasetBudget, currency: Currency, now: datetime) -> DatasetBudget:
    """Gives a dataset, and all its consumers, the currency of its first reservation, for ever."""
    if dataset.currency is not None:
        return dataset
    reason = "currency chosen by the first reservation"
    total = dataset.settled(currency).total
    for consumer in consumers(connection, dataset.name):
        settled = consumer.settled(currency)
        set_consumer(connection, dataset.name, consumer.name, total=stored(settled.total))
        _record_consumer(connection, settled, currency, reason, now)
    return _set_total(connection, dataset, currency, total, reason, now)


def consumers(connection: Connection, dataset: str) -> list[ConsumerBudget]:
    query = select(CONSUMERS).where(CONSUMERS.c.dataset == dataset).order_by(CONSUMERS.c.name)
    return [consumer_of(row) for row in connection.execute(query)]


def grants(connection: Connection, dataset: str) -> list[GrantRecord]:
    """Oldest first."""
    query = select(GRANTS).where(GRANTS.c.dataset == dataset).order_by(GRANTS.c.number)
    return [
        GrantRecord(
            row.consumer, Window(row.refresh), row.epsilon, row.delta, amount_of(row.amount), row.reason, row.granted
        )
        for row in connection.execute(query)
    ]


def _set_total(
    connection: Connection,
    dataset: DatasetBudget,
    currency: Currency | None,
    amount: Fraction | None,
    reason: str,
    now: datetime,
) -> DatasetBudget:
    """The one place that changes a total: the row and the grant that explains it."""
    set_dataset(connection, dataset.name, currency=currency and currency.value, total=stored(amount))
    row = {"dataset": dataset.name, "refresh": Window.NONE.value, "epsilon": dataset.epsilon, "delta": dataset.delta}
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
