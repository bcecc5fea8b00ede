"""Reads the public table of ``mechanism.public``, whose rows a mechanism takes for prior knowledge."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.errors import ConfigError, InputError
from dpcore.estimation.public_table import PublicTable
from pipelines.arrow import integers, without_views
from pipelines.attributes import Attribute
from pipelines.column_codes import NOT_FINITE, NULL, UNKNOWN, encode_column, marked_codes
from pipelines.encode import code_dtype
from pipelines.schema import Schema
from pipelines.source.columns import misfit, type_of_attribute
from pipelines.source.data_file import DataFile
from pipelines.source.file_format import FileFormat, format_of
from pipelines.source.other_files import columns_of, file_batches
from pipelines.source.text_values import typed

KEY: Final = "mechanism.public"
"""Config key of the table, under which its hash is recorded."""

_LARGEST: Final = 1 << 28  # Values of the table: its codes are in memory.
_WANTED: Final = "a Parquet or CSV file with one column for each attribute of the schema"
_WORDS: Final = {
    pa.int64(): "an integer",
    pa.uint64(): "an integer",
    pa.float64(): "a number",
    pa.bool_(): "true or false",
    pa.date32(): "a date such as 2026-11-25",
}


def read_public_table(path: Path, schema: Schema) -> tuple[PublicTable, str]:
    """Reads a public table, and a hash of its meaning.

    path: A file whose name ends in .parquet, .csv, .csv.gz, .csv.bz2, .tsv or .tsv.gz, with the columns of the schema;
        further columns are ignored. Text is read as in a dataset, except that text that is no value of its type is an
        error: in a dataset it counts as null.
    schema: The schema of the private table.

    Returns: The rows as codes, and SHA-256 of the codes in sorted order: the order of the rows means nothing.

    Raises: ConfigError that names the file, the column and the row: for a missing column or one of another type, for
        text that is no value of its type, for a value that the schema does not list and gives no code, for a null
        without a code, and for a table without a heading, without rows or with more than 2^28 values.
    """
    try:
        codes = _read(path, schema.as_written)
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        missing = isinstance(error, FileNotFoundError)
        problem = "does not exist" if missing else "cannot be read as the format that its name says"
        raise ConfigError(f"{KEY} is {path}, which {problem}; want {_WANTED}") from error
    if not len(codes):
        raise ConfigError(f"{KEY} is {path}, which has no rows; want at least one")
    ordered = codes[np.lexsort(codes.T[::-1])].astype("<i4")
    digest = hashlib.sha256(repr(ordered.shape).encode() + ordered.tobytes())
    return PublicTable(schema.domain, codes), digest.hexdigest()


def _read(path: Path, schema: Schema) -> NDArray[np.integer]:
    """The codes of all rows, [rows, attributes]."""
    blocks: list[NDArray[np.integer]] = []
    rows = 0
    for batch in _batches(path, schema):
        block = np.empty((batch.num_rows, len(schema.attributes)), dtype=code_dtype(schema))
        for axis, (column, attribute) in enumerate(zip(batch.columns, schema.attributes, strict=True)):
            _check_values(path, column, attribute, rows)
            block[:, axis] = encode_column(column, attribute, block.dtype)
        blocks.append(block)
        rows += len(block)
        if rows * len(schema.attributes) > _LARGEST:
            raise ConfigError(
                f"{KEY} is {path}, which has more than {_LARGEST:,} values; want a sample of its rows, because a "
                "thousandth of them often says as much"
            )
    return np.concatenate(blocks) if blocks else np.empty((0, len(schema.attributes)), dtype=code_dtype(schema))


def _batches(path: Path, schema: Schema) -> Iterator[pa.RecordBatch]:
    """The columns of the schema, in its order, batch by batch."""
    names = [attribute.column for attribute in schema.attributes]
    kind = format_of(path.name)
    if kind not in (FileFormat.PARQUET, FileFormat.CSV):
        raise ConfigError(f"{KEY} is {path}; want {_WANTED}, whose name ends in .parquet, .csv or .tsv")
    file = DataFile(str(path), format=kind)
    columns = pq.read_schema(path) if kind is FileFormat.PARQUET else _columns_of_text(path, file, schema)
    for attribute in schema.attributes:
        if columns.names.count(attribute.column) != 1:
            raise ConfigError(f"{KEY} is {path}, which has the columns {columns.names}; want {attribute.column!r} once")
        if wanted := misfit(attribute, columns.field(attribute.column).type):
            given = columns.field(attribute.column).type
            raise ConfigError(f"{KEY} is {path}, whose column {attribute.column!r} is {given}; want {wanted}")
    if kind is FileFormat.CSV:
        first = 0
        for batch in file_batches(file, names, [pa.large_string()] * len(names)):
            yield _typed(path, batch, schema, first)
            first += batch.num_rows
        return
    with pq.ParquetFile(path) as parquet:
        for batch in parquet.iter_batches(columns=names):
            yield without_views(batch.select(names))


def _columns_of_text(path: Path, file: DataFile, schema: Schema) -> pa.Schema:
    """Names and types of a text file's columns.

    Raises: ConfigError when it has no heading; advice for datasets, which may be written in other ways, would mislead.
    """
    types = {attribute.column: type_of_attribute(attribute) for attribute in schema.attributes}
    try:
        return columns_of(file, list(types), types.__getitem__)
    except InputError as error:
        raise ConfigError(
            f"{KEY} is {path}, which has no heading; want names of columns in its first line, with commas and quotes "
            'as in a,"b" (tabs in .tsv)'
        ) from error


def _typed(path: Path, texts: pa.RecordBatch, schema: Schema, first: int) -> pa.RecordBatch:
    """Values of the schema's types from columns of text, of which the first row is row ``first + 1`` of the file.

    Raises: ConfigError for text that is no value of its type; blank text is null.
    """
    arrays = []
    for column, attribute in zip(texts.columns, schema.attributes, strict=True):
        kind = type_of_attribute(attribute)
        values = typed(column.cast(pa.string()), kind)
        if values.null_count > column.null_count:
            is_lost = pc.and_(pc.invert(pc.is_valid(values)), pc.not_equal(pc.utf8_trim_whitespace(column), ""))
            row = pc.index(is_lost, True).as_py()
            if row >= 0:
                or_null = "" if attribute.null is False else ", or an empty field for null"
                raise ConfigError(
                    f"{KEY} is {path}, whose column {attribute.column!r} is {column[row].as_py()!r} in row "
                    f"{first + row + 1}; want {_WORDS[kind]}{or_null}"
                )
        arrays.append(values)
    return pa.record_batch(arrays, names=texts.schema.names)


def _check_values(path: Path, column: pa.Array, attribute: Attribute, first: int) -> None:
    """Refuses values without a code of their own: they would count as the first value of the schema."""
    marks = marked_codes(column, attribute)
    for mark, setting, wanted in (
        (UNKNOWN, attribute.other, "a value of the schema"),
        (NULL, attribute.null, "no null"),
        (NOT_FINITE, attribute.null, "a finite number"),
    ):
        rows = np.flatnonzero(marks == mark)
        if rows.size and setting is False:
            value = column.take(integers(rows[:1].astype(np.int64)))
            text = "null" if mark == NULL else repr(pc.cast(value, pa.string())[0].as_py())
            raise ConfigError(
                f"{KEY} is {path}, whose column {attribute.column!r} is {text} in row {first + rows[0] + 1}; want "
                f"{wanted}, or a code for it in the schema"
            )
