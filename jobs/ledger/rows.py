"""Reads rows of the ledger as values, and changes them, within the caller's transaction."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, Select, select, update
from sqlalchemy.engine import Row

from dpcore.errors import IntegrityError, NoBudgetError
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.sensitivity import Neighbours
from jobs.ledger.partitioning import Partitioning
from jobs.ledger.records import (
    OPEN,
    ChargeRecord,
    ConsumerBudget,
    DatasetBudget,
    DatasetSecrets,
    Protection,
    ReleaseRecord,
    State,
)
from jobs.ledger.tables import CHARGES, CONSUMERS, DATASETS, PARTITIONINGS, RELEASE_BLOCKS, RELEASES
from jobs.ledger.threshold_tables import THRESHOLDS
from jobs.ledger.windows import Window
from pipelines.partition import UnitsIn

# What ``str`` makes of a fraction. Fraction itself also reads 1e9999999, for which it would need all memory.
_AMOUNT = re.compile(r"-?[0-9]+(/[0-9]+)?")
# A role that may read everything but the secrets can verify releases and show budgets.
_SECRETS_OF_DATASETS = (DATASETS.c.salt, DATASETS.c.fingerprint_key)
_PUBLIC_OF_DATASETS = tuple(column for column in DATASETS.c if column.name not in ("salt", "fingerprint_key"))
_PUBLIC_OF_RELEASES = tuple(column for column in RELEASES.c if column.name != "fingerprint")


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Raises IntegrityError for a value that the ledger never writes: its file was damaged or changed by hand.

    what: What is read, for the message.
    """
    try:
        yield
    except (ValueError, TypeError, ArithmeticError, LookupError) as error:
        raise IntegrityError(
            f"the ledger's {what} holds a value that Marquee never writes; the ledger was changed by hand or damaged; "
            "restore its backup"
        ) from error


def find_dataset(connection: Connection, name: str, *, lock: bool = False) -> DatasetBudget | None:
    """A dataset, or None if it does not exist.

    lock: Whether to lock the dataset's row, so that nobody else can charge the dataset before the transaction ends.
    """
    row = _fetch_one(connection, select(*_PUBLIC_OF_DATASETS).where(DATASETS.c.name == name), lock)
    if row is None:
        return None
    threshold_delta, surcharges = _thresholds(connection, name)
    partitioning = _partitioning(connection, name)
    return replace(dataset_of(row), partitioning=partitioning, threshold_delta=threshold_delta, surcharges=surcharges)


@reading("record of a threshold")
def _thresholds(connection: Connection, name: str) -> tuple[Fraction, Fraction]:
    """The sums of the threshold deltas and of the surcharges of a dataset's charged releases."""
    rows = connection.execute(select(THRESHOLDS).where(THRESHOLDS.c.dataset == name)).all()
    zero = Fraction(0)
    return sum((exact(row.threshold_delta) for row in rows), zero), sum((exact(row.surcharge) for row in rows), zero)


@reading("record of a partitioning")
def _partitioning(connection: Connection, name: str) -> Partitioning | None:
    row = connection.execute(select(PARTITIONINGS).where(PARTITIONINGS.c.dataset == name)).one_or_none()
    if row is None:
        return None
    max_per_unit = None if row.max_per_unit is None else int(row.max_per_unit)
    return Partitioning(row.partition_column, UnitsIn(row.units_in), max_per_unit)


def find_secrets(connection: Connection, name: str) -> DatasetSecrets:
    """The secrets of a dataset. SENSITIVE. Raises NoBudgetError when there is no such dataset."""
    row = connection.execute(select(*_SECRETS_OF_DATASETS).where(DATASETS.c.name == name)).one_or_none()
    if row is None:
        raise _no_budget(name)
    with reading("secrets of a dataset"):
        # bytes() of a number that somebody wrote there would allocate as many zeros.
        found = DatasetSecrets(*(bytes(memoryview(secret)) for secret in row))
        if not found.salt or not found.fingerprint_key:
            raise ValueError("an empty secret")
        return found


