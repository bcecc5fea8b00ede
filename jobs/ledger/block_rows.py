"""Partitions in the ledger's tables: how a dataset is partitioned, and which partitions each release is charged to."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from datetime import datetime
from fractions import Fraction

from sqlalchemy import Connection, insert, select

from dpcore.errors import NoBudgetError
from dpcore.kernel.sensitivity import Neighbours
from jobs.figures import format_exact
from jobs.ledger.partitioning import Blocks, BlockSums, Partitioning
from jobs.ledger.records import DatasetBudget, Protection
from jobs.ledger.rows import exact, reading, stamp
from jobs.ledger.tables import CHARGES, PARTITIONINGS, RELEASE_BLOCKS
from pipelines.partition import UnitsIn, Values


def bind_partitioning(connection: Connection, dataset: str, partitioning: Partitioning, now: datetime) -> None:
    """Records how a dataset is partitioned. That is done once, and for ever."""
    row = {
        "dataset": dataset,
        "partition_column": partitioning.column,
        "units_in": partitioning.units_in.value,
        "max_per_unit": partitioning.max_per_unit,
        "bound": stamp(now),
    }
    connection.execute(insert(PARTITIONINGS).values(row))


def record_blocks(connection: Connection, release_id: str, blocks: Blocks | None) -> None:
    """Records the partitions of a new release; nothing for a release about the whole dataset."""
    if blocks is not None:
        rows = [{"release_id": release_id, "block": name, "kind": blocks.values.value} for name in blocks.names]
        connection.execute(insert(RELEASE_BLOCKS), rows)


def blocks_of(connection: Connection, release_id: str, partitioning: Partitioning | None) -> Blocks | None:
    """The recorded partitions of a release; None for a release about the whole dataset."""
    query = select(RELEASE_BLOCKS).where(RELEASE_BLOCKS.c.release_id == release_id).order_by(RELEASE_BLOCKS.c.block)
    rows = connection.execute(query).all()
    if not rows or partitioning is None:
        return None
    with reading("record of a release's partitions"):
        return Blocks(partitioning, Values(rows[0].kind), tuple(row.block for row in rows))


def block_sums(connection: Connection, dataset: DatasetBudget) -> BlockSums:
    """The sums of a dataset's charges, from the charges themselves."""
    limit = None if dataset.partitioning is None else dataset.partitioning.limit
    return BlockSums.of(limit, charged_blocks(connection, dataset))


def charged_blocks(connection: Connection, dataset: DatasetBudget) -> list[tuple[Fraction, tuple[str, ...]]]:
    """Each charge of a dataset with its partitions, oldest first; no partitions for the whole dataset."""
    joined = CHARGES.outerjoin(RELEASE_BLOCKS, RELEASE_BLOCKS.c.release_id == CHARGES.c.release_id)
    query = select(CHARGES.c.number, CHARGES.c.amount, RELEASE_BLOCKS.c.block).select_from(joined)
    query = query.where(CHARGES.c.dataset == dataset.name).order_by(CHARGES.c.number, RELEASE_BLOCKS.c.block)
    amounts: dict[int, Fraction] = {}
    names: dict[int, list[str]] = {}
    for number, amount, block in connection.execute(query).all():
        amounts.setdefault(number, exact(amount))
        names.setdefault(number, []).extend([] if block is None else [block])
    return [(amount, tuple(names[number])) for number, amount in amounts.items()]


def check_blocks(
    connection: Connection, dataset: DatasetBudget, blocks: Blocks | None, release: Protection, ledger: str
) -> None:
    """Checks that a release of partitions keeps to the partitioning of its dataset.

    dataset: The dataset that is charged.
    blocks: The partitions of the release; None for the whole dataset, which every dataset accepts.
    release: Whom the release protects.
    ledger: Database URL without secrets, for the error message.

    Raises: NoBudgetError when the dataset is not partitioned, or in another way, or the release is for replace-one.
    """
    if blocks is None:
        return
    if release.neighbours is not Neighbours.ADD_REMOVE_UNIT:
        raise NoBudgetError(
            "a release of partitions is for replace_one_unit, under which a unit may leave one partition and enter "
            "another; want privacy.neighbours: add_remove_unit"
        )
    if dataset.partitioning is None:
        raise NoBudgetError(
            f"dataset {dataset.name!r} is not partitioned in the ledger, so no charge can be limited to one of its "
            "partitions; want no dataset.partition, or state for ever that it is partitioned: "
            + _create(dataset, blocks, ledger)
        )
    if dataset.partitioning != blocks.partitioning:
        raise NoBudgetError(
            f"dataset {dataset.name!r} is partitioned {dataset.partitioning.described}, but the release is for "
            f"partitions {blocks.partitioning.described}; want dataset.partition: {_config(dataset.partitioning)}"
        )
    kinds = set(_charged_kinds(connection, dataset.name)) - {blocks.values.value}
    if kinds:
        raise NoBudgetError(
            f"partitions of dataset {dataset.name!r} are of type {kinds.pop()} in earlier charges, and of type "
            f"{blocks.values} in this release; want dataset.partition.type: one type for ever, because one partition "
            "may have two names otherwise"
        )


def _charged_kinds(connection: Connection, dataset: str) -> Iterable[str]:
    joined = CHARGES.join(RELEASE_BLOCKS, RELEASE_BLOCKS.c.release_id == CHARGES.c.release_id)
    query = select(RELEASE_BLOCKS.c.kind).select_from(joined).where(CHARGES.c.dataset == dataset).distinct()
    return connection.execute(query).scalars()


def _create(dataset: DatasetBudget, blocks: Blocks, ledger: str) -> str:
    rule = blocks.partitioning
    limit = "" if rule.max_per_unit is None else f" --max-partitions-per-unit {rule.max_per_unit}"
    return (
        f"marquee budget create --ledger {shlex.quote(ledger)} --dataset {shlex.quote(dataset.name)} --epsilon "
        f"{format_exact(dataset.epsilon)} --delta {format_exact(dataset.delta)}"
        f"{' --consumers-only' if dataset.consumers_only else ''} --partitioned-by {shlex.quote(rule.column)} "
        f"--units-in {rule.units_in}{limit}"
    )


def _config(rule: Partitioning) -> str:
    limit = "" if rule.max_per_unit is None else f", max_partitions_per_unit: {rule.max_per_unit}"
    named = "" if rule.units_in is UnitsIn.ONE else f", units_in: {rule.units_in}"
    return f"{{column: {rule.column}, values: ...{named}{limit}}}"
