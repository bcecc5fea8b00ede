"""What a release of partitions counts: rows of its partitions, of units that are in no more partitions. TRUSTED.

Batches of rows carry the partition of each row in a further column, and the other rows of the dataset become pairs of a
unit and a partition. Both go to the task that counts the unit, which then knows all of its partitions. Whether and
where a unit is counted follows from the unit's own rows alone, and from no filter, so that all releases of one state
of the dataset agree on it.

Formal guarantees, for the releases of one state of a dataset. Let S(u) be the partitions in which unit u is counted:
    * With ``UnitsIn.ONE``, S(u) is the partition of u if all of its rows are in one, and otherwise empty. With
      ``UnitsIn.MANY`` and a bound K, S(u) holds the first K partitions of u.
    * Adding or removing u changes no other unit's S, because S(u) depends on rows of u alone. A release of the
      partitions B therefore has the same law with u and without u, unless S(u) and B have a partition in common. Then
      its loss is what it was charged, because the rows of u in it are bounded as in any release.
    * u thus loses the charges of the releases that touch S(u), and of those about the whole dataset, which add up as in
      any adaptive composition. This is parallel composition (McSherry 2009, Theorem 4) where S(u) has one element, and
      the block composition of Lecuyer et al. 2019 (Sage), section 4, otherwise: the sum of at most K blocks.
    * If a unit is replaced by another one, both may lose that much, each in its own partitions. So releases of
      partitions are made for add/remove alone, and a replace-one total charges them for group privacy.

Across states of a dataset, S(u) may change. With ``UnitsIn.MANY``, S(u) only grows up to K partitions as long as
partitions are appended in order and past ones stay as they are. A unit whose rows move to another partition is counted
there too, and loses what was charged to both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.arrow import booleans, integers, numbers_of
from pipelines.encode import unit_column
from pipelines.layout import Layout
from pipelines.partition import Partition, UnitsIn
from pipelines.unit_key import with_key

_OF_ROW = "\0partition"
_OF_OTHERS = "\0other partition"


def rows_and_pairs(
    batch: pa.RecordBatch, layout: Layout, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows that a release is about, and what else decides whether they count. SENSITIVE.

    batch: Rows with the columns that files hold of the layout and its filters.
    layout: The public layout.
    columns: Columns of the rows; None for those of the layout.

    Returns: Batches with these columns. If the partition is checked, they have a column more, and batches with distinct
        pairs of a unit and a partition of other rows may follow, for ``counted_rows``.
    """
    partition, names = layout.partition, list(layout.columns if columns is None else columns)
    batch = with_key(batch, layout.unit, layout.unit_parts)
    if partition is None:
        yield layout.where.apply(batch).select(names)
        return
    keys = partition.keys(batch.column(partition.column))
    counted = partition.is_chosen(keys) & layout.where.passing(batch)
    rows = integers(np.flatnonzero(counted))
    chosen = batch.select(names).take(rows)
    if not partition.is_checked:
        yield chosen
        return
    yield chosen.append_column(_OF_ROW, keys.take(rows))
    yield from _pairs(batch, keys, layout.unit, partition.matters(keys) & ~counted)


def pairs_alone(batch: pa.RecordBatch, layout: Layout) -> Iterator[pa.RecordBatch]:
    """The pairs of ``rows_and_pairs`` for rows of one partition, which matters and is not chosen. SENSITIVE.

    batch: Rows with the unit's columns and the partition's column.
    layout: The public layout, with a partition.
    """
    batch = with_key(batch, layout.unit, layout.unit_parts)
    units = pc.unique(unit_column(batch.column(layout.unit)).drop_null())
    if layout.partition is not None and len(units):
        key = layout.partition.keys(batch.column(layout.partition.column).slice(0, 1))
        same = key.take(integers(np.zeros(len(units), dtype=np.int32)))
        yield pa.record_batch([units, same], names=[layout.unit, _OF_OTHERS])