def locked_dataset(connection: Connection, name: str) -> DatasetBudget:
    """A dataset with its row locked. Raises NoBudgetError when there is none."""
    dataset = find_dataset(connection, name, lock=True)
    if dataset is None:
        raise _no_budget(name)
    return dataset


def _no_budget(name: str) -> NoBudgetError:
    return NoBudgetError(f"dataset {name!r} has no budget; create one with marquee budget create")


def find_consumer(connection: Connection, dataset: str, name: str) -> ConsumerBudget | None:
    """A consumer, or None if it does not exist. The lock of the dataset's row covers its consumers."""
    query = select(CONSUMERS).where(CONSUMERS.c.dataset == dataset, CONSUMERS.c.name == name)
    row = _fetch_one(connection, query, lock=False)
    return None if row is None else consumer_of(row)


def find_release(connection: Connection, release_id: str, *, lock: bool = False) -> Row[Any] | None:
    """The row of a release without its fingerprint, or None if it does not exist.

    lock: Whether to lock the row until the transaction ends.
    """
    return _fetch_one(connection, select(*_PUBLIC_OF_RELEASES).where(RELEASES.c.release_id == release_id), lock)


def fingerprint_of(connection: Connection, release_id: str) -> str:
    """The keyed hash of the input of a release that exists. SENSITIVE."""
    query = select(RELEASES.c.fingerprint).where(RELEASES.c.release_id == release_id)
    return str(connection.execute(query).scalar_one())


def existing_release(connection: Connection, release_id: str, *, lock: bool = False) -> Row[Any]:
    """The row of a release. Raises IntegrityError when there is none."""
    row = find_release(connection, release_id, lock=lock)
    if row is None:
        raise IntegrityError(f"release {release_id[:12]} is not in the ledger; want the ledger in which it was planned")
    return row


def set_dataset(connection: Connection, name: str, **values: object) -> None:
    """Changes columns of a dataset's row."""
    connection.execute(update(DATASETS).where(DATASETS.c.name == name).values(**values))


def set_consumer(connection: Connection, dataset: str, name: str, **values: object) -> None:
    """Changes columns of a consumer's row."""
    chosen = (CONSUMERS.c.dataset == dataset) & (CONSUMERS.c.name == name)
    connection.execute(update(CONSUMERS).where(chosen).values(**values))


def set_release(connection: Connection, release_id: str, now: datetime, **values: object) -> None:
    """Changes columns of a release's row, and the time of its last change."""
    chosen = RELEASES.c.release_id == release_id
    connection.execute(update(RELEASES).where(chosen).values(updated=stamp(now), **values))


@reading("row of a dataset")
def dataset_of(row: Row[Any]) -> DatasetBudget:
    """A row of ``DATASETS`` as a value."""
    return DatasetBudget(
        name=row.name,
        path=row.path,
        currency=None if row.currency is None else Currency(row.currency),
        total=amount_of(row.total),
        spent=exact(row.spent),
        epsilon=float(row.epsilon),
        delta=float(row.delta),
        consumers_only=row.consumers_only,
        protection=protection_of(row),
        shares_with=row.shares_with,
    )


@reading("row of a consumer")
def consumer_of(row: Row[Any]) -> ConsumerBudget:
    """A row of ``CONSUMERS`` as a value."""
    return ConsumerBudget(
        dataset=row.dataset,
        name=row.name,
        window=Window(row.refresh),
        epsilon=float(row.epsilon),
        delta=float(row.delta),
        total=amount_of(row.total),
        spent=exact(row.spent),
        window_start=row.window_start,
    )


