"""Files of other formats than Parquet: their columns, what identifies them, and their rows in batches.

They are identified by a hash of all their bytes: two of these formats have no footer, and ORC and Feather files are
small where Parquet would be used for large ones.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
from pyarrow import fs, ipc, orc

from dpcore.errors import InputError
from pipelines.arrow import without_views
from pipelines.foreign_errors import cause_of
from pipelines.source.content import FileContent, whole_file_content
from pipelines.source.data_file import DataFile
from pipelines.source.file_format import FileFormat
from pipelines.source.listing import partition_values
from pipelines.source.stores import filesystem_of, reading
from pipelines.source.text_values import typed, unit_text

TypeOf = Callable[[str], pa.DataType]
"""The type that the layout gives to a column."""

BATCH_ROWS: Final = 1 << 18
_BLOCK_BYTES: Final = 1 << 24  # Of CSV: no row may be longer.
_HASHED_AT_ONCE: Final = 1 << 22
_LINES_AT_ONCE: Final = 1 << 15
_BYTES_OF_ROW: Final = 16  # At least, for the number of shards.
_COMPRESSION: Final = 8


def content_of_file(file: DataFile, key: bytes) -> FileContent:
    """What identifies the content of a file: a hash of all its bytes. SENSITIVE.

    file: The file.
    key: Key of ``FileContent.keyed_footer``, at most 64 bytes.
    """
    filesystem, inner = filesystem_of(file.path)
    digest, size, lines = hashlib.blake2b(digest_size=32), 0, 0
    with filesystem.open_input_stream(inner, compression=None) as stream:
        while block := stream.read(_HASHED_AT_ONCE):
            digest.update(block)
            size += len(block)
            lines += block.count(b"\n")
    return whole_file_content(file.path, size, digest.digest(), lines or size, key, file.facts_outside)


def format_inside(path: str) -> FileFormat:
    """Parquet for a file that begins as Parquet does, and CSV, in place of all other formats, for any other file."""
    filesystem, inner = filesystem_of(path)
    start = reading(path, lambda: filesystem.open_input_stream(inner, compression=None).read(4))
    return FileFormat.PARQUET if start == b"PAR1" else FileFormat.CSV


def columns_of(file: DataFile, needed: Iterable[str], type_of: TypeOf | None) -> pa.Schema:
    """Names and types of a file's columns. The types in text files are those of the layout.

    file: The file.
    needed: The columns that will be read.
    type_of: The type that the layout gives to each of them; None to leave the types of text open.

    Raises: InputError when a file has no heading, or is of another format.
    """
    filesystem, inner = filesystem_of(file.path)
    if file.format is FileFormat.ORC:
        with filesystem.open_input_file(inner) as source:
            return _without_timestamps(file, orc.ORCFile(source).schema, needed)
    if file.format is FileFormat.FEATHER:
        with filesystem.open_input_file(inner) as source, ipc.open_file(source) as reader:
            return reader.schema
    wanted = set(needed)
    if file.format is FileFormat.JSON:  # Which keys the objects have depends on rows, so it decides nothing.
        names = [name for name in needed if name not in partition_values(file.path)]
    else:
        with opened(file) as stream:
            names = _csv_names(file, stream)
    kinds = [type_of(name) if type_of is not None and name in wanted else pa.null() for name in names]
    return pa.schema(list(zip(names, kinds, strict=True)))


def check_rows(file: DataFile, names: Sequence[str]) -> None:
    """Reads a text file once, so that a row that cannot be split into fields is refused before anything is charged.

    file: The file. Typed files are not read: only a damaged one cannot be read.
    names: The columns that will be read, each in the file once.

    Raises: What reading raises; ``reading`` turns it into an InputError.
    """
    if file.format.is_text and names:
        for _ in file_batches(file, names, [pa.large_string()] * len(names)):
            pass


def _without_timestamps(file: DataFile, schema: pa.Schema, needed: Iterable[str]) -> pa.Schema:
    """The columns of an ORC file, whose timestamps are read in nanoseconds: one beyond the year 2262 would end a run.

    Raises: InputError when a timestamp will be read.
    """
    for name in needed:
        if name in schema.names and pa.types.is_timestamp(schema.field(name).type):
            raise InputError(
                f"column {name!r} of {file.path} is a timestamp of ORC, of which not all can be read; want a date, or "
                "another format"
            )
    return schema


def rows_at_most(file: DataFile) -> int:
    """A number that is hardly below that of a file's rows, which decides into how many shards rows are split."""
    filesystem, inner = filesystem_of(file.path)
    size = int(filesystem.get_file_info(inner).size or 0)
    packed = not file.format.is_text or file.path.partition("?")[0].endswith((".gz", ".bz2"))
    return size * (_COMPRESSION if packed else 1) // _BYTES_OF_ROW + 1


