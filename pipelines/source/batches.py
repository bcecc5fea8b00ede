"""Reads files in batches: the rows that are not deleted and pass the filter, with the columns of the layout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from pipelines.arrow import integers, without_views
from pipelines.layout import TableLayout, stored
from pipelines.partition_rows import pairs_alone, rows_and_pairs
from pipelines.source.columns import constant_column, type_of_constant
from pipelines.source.data_file import DataFile
from pipelines.source.file_format import FileFormat
from pipelines.source.opening import Source
from pipelines.source.other_files import BATCH_ROWS, file_batches
from pipelines.source.partition_files import Need, need_of
from pipelines.source.stores import breaks_off, filesystem_of, raise_unreadable

# An Arrow dictionary can hold less than 2 GiB of text.
_LONGEST_DICTIONARY = (1 << 31) - (1 << 20)


def open_parquet(path: str, dictionary_columns: tuple[str, ...] = ()) -> pq.ParquetFile:
    """Opens one file of a source.

    path: Local path or URL.
    dictionary_columns: String columns to read as dictionaries.
    """
    filesystem, inner = filesystem_of(path)
    # Reading ahead pays for remote stores. Files are not memory-mapped, because a truncated file would then kill the
    # process.
    remote = not isinstance(filesystem, fs.LocalFileSystem)
    return pq.ParquetFile(inner, filesystem=filesystem, read_dictionary=list(dictionary_columns), pre_buffer=remote)


def read_batches(
    source: Source, file: DataFile, row_groups: Sequence[int] | None = None, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Reads one file in batches, without the rows that its table has deleted or that pass no filter. SENSITIVE.

    source: The checked files.
    file: One of them.
    row_groups: Numbers of consecutive row groups to read; None for all.
    columns: Columns of the rows; None for those of the layout.

    Returns: What ``rows_and_pairs`` gives.

    Raises: InputError when the file cannot be read; EngineError when its store cannot be reached.
    """
    layout, need = source.layout, need_of(file, source.layout)
    columns = layout.columns if columns is None else columns
    if layout.partition is not None and need is Need.UNITS:
        for batch in _live_batches(source, file, (*layout.unit_columns, layout.partition.column), row_groups):
            yield from pairs_alone(batch, layout)
    elif need is Need.ROWS:
        read = stored(layout, (*columns, *layout.filter_columns))
        for batch in _live_batches(source, file, read, row_groups):
            yield from rows_and_pairs(batch, layout, columns)


def _live_batches(
    source: Source, file: DataFile, columns: Sequence[str], row_groups: Sequence[int] | None
) -> Iterator[pa.RecordBatch]:
    """All columns of the rows that the table has not deleted."""
    held = [column for column in columns if file.stored(column)]
    live = file.live_rows()  # SENSITIVE
    for first_row, batch in _stored_batches(source, file, held, row_groups):
        rows = batch.num_rows
        arrays = dict(zip(held, batch.columns, strict=True))
        for column in columns:
            if column not in arrays:
                arrays[column] = constant_column(file, column, source.layout, rows)
        whole = pa.record_batch([arrays[column] for column in columns], names=list(columns))
        if live is not None:
            whole = whole.take(integers(np.flatnonzero(live[first_row : first_row + rows])))
        yield whole


def _stored_batches(
    source: Source, file: DataFile, columns: Sequence[str], row_groups: Sequence[int] | None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The columns that are in the file, with the number of each batch's first row.

    If the answer of a remote store breaks off, the file is read again; batches that were handed on are left out.
    """
    passed, attempt = 0, 1
    while True:
        try:
            for numbered in islice(_read_once(source, file, columns, row_groups), passed, None):
                passed += 1
                yield numbered
            return
        except (pa.ArrowException, OSError) as error:
            if not breaks_off(file.path, error, attempt):
                raise_unreadable(file.path, error, file.format)
            attempt += 1


def _read_once(
    source: Source, file: DataFile, columns: Sequence[str], row_groups: Sequence[int] | None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Reads the file once. The batches are the same each time."""
    names = [file.stored_name(column) for column in columns]
    if file.format is not FileFormat.PARQUET:
        types = [type_of_constant(source.layout, column) for column in columns]
        yield from _numbered(file_batches(file, names, types, source.layout.unit_columns))
        return
    dictionary_columns = tuple(
        name for column, name in zip(columns, names, strict=True) if column in _text_columns(source)
    )
    with open_parquet(file.path, dictionary_columns) as parquet:
        too_long = _columns_beyond_dictionaries(parquet.metadata, dictionary_columns, row_groups)
        if not too_long:
            yield from _numbered_batches(parquet, names, row_groups)
            return
    short = tuple(column for column in dictionary_columns if column not in too_long)
    with open_parquet(file.path, short) as parquet:
        yield from _numbered_batches(parquet, names, row_groups)


def _numbered_batches(
    parquet: pq.ParquetFile, names: Sequence[str], row_groups: Sequence[int] | None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    before = range(min(row_groups, default=0)) if row_groups is not None else ()
    first_row = sum(parquet.metadata.row_group(number).num_rows for number in before)
    batches = parquet.iter_batches(BATCH_ROWS, row_groups=row_groups, columns=list(names), use_threads=False)
    yield from _numbered((without_views(batch.select(list(names))) for batch in batches), first_row)


def _numbered(batches: Iterable[pa.RecordBatch], first_row: int = 0) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches with the number of each one's first row."""
    for batch in batches:
        yield first_row, batch
        first_row += batch.num_rows


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


def _text_columns(source: Source) -> set[str]:
    """The columns of string attributes. Few distinct values decode faster as a dictionary, which the encoder needs."""
    if not isinstance(source.layout, TableLayout):
        return set()
    texts = {
        attribute.column
        for attribute in source.layout.schema.attributes
        if attribute.values and isinstance(attribute.values[0], str)
    }
    return texts - set(source.layout.unit_columns)