@reading("row of a release")
def release_of(row: Row[Any]) -> ReleaseRecord:
    """A row of ``RELEASES`` as a value."""
    return ReleaseRecord(
        release_id=row.release_id,
        dataset=row.dataset,
        consumer=row.consumer,
        budget=Budget(Currency(row.currency), exact(row.amount)),
        state=state_of(row),
        state_folder=row.state_folder,
        answers=None if row.answers is None else int(row.answers),
        journal_head=row.journal_head,
        output=row.output,
        protection=protection_of(row),
        manifest_sha256=row.manifest_sha256,
        version=row.version,
    )


@reading("record of whom a total protects")
def protection_of(row: Row[Any]) -> Protection:
    """The protection in a row of ``DATASETS``, ``RELEASES`` or ``GRANTS``."""
    neighbours = None if row.neighbours is None else Neighbours(row.neighbours)
    max_per_unit = None if row.max_per_unit is None else int(row.max_per_unit)
    return Protection(row.unit, row.contribution, max_per_unit, neighbours)


@reading("row of a release")
def state_of(row: Row[Any]) -> State:
    """The state in a row of ``RELEASES``."""
    return State(row.state)


def protection_columns(protection: Protection) -> dict[str, object]:
    """A protection as ``DATASETS``, ``RELEASES`` and ``GRANTS`` store it."""
    return {**asdict(protection), "neighbours": protection.neighbours and protection.neighbours.value}


def amount_of(stored: str | None) -> Fraction | None:
    """A stored amount as an exact fraction; None for an amount that is not fixed yet."""
    return None if stored is None else exact(stored)


@reading("record of an amount")
def exact(stored: str) -> Fraction:
    """A stored amount as an exact fraction."""
    if not _AMOUNT.fullmatch(stored):
        raise ValueError("not an exact fraction")
    return Fraction(stored)


def stored(amount: Fraction | None) -> str | None:
    """An exact fraction as the database stores it."""
    return None if amount is None else str(amount)


def charges_of(connection: Connection, dataset: str) -> list[ChargeRecord]:
    """All charges of a dataset, oldest first."""
    of_release = (RELEASES.c[name] for name in ("state", "repeats", *protection_columns(OPEN)))
    query = (
        select(CHARGES, *of_release, THRESHOLDS.c.surcharge, THRESHOLDS.c.threshold_delta)
        .join(RELEASES, RELEASES.c.release_id == CHARGES.c.release_id)
        .outerjoin(THRESHOLDS, THRESHOLDS.c.release_id == CHARGES.c.release_id)
        .where(CHARGES.c.dataset == dataset)
        .order_by(CHARGES.c.number)
    )
    blocks: dict[str, list[str]] = {}
    charged = select(CHARGES.c.release_id).where(CHARGES.c.dataset == dataset)
    names = select(RELEASE_BLOCKS).where(RELEASE_BLOCKS.c.release_id.in_(charged)).order_by(RELEASE_BLOCKS.c.block)
    for row in connection.execute(names).all():
        blocks.setdefault(row.release_id, []).append(row.block)
    return [
        ChargeRecord(
            row.release_id,
            row.consumer,
            exact(row.amount),
            state_of(row),
            row.charged,
            protection_of(row),
            row.repeats,
            tuple(blocks.get(row.release_id, ())),
            exact(row.surcharge or "0"),
            exact(row.threshold_delta or "0"),
        )
        for row in connection.execute(query).all()
    ]


def charged_at(connection: Connection, release_id: str) -> str | None:
    """The time at which a release was charged, in UTC and ISO format; None if it was not charged."""
    query = select(CHARGES.c.charged).where(CHARGES.c.release_id == release_id)
    return connection.execute(query).scalar_one_or_none()


def stamp(now: datetime) -> str:
    """A time as the database stores it: in UTC, to the second."""
    return now.astimezone(UTC).isoformat(timespec="seconds")


def _fetch_one(connection: Connection, query: Select[Any], lock: bool) -> Row[Any] | None:
    return connection.execute(query.with_for_update() if lock else query).one_or_none()
