"""The step that every engine runs on its workers: it turns batches of whole units into an int64 accumulator."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcore.errors import IntegrityError
from pipelines.aggregators.item_sums import AnyAggregator, ItemSums
from pipelines.aggregators.protocol import Block
from pipelines.aggregators.row_hashes import RowHashes
from pipelines.arrow import booleans, integers, nulls_of, numbers_of
from pipelines.contribution import basket_block, named_block, shard_numbers, table_block
from pipelines.encode import EncodedRows, encode_batch, named_pairs, unit_column
from pipelines.engines.claim import range_of
from pipelines.item_names import UNKNOWN
from pipelines.layout import TableLayout
from pipelines.partition_rows import counted_rows
from pipelines.source import AnySource, DataFile, Source
from pipelines.source.batches import read_batches

# From this size on, in bytes, Arrow's pool hands back freed memory before a file is counted, which takes some
# milliseconds per file: counting many queries needs that memory, and few queries are counted in less time.
_LARGE_ACCUMULATOR = 1 << 20


def units_of_file(source: Source, file: DataFile) -> pa.Array:
    """The distinct units of one file, without null, as int64, uint64 or large_string. SENSITIVE."""
    batches = read_batches(source, file, columns=(source.layout.unit,))
    columns = (unit_column(batch.column(0)) for batch in batches)
    chunks = [pc.unique(column.drop_null()) for column in columns if len(column) > column.null_count]
    return pc.unique(pa.chunked_array(chunks)) if chunks else pa.nulls(0)


def units_in_many_files(per_file: Iterable[pa.Array]) -> pa.Array:
    """The units that occur in more than one file. SENSITIVE.

    Files whose ranges of units do not overlap are never compared, so this is cheap for data sorted by unit.

    per_file: The distinct units of each file.
    """
    ranged = [(found, units) for units in per_file if (found := range_of(units)) is not None]
    ranged.sort(key=lambda entry: entry[0])
    broken: list[pa.Array] = []
    overlapping: list[pa.Array] = []
    reach = None
    for (low, high), units in ranged:
        if reach is None or low > reach:
            broken.extend(_repeated(overlapping))
            overlapping, reach = [], high
        overlapping.append(units)
        reach = max(reach, high)
    broken.extend(_repeated(overlapping))
    return pa.concat_arrays(broken) if broken else pa.nulls(0)


def accumulate(
    batches: Iterable[pa.RecordBatch], source: AnySource, aggregator: AnyAggregator, dropped: pa.Array | None = None
) -> NDArray[np.int64]:
    """The aggregator's accumulator over whole units. No value in a row makes this function fail. SENSITIVE.

    batches: What ``rows_and_pairs`` gives of all rows of every unit that is not dropped, in any order.
    source: The source, whose layout and salt are used.
    aggregator: The aggregator.
    dropped: Units whose rows are all dropped, because they contradict ``clustered_by_unit``; None for none.
    """
    if isinstance(aggregator, ItemSums):
        return _item_sums(batches, source, aggregator, dropped)
    rows = EncodedRows.join(
        [encode_batch(batch, source.layout, dropped) for batch in counted_rows(batches, source.layout)], source.layout
    )
    accumulator = aggregator.create()
    if isinstance(aggregator, RowHashes):
        aggregator.add_rows(accumulator, rows)
    block = whole_units(rows, source)
    del rows  # Counting needs the memory of the units.
    if accumulator.nbytes >= _LARGE_ACCUMULATOR:
        pa.default_memory_pool().release_unused()
    return aggregator.add(accumulator, block)


def _item_sums(
    batches: Iterable[pa.RecordBatch], source: AnySource, aggregator: ItemSums, dropped: pa.Array | None
) -> NDArray[np.int64]:
    """As ``accumulate``, for items whose names are not known in advance. SENSITIVE."""
    layout = source.layout
    if isinstance(layout, TableLayout):
        raise IntegrityError("items are summed in baskets; want no table")
    units, items, names = named_pairs(counted_rows(batches, layout), layout, dropped)
    if aggregator.excluded is not None and len(names):
        kept = aggregator.excluded.codes_of(names)[items] == UNKNOWN
        units, items = units.filter(booleans(kept)), items[kept]
    block = named_block(units, items, names, layout.contribution.bound, source.salt)
    return aggregator.add_pairs(aggregator.create(), block)


def whole_units(rows: EncodedRows, source: AnySource) -> Block:
    """Truncates each unit to the contribution bound. SENSITIVE.

    rows: All valid rows of whole units.
    source: The source, whose layout and salt are used.
    """
    layout = source.layout
    if isinstance(layout, TableLayout):
        return table_block(rows, layout, source.salt)
    return basket_block(rows, layout, source.salt)


def split_by_unit(
    batch: pa.RecordBatch, source: AnySource, shards: int, wanted: range | None = None, *, unitless: bool = False
) -> list[pa.RecordBatch]:
    """Splits a batch into shards by a keyed hash of the unit, so that all rows of a unit get into the same shard.

    batch: Rows with the unit column.
    source: The source, whose layout and salt are used.
    shards: Number of shards.
    wanted: Consecutive shards to return; None for all. Memory is used only for these.
    unitless: Whether rows without a unit, which the encoder drops later, go to the first shard. Otherwise they are left
        out.

    Returns: The rows of each wanted shard, which may be empty.
    """
    wanted = range(shards) if wanted is None else wanted
    column = unit_column(batch.column(source.layout.unit))
    numbers = shard_numbers(column, shards, source.salt)
    if column.null_count:
        numbers[nulls_of(column)] = 0 if unitless else -1
    numbers -= wanted.start
    rows = np.flatnonzero((numbers >= 0) & (numbers < len(wanted)))
    rows = rows[np.argsort(numbers[rows], kind="stable")]
    ordered = batch.take(integers(rows))
    stops = np.cumsum(np.bincount(numbers[rows], minlength=len(wanted))).tolist()
    return [ordered.slice(start, stop - start) for start, stop in pairwise([0, *stops])]


def _repeated(arrays: list[pa.Array]) -> list[pa.Array]:
    """The units that occur in more than one of the arrays."""
    if len(arrays) < 2:
        return []
    counted = pc.value_counts(pa.chunked_array(arrays))
    return [counted.field("values").filter(booleans(numbers_of(counted.field("counts")) > 1))]