def counted_rows(batches: Iterable[pa.RecordBatch], layout: Layout) -> Iterable[pa.RecordBatch]:
    """The rows of units in partitions in which they count. Rows without a unit stay, for the encoder. SENSITIVE.

    batches: Everything that ``rows_and_pairs`` gives for whole units, in any order.
    layout: The public layout.

    Returns: Batches with the layout's columns.
    """
    if layout.partition is None or not layout.partition.is_checked:
        return batches
    judged = _judged(batches, layout, layout.partition)
    return [batch.filter(booleans(kept)).select(list(layout.columns)) for batch, kept in judged]


def units_left_out(batches: Iterable[pa.RecordBatch], layout: Layout) -> int:
    """The number of units with rows in a chosen partition in which they do not count. SENSITIVE.

    The arguments are those of ``counted_rows``.
    """
    if layout.partition is None or not layout.partition.is_checked:
        return 0
    judged = _judged(batches, layout, layout.partition)
    dropped = [unit_column(batch.column(layout.unit)).filter(booleans(~kept)) for batch, kept in judged]
    return len(pc.unique(pa.chunked_array(dropped))) if dropped else 0


def _judged(
    batches: Iterable[pa.RecordBatch], layout: Layout, partition: Partition
) -> list[tuple[pa.RecordBatch, NDArray[np.bool_]]]:
    """The batches of rows, with whether each row's unit counts in the row's partition."""
    held = [batch for batch in batches if batch.num_rows]
    rows = [batch for batch in held if batch.schema.names[-1] == _OF_ROW]
    if not rows:
        return []
    # Pairs of units without a row here decide nothing.
    known = pc.unique(pa.chunked_array([unit_column(batch.column(layout.unit)) for batch in rows]).drop_null())
    codes = [pc.index_in(unit_column(batch.column(layout.unit)), value_set=known) for batch in held]
    keys = [batch.column(batch.num_columns - 1) for batch in held]
    kept = _kept(pa.concat_arrays(codes), pa.concat_arrays(keys), partition)
    stops = np.cumsum([batch.num_rows for batch in held])[:-1]
    parts = zip(held, np.split(kept, stops), strict=True)
    return [(batch, mask) for batch, mask in parts if batch.schema.names[-1] == _OF_ROW]


def _pairs(batch: pa.RecordBatch, keys: pa.Array, unit: str, wanted: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
    """Distinct pairs of unit and partition, of some rows."""
    units = unit_column(batch.column(unit))
    rows = integers(np.flatnonzero(wanted & numbers_of(units.is_valid())))
    if len(rows):
        pairs = pa.table([units.take(rows), keys.take(rows)], names=[unit, _OF_OTHERS])
        grouped = pairs.group_by([unit, _OF_OTHERS], use_threads=False).aggregate([])
        yield from grouped.select([unit, _OF_OTHERS]).combine_chunks().to_batches()


def _kept(codes: pa.Array, keys: pa.Array, partition: Partition) -> NDArray[np.bool_]:
    """Whether each row's unit counts in the row's partition, bool [rows]; True for rows without a unit.

    codes: Number of the unit of each row, int32 [rows]; null for rows that decide nothing, or have no unit.
    keys: Partition of each row, [rows].
    """
    rows = np.flatnonzero(numbers_of(codes.is_valid()))
    ranks, partitions = _ranks(keys.take(integers(rows)))
    pairs, pair_of_row = np.unique(numbers_of(codes)[rows].astype(np.int64) * partitions + ranks, return_inverse=True)
    starts = np.flatnonzero(np.diff(pairs // max(partitions, 1), prepend=-1))  # The first pair of each unit.
    sizes = np.diff(np.append(starts, pairs.size))
    if partition.units_in is UnitsIn.ONE:
        kept = np.repeat(sizes, sizes) == 1
    else:
        kept = np.arange(pairs.size) - np.repeat(starts, sizes) < (partition.max_per_unit or partitions)
    counted = np.ones(len(codes), dtype=np.bool_)
    counted[rows] = kept[pair_of_row]
    return counted


def _ranks(keys: pa.Array) -> tuple[NDArray[np.int64], int]:
    """The place of each row's partition among all partitions of these rows in order, and their number."""
    encoded = keys.dictionary_encode()
    order = numbers_of(pc.array_sort_indices(encoded.dictionary)).astype(np.int64)
    places = np.empty(order.size, dtype=np.int64)
    places[order] = np.arange(order.size)
    return places[numbers_of(encoded.indices)], order.size