def file_batches(
    file: DataFile, names: Sequence[str], types: Sequence[pa.DataType], units: Collection[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Reads some columns of a file. SENSITIVE. The batches are the same each time.

    file: The file.
    names: Names of the columns in the file.
    types: The type that the layout gives to each of them, which counts in text files alone.
    units: Names of those columns that name units: texts of one number name one unit.
    """
    filesystem, inner = filesystem_of(file.path)
    match file.format:
        case FileFormat.CSV | FileFormat.JSON:
            read = _csv_columns if file.format is FileFormat.CSV else _json_columns
            with opened(file) as stream:
                for columns in read(file, stream, names):
                    yield _typed_batch(columns, names, types, units)
        case FileFormat.ORC:
            yield from _orc_batches(filesystem, inner, names)
        case _:
            yield from _feather_batches(filesystem, inner, names)


def _orc_batches(filesystem: fs.FileSystem, inner: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    with filesystem.open_input_file(inner) as source:
        reader = orc.ORCFile(source)
        for stripe in range(reader.nstripes):
            yield from _pieces(reader.read_stripe(stripe, columns=list(names)).select(list(names)))


def _feather_batches(filesystem: fs.FileSystem, inner: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    with filesystem.open_input_file(inner) as source:
        with ipc.open_file(source) as reader:
            fields = sorted(reader.schema.get_field_index(name) for name in names)
        options = ipc.IpcReadOptions(included_fields=fields)
        with ipc.open_file(source, options=options) as reader:
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                for column in batch.columns:
                    _check_memory(column)
                yield from _pieces(batch.select(list(names)))


def _check_memory(column: pa.Array) -> None:
    """Checks that a column of a damaged file leads to no other memory. Its values are not checked, so none is refused.

    Raises: pyarrow's exception for offsets or indices outside of the column.
    """
    if pa.types.is_dictionary(column.type):
        _check_memory(column.dictionary)
        column.indices.validate(full=True)
        bounds = pc.min_max(column.indices)
        if bounds["max"].is_valid and not (
            bounds["min"].as_py() >= 0 and bounds["max"].as_py() < len(column.dictionary)
        ):
            raise pa.ArrowInvalid("an index outside of a dictionary")
        return
    for is_kind, plain in _PLAIN_KINDS:
        if is_kind(column.type):
            column = column.view(plain)
    if pa.types.is_decimal(column.type):
        column = column.view(pa.binary(column.type.byte_width))
    column.validate(full=True)


_PLAIN_KINDS: Final = (
    (pa.types.is_string, pa.binary()),
    (pa.types.is_large_string, pa.large_binary()),
    (pa.types.is_string_view, pa.binary_view()),
    (pa.types.is_date64, pa.int64()),
    (pa.types.is_time32, pa.int32()),
    (pa.types.is_time64, pa.int64()),
)
"""Types whose values pyarrow would check, and types with the same memory whose values it does not."""


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, BATCH_ROWS):
        yield without_views(batch.slice(start, BATCH_ROWS))


def _csv_names(file: DataFile, stream: pa.NativeFile) -> list[str]:
    options = file.csv
    if options.column_names is not None:
        return list(options.column_names)
    with _text(stream, options.encoding) as text:
        rows = csv.reader(text, delimiter=options.delimiter, quotechar=options.quote)
        try:
            heading = next(rows, [])
        except csv.Error as error:
            raise InputError(
                f"{file.path} has no heading of CSV in its first line; want dataset.csv as the file is written"
            ) from cause_of(error)
    if not heading:
        raise InputError(
            f"{file.path} has no heading; want names of columns in its first line, or dataset.csv.column_names"
        )
    return [name.removeprefix("\ufeff") if number == 0 else name for number, name in enumerate(heading)]


def _csv_columns(file: DataFile, stream: pa.NativeFile, names: Sequence[str]) -> Iterator[list[pa.Array]]:
    options = file.csv
    read = arrow_csv.ReadOptions(
        block_size=_BLOCK_BYTES, encoding=options.encoding, use_threads=False, column_names=options.column_names
    )
    parse = arrow_csv.ParseOptions(
        delimiter=options.delimiter, quote_char=options.quote, newlines_in_values=True, ignore_empty_lines=True
    )
    convert = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        include_columns=list(names),
        null_values=list(options.null_values),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    with arrow_csv.open_csv(stream, read_options=read, parse_options=parse, convert_options=convert) as reader:
        for batch in reader:
            yield batch.columns


def _json_columns(file: DataFile, stream: pa.NativeFile, names: Sequence[str]) -> Iterator[list[pa.Array]]:
    with _text(stream, "utf-8") as text:
        lines = _lines(file, text)
        while some := list(islice(lines, _LINES_AT_ONCE)):
            records = list(_records(file, some))
            yield [pa.array([_as_text(record.get(name)) for record in records], pa.string()) for name in names]


def _lines(file: DataFile, text: io.TextIOWrapper) -> Iterator[str]:
    while line := text.readline(_BLOCK_BYTES):
        if len(line) == _BLOCK_BYTES:
            raise InputError(f"{file.path} has a line of more than 16 million characters; want one object per line")
        yield line


def _records(file: DataFile, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The objects of some lines; numbers stay text. Raises InputError for a line that is no object."""
    for line in lines:
        if not line.strip():
            continue
        try:
            record = json.loads(line, parse_float=str, parse_int=str, parse_constant=str)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise InputError(f"{file.path} has a line that is no JSON object; want one object such as {{...}} per line")
        yield record


def _as_text(value: object) -> str | None:
    """A value of JSON as text; null for lists and objects, which are values of no attribute."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return None
    # Half of a surrogate pair, which JSON can hold, is no character.
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def _typed_batch(
    columns: Sequence[pa.Array], names: Sequence[str], types: Sequence[pa.DataType], units: Collection[str]
) -> pa.RecordBatch:
    arrays = [
        typed(unit_text(column) if name in units else column, kind)
        for name, column, kind in zip(names, columns, types, strict=True)
    ]
    return pa.record_batch(arrays, names=list(names))


@contextmanager
def opened(file: DataFile) -> Iterator[pa.NativeFile]:
    """The bytes of a text file, unpacked if its name says that they are packed."""
    filesystem, inner = filesystem_of(file.path)
    ending = file.path.partition("?")[0].lower().rpartition(".")[2]
    with filesystem.open_input_stream(inner, compression={"gz": "gzip", "bz2": "bz2"}.get(ending)) as stream:
        yield stream


@contextmanager
def _text(stream: pa.NativeFile, encoding: str) -> Iterator[io.TextIOWrapper]:
    with io.TextIOWrapper(io.BufferedReader(stream), encoding=encoding, newline="") as text:
        yield text
