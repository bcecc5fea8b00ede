"""Names and types of the columns of a file. No value is read: no row but a row of headings, no statistics of footers.

The first line of a CSV file is taken for its headings, and the keys of the first line of JSON lines for its columns.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from dpcore.errors import InputError
from pipelines.attributes import Kind
from pipelines.source import DataFile, FileFormat
from pipelines.source.file_format import format_of
from pipelines.source.other_files import opened

LARGEST_LINE: Final = 1 << 20
"""Maximum size of the first line of a text file, in bytes."""

_UNREADABLE: Final = (OSError, ValueError, csv.Error, pa.ArrowException)


@dataclass(frozen=True)
class Column:
    """A column of a file. kind: Its type; None for a text file, which has no types."""

    name: str
    kind: pa.DataType | None


def read_columns(path: Path, delimiter: str = ",") -> tuple[Column, ...]:
    """The columns of a file, or of the first file in a folder.

    path: A local file whose name tells its format (``pipelines.source.file_format``), or a folder with such files.
    delimiter: What stands between the cells of a CSV file.

    Raises: InputError when there is no such file, it cannot be read, or its columns have no distinct names.
    """
    file = _file_of(path)
    try:
        columns = _READERS[format_of(file.name) or FileFormat.CSV](file, "\t" if ".tsv" in file.suffixes else delimiter)
    except _UNREADABLE as error:  # What libraries say may quote the file.
        raise InputError(
            f"the columns of {file} cannot be read ({type(error).__name__}); want an undamaged file of the format that "
            "its name says"
        ) from None
    names = [column.name for column in columns]
    if not names or not all(names) or len(set(names)) != len(names):
        raise InputError(f"{file} has columns without a name, or two of one name; want distinct names")
    return columns


def _file_of(path: Path) -> Path:
    if path.is_file() and format_of(path.name) is not None:
        return path
    wanted = ", ".join(ending for kind in FileFormat for ending in kind.endings)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and format_of(file.name) is not None)
        if files:
            return files[0]
        raise InputError(f"{path} holds no file whose columns can be read; want one that ends with {wanted}")
    problem = "has an ending of no known format" if path.exists() else "does not exist"
    raise InputError(f"{path} {problem}; want a file that ends with {wanted}, or a folder of them")


def _of_csv(path: Path, delimiter: str) -> tuple[Column, ...]:
    cells = [cell.strip() for cell in next(csv.reader([_first_line(path)], delimiter=delimiter, strict=True), [])]
    if any(_looks_like_data(cell) for cell in cells):
        raise InputError(
            f"the first line of {path} looks like data: a cell of it is empty or a number; want a first line with the "
            "names of the columns"
        )
    return tuple(Column(cell, None) for cell in cells)


def _looks_like_data(cell: str) -> bool:
    """Whether a cell is no heading: a draft must not repeat the values of a file that has no headings."""
    try:
        float(cell or "0")
    except ValueError:
        return False
    return True


def _of_json_lines(path: Path, _: str) -> tuple[Column, ...]:
    try:
        row = json.loads(_first_line(path), parse_int=_forget, parse_float=_forget)  # SENSITIVE
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if not isinstance(row, dict):
        raise InputError(f"the first line of {path} is no JSON object; want one object a line")
    return tuple(Column(name, None) for name in row)


def _forget(_: str) -> None:
    return None


def _first_line(path: Path) -> str:
    with opened(DataFile(str(path))) as stream, io.BufferedReader(stream) as file:
        line = file.readline(LARGEST_LINE + 1)
    if len(line) > LARGEST_LINE:
        raise InputError(f"the first line of {path} is longer than {LARGEST_LINE >> 20} MiB; want the names of columns")
    return line.decode("utf-8-sig").rstrip("\r\n")


def _of_schema(read: Callable[[Path], pa.Schema]) -> Callable[[Path, str], tuple[Column, ...]]:
    def columns(path: Path, _: str) -> tuple[Column, ...]:
        return tuple(Column(field.name, field.type) for field in read(path))

    return columns


def _orc_schema(path: Path) -> pa.Schema:
    from pyarrow import orc

    return orc.ORCFile(path).schema


def _ipc_schema(path: Path) -> pa.Schema:
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).schema


_READERS: Final = {
    FileFormat.CSV: _of_csv,
    FileFormat.JSON: _of_json_lines,
    FileFormat.PARQUET: _of_schema(pq.read_schema),
    FileFormat.ORC: _of_schema(_orc_schema),
    FileFormat.FEATHER: _of_schema(_ipc_schema),
}


def kind_of(kind: pa.DataType | None) -> Kind | None:
    """The type of an attribute that a column of some type is most plainly; None where only a person can say."""
    if kind is None:
        return None
    if pa.types.is_dictionary(kind):
        return kind_of(kind.value_type)
    return next((attribute for fits, attribute in _kinds() if fits(kind)), None)


def _kinds() -> Iterator[tuple[Callable[[pa.DataType], bool], Kind]]:
    yield pa.types.is_boolean, Kind.BOOLEAN
    yield pa.types.is_integer, Kind.INTEGER
    yield pa.types.is_floating, Kind.FLOAT
    yield pa.types.is_decimal, Kind.FLOAT
    yield pa.types.is_date, Kind.DATE
    yield pa.types.is_timestamp, Kind.DATE
    for is_text in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view):
        yield is_text, Kind.CATEGORICAL
