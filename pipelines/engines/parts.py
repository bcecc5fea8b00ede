"""Splits files of Parquet along row groups into parts, for tasks that need not read whole units."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pipelines.source import DataFile, Source
from pipelines.source.batches import open_parquet
from pipelines.source.file_format import FileFormat
from pipelines.source.footers import readers_for
from pipelines.source.other_files import rows_at_most
from pipelines.source.stores import reading

# Row groups are joined to parts of at least this number of rows, because every read of a part opens the file.
_PART_ROWS = 1 << 20


@dataclass(frozen=True)
class Part:
    """Consecutive row groups of one file.

    file: The file.
    row_groups: Numbers of the row groups, from 0; None for a whole file of a format other than Parquet.
    rows: Total number of rows in these row groups, or about that of the file.
    """

    file: DataFile
    row_groups: tuple[int, ...] | None
    rows: int


def parts_of(source: Source) -> list[Part]:
    """Splits all files that are needed into parts, in the order of the files.

    Raises: InputError for a file that cannot be read.
    """
    with ThreadPoolExecutor(readers_for(source.files)) as pool:
        return [part for parts in pool.map(_parts_of_file, source.needed_files) for part in parts]


def _parts_of_file(file: DataFile) -> list[Part]:
    if file.format is not FileFormat.PARQUET:
        return [Part(file, None, reading(file.path, lambda: rows_at_most(file), file.format))]
    with reading(file.path, lambda: open_parquet(file.path)) as parquet:
        metadata = parquet.metadata
        sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    parts: list[Part] = []
    first = rows = 0
    for number, size in enumerate(sizes):
        rows += size
        if rows >= _PART_ROWS or number == len(sizes) - 1:
            parts.append(Part(file, tuple(range(first, number + 1)), rows))
            first, rows = number + 1, 0
    return parts
