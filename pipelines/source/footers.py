"""Reads the footers of Parquet files, and what stands for one in files of other formats, in parallel."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from dpcore.errors import EngineError, InputError
from pipelines.source.content import FileContent, content_of, keyed_footer
from pipelines.source.data_file import DataFile
from pipelines.source.file_format import FileFormat
from pipelines.source.listing import partition_values
from pipelines.source.other_files import TypeOf, check_rows, columns_of, content_of_file
from pipelines.source.stores import filesystem_of, reading

_LOCAL_READERS = 8
_REMOTE_READERS = 64  # A store answers in tens of milliseconds, in which a reader does nothing.
_MAGIC = b"PAR1"
_FOOTER_TAIL = 8  # Bytes: the length of the footer, and the magic bytes.
# Bytes at the end of a file that are read at once; most footers are shorter. A second read costs a request to a store,
# and next to nothing on a local disk, where the footers of many files would otherwise be the most that is read.
_FIRST_READ = 1 << 16
_FIRST_LOCAL_READ = 1 << 12
_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table at one version.

    name: The table in words, for messages.
    ids: Each column by its present name, with its id in the table's files, or None where files know names alone.
    """

    name: str
    ids: Mapping[str, int | None]


@dataclass(frozen=True)
class ReadFooter:
    """What one footer says. SENSITIVE.

    file: The file, with the columns that are not in it.
    schema: Schema of the file.
    content: What identifies the content of the file.
    """

    file: DataFile
    schema: pa.Schema
    content: FileContent


def readers_for(files: Sequence[DataFile]) -> int:
    """Number of threads that read footers at once: many where files are in a store."""
    remote = any("://" in file.path and not file.path.lower().startswith("file:") for file in files)
    return _REMOTE_READERS if remote else _LOCAL_READERS


def read_footers(
    files: Sequence[DataFile],
    needed: Collection[str] = (),
    table: TableColumns | None = None,
    key: bytes = b"",
    type_of: TypeOf | None = None,
) -> tuple[ReadFooter, ...]:
    """Reads the footers of all files, in their order. SENSITIVE.

    files: The files.
    needed: The columns that will be read. Nothing is found out about others.
    table: Columns of the table that the files belong to; None for files of no table.
    key: Key of ``FileContent.keyed_footer``, at most 64 bytes.
    type_of: The type that the layout gives to each needed column, for files of text.

    Raises: InputError for a file that cannot be read; EngineError when its store cannot be reached.
    """
    with ThreadPoolExecutor(readers_for(files)) as pool:
        read = functools.partial(_read_footer, needed=needed, table=table, key=key, type_of=type_of)
        return tuple(pool.map(read, files))


def readable_contents(paths: Sequence[str]) -> tuple[FileContent, ...]:
    """The contents of files that another program reads; empty if this process cannot read them. SENSITIVE.

    paths: Local paths or URLs.
    """
    files = [DataFile(path) for path in paths]
    try:  # The first file alone first: a store that cannot be reached would make every file wait.
        return tuple(read.content for part in (files[:1], files[1:]) for read in read_footers(part))
    except (InputError, EngineError):
        return ()


def keyed_footer_now(file: DataFile, key: bytes) -> bytes:
    """``FileContent.keyed_footer`` of a file as it is now. SENSITIVE.

    Raises: InputError when the file cannot be read any more.
    """
    if file.format is not FileFormat.PARQUET:
        return reading(file.path, lambda: content_of_file(file, key).keyed_footer, file.format)
    size, footer = reading(file.path, lambda: _sized_footer(file.path))
    return keyed_footer(size, footer, key, file.facts_outside)


def _read_footer(
    file: DataFile, needed: Collection[str], table: TableColumns | None, key: bytes, type_of: TypeOf | None
) -> ReadFooter:
    if file.format is not FileFormat.PARQUET:
        return reading(file.path, lambda: _read_whole(file, needed, key, type_of), file.format)

    def read() -> ReadFooter:
        size, footer = _sized_footer(file.path)
        # The parser wants a file; this one consists of nothing but the footer.
        with pq.ParquetFile(pa.BufferReader(_MAGIC + footer)) as parquet:
            schema, rows = parquet.schema_arrow, parquet.metadata.num_rows
        if (live := file.live_rows()) is not None and live.size != rows:  # SENSITIVE
            raise InputError(f"{file.path} does not have the rows that its table says; want a whole table")
        known = _with_folder(file, schema, needed) if table is None else _with_table(file, schema, needed, table)
        content = content_of(file.path, size, footer, rows, key, known.facts_outside)
        return ReadFooter(known, schema, content)

    return reading(file.path, read)


