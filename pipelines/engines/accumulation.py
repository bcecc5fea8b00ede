"""The step that every engine runs on its workers: it turns batches of whole units into an int64 accumulator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipelines.aggregators.protocol import Aggregator, Block
from pipelines.arrow import booleans, integers, nulls_of, numbers_of, without_views
from pipelines.contribution import basket_block, shard_numbers, table_block
from pipelines.encode import EncodedRows, encode_batch, unit_column
from pipelines.layout import TableLayout
from pipelines.source import Source, open_parquet, raise_unreadable

_BATCH_ROWS = 1 << 18
# An Arrow dictionary can hold less than 2 GiB of text.
_LONGEST_DICTIONARY = (1 << 31) - (1 << 20)


def read_batches(source: Source, path: str, row_groups: Sequence[int] | None = None) -> Iterator[pa.RecordBatch]:
    """Reads the layout's columns of one file in batches.

    source: The checked files.
    path: One of them.
    row_groups: Numbers of the row groups to read; None for all.

    Raises: InputError when the file cannot be read; EngineError when its store cannot be reached.
    """
    yield from _read(path, source.layout.columns, _dictionary_columns(source), row_groups)


def units_of_file(source: Source, path: str) -> pa.Array:
    """The distinct units of one file, without null, as int64, uint64 or large_string. SENSITIVE."""
    columns = (unit_column(batch.column(0)) for batch in _read(path, (source.layout.unit,), (), None))
    chunks = [pc.unique(column.drop_null()) for column in columns if len(column) > column.null_count]
    return pc.unique(pa.chunked_array(chunks)) if chunks else pa.nulls(0)


def units_in_many_files(per_file: Iterable[pa.Array]) -> pa.Array:
    """The units that occur in more than one file. SENSITIVE.

    Files whose ranges of units do not overlap are never compared, so this is cheap for data sorted by unit.

    per_file: The distinct units of each file.
    """
    ranged = []
    for units in per_file:
        if len(units):
            # Text is compared as bytes, because text that is not valid UTF-8 has no Python string.
            ends = pc.min_max(units.view(pa.large_binary()) if pa.types.is_large_string(units.type) else units)
            ranged.append((ends["min"].as_py(), ends["max"].as_py(), units))
    ranged.sort(key=lambda entry: entry[:2])
    broken: list[pa.Array] = []
    overlapping: list[pa.Array] = []
    reach = None
    for low, high, units in ranged:
        if reach is None or low > reach:
            broken.extend(_repeated(overlapping))
            overlapping, reach = [], high
        overlapping.append(units)
        reach = max(reach, high)
    broken.extend(_repeated(overlapping))
    return pa.concat_arrays(broken) if broken else pa.nulls(0)


def accumulate(
    batches: Iterable[pa.RecordBatch], source: Source, aggregator: Aggregator, dropped: pa.Array | None = None
) -> NDArray[np.int64]:
    """The aggregator's accumulator over whole units. No value in a row makes this function fail. SENSITIVE.

    batches: The layout's columns, with all rows of every unit that is not dropped, in any order.
    source: The source, whose layout and salt are used.
    aggregator: The aggregator.
    dropped: Units whose rows are all dropped, because they contradict ``clustered_by_unit``; None for none.
    """
    return aggregator.add(aggregator.create(), whole_units(batches, source, dropped))


def whole_units(batches: Iterable[pa.RecordBatch], source: Source, dropped: pa.Array | None = None) -> Block:
    """Encodes rows of whole units and truncates each unit to the contribution bound. SENSITIVE.

    The arguments are those of ``accumulate``.
    """
    layout = source.layout
    parts = [encode_batch(batch, layout, dropped) for batch in batches]
    rows = EncodedRows.join(parts, layout)
    if isinstance(layout, TableLayout):
        return table_block(rows, layout, source.salt)
    return basket_block(rows, layout, source.salt)


def split_by_unit(
    batch: pa.RecordBatch, source: Source, shards: int, wanted: range | None = None, *, unitless: bool = False
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


def _read(
    path: str, columns: Sequence[str], dictionary_columns: tuple[str, ...], row_groups: Sequence[int] | None
) -> Iterator[pa.RecordBatch]:
    try:
        with open_parquet(path, dictionary_columns) as parquet:
            too_long = _columns_beyond_dictionaries(parquet.metadata, dictionary_columns, row_groups)
            if not too_long:
                yield from _batches(parquet, columns, row_groups)
                return
        short = tuple(column for column in dictionary_columns if column not in too_long)
        with open_parquet(path, short) as parquet:
            yield from _batches(parquet, columns, row_groups)
    except (pa.ArrowException, OSError) as error:
        raise_unreadable(path, error)


def _batches(
    parquet: pq.ParquetFile, columns: Sequence[str], row_groups: Sequence[int] | None
) -> Iterator[pa.RecordBatch]:
    batches = parquet.iter_batches(_BATCH_ROWS, row_groups=row_groups, columns=list(columns), use_threads=False)
    for batch in batches:
        yield without_views(batch.select(list(columns)))


def _columns_beyond_dictionaries(
    metadata: pq.FileMetaData, columns: Sequence[str], row_groups: Sequence[int] | None
) -> set[str]:
    """The columns whose text might not fit one Arrow dictionary, which would make a run fail because of its data.

    The distinct texts of a column are never longer than its uncompressed pages.
    """
    numbers = range(metadata.num_row_groups) if row_groups is None else row_groups
    groups = [metadata.row_group(number) for number in numbers]
    if not columns or sum(group.total_byte_size for group in groups) < _LONGEST_DICTIONARY:
        return set()
    sizes = dict.fromkeys(columns, 0)
    for group in groups:
        for index in range(group.num_columns):
            chunk = group.column(index)
            if chunk.path_in_schema in sizes:
                sizes[chunk.path_in_schema] += chunk.total_uncompressed_size
    return {column for column, size in sizes.items() if size >= _LONGEST_DICTIONARY}


def _dictionary_columns(source: Source) -> tuple[str, ...]:
    """The columns of string attributes. Few distinct values decode faster as a dictionary, which the encoder needs."""
    if not isinstance(source.layout, TableLayout):
        return ()
    texts = {
        attribute.column
        for attribute in source.layout.schema.attributes
        if attribute.values and isinstance(attribute.values[0], str)
    }
    return tuple(texts - {source.layout.unit})


def _repeated(arrays: list[pa.Array]) -> list[pa.Array]:
    """The units that occur in more than one of the arrays."""
    if len(arrays) < 2:
        return []
    counted = pc.value_counts(pa.chunked_array(arrays))
    return [counted.field("values").filter(booleans(numbers_of(counted.field("counts")) > 1))]