def _read_whole(file: DataFile, needed: Collection[str], key: bytes, type_of: TypeOf | None) -> ReadFooter:
    """What stands for a footer in a file of another format: its columns, and a hash of all its bytes."""
    if not needed and type_of is None:
        return ReadFooter(file, pa.schema([]), content_of_file(file, key))
    schema = columns_of(file, needed, type_of)
    known = _with_folder(file, schema, needed)
    content = content_of_file(known, key)
    check_rows(known, [column for column in needed if known.stored(column) and column in schema.names])
    if file.format.is_text and content_of_file(known, key) != content:  # What was checked is what is identified.
        raise InputError(f"{file.path} was changed while it was checked; want a file that stays the same during a run")
    return ReadFooter(known, schema, content)


def _with_folder(file: DataFile, schema: pa.Schema, needed: Collection[str]) -> DataFile:
    """The file with the columns that its folders name and that it does not hold itself."""
    values = partition_values(file.path)
    constants = tuple((column, values[column]) for column in needed if column in values and column not in schema.names)
    return replace(file, constants=constants) if constants else file


def _with_table(file: DataFile, schema: pa.Schema, needed: Collection[str], table: TableColumns) -> DataFile:
    """The file with the names that the table's columns have in it, and those that it does not hold."""
    ids = {field.metadata[_FIELD_ID]: field.name for field in schema if _FIELD_ID in (field.metadata or ())}
    values = dict(file.constants)
    constants: list[tuple[str, str | None]] = []
    stored: list[tuple[str, str]] = []
    absent: list[str] = []
    for column in needed:
        if column not in table.ids:
            raise InputError(f"{table.name} has no column {column!r}; want one of {', '.join(sorted(table.ids))}")
        number = table.ids[column]
        # Files that were added to a table without being rewritten have no ids: a table knows their columns by name.
        name = ids.get(str(number).encode()) if ids and number is not None else column
        if name is not None and name in schema.names:
            if name != column:
                stored.append((column, name))
        elif column in values:
            constants.append((column, values[column]))
        else:
            absent.append(column)
    return replace(file, constants=tuple(constants), stored_as=tuple(stored), absent=tuple(absent))


def _sized_footer(path: str) -> tuple[int, bytes]:
    """The size of a file in bytes, and its footer."""
    filesystem, inner = filesystem_of(path)
    with filesystem.open_input_file(inner) as file:
        size = int(file.size())
        first_read = _FIRST_LOCAL_READ if isinstance(filesystem, fs.LocalFileSystem) else _FIRST_READ
        return size, _footer_bytes(path, file, size, first_read)


def _footer_bytes(path: str, file: pa.NativeFile, size: int, first_read: int) -> bytes:
    """The footer of a file with the eight bytes after it, of which the last ``first_read`` bytes are read at once."""
    end = bytes(file.read_at(min(size, first_read), max(0, size - first_read)))
    if size <= first_read or not end.endswith(_MAGIC):  # Otherwise the first bytes would cost another request.
        head = end[: len(_MAGIC)] if size <= first_read else file.read_at(len(_MAGIC), 0)
        if head != _MAGIC:
            raise InputError(f"{path} is not a Parquet file; want a Parquet file, or a glob that excludes this one")
    if size < len(_MAGIC) + _FOOTER_TAIL or not end.endswith(_MAGIC):
        raise InputError(f"{path} is truncated: its Parquet footer is missing; want the whole file")
    length = int.from_bytes(end[-_FOOTER_TAIL : -len(_MAGIC)], "little") + _FOOTER_TAIL
    if length > size - len(_MAGIC):
        raise pa.ArrowInvalid("the footer is longer than the file")
    return end[-length:] if length <= len(end) else bytes(file.read_at(length, size - length))
