"""Reads the public files that a config names: lists of queries, and weights of columns."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from dpcore.queries import Conjunctions
from dpcore.workload import Workload
from jobs.config.workload import Queries
from jobs.workload.query_text import LiteralError, read_columns, read_conjunctions
from pipelines.layout import BasketLayout, Layout
from pipelines.text_file import read_text

_LARGEST_TEXT: Final = 64 << 20  # Bytes. A list that is longer than this should be Parquet.


@dataclass(frozen=True, eq=False)
class PublicFiles:
    """Content of the public files that a config names.

    queries: Listed conjunctions with their weights; None without ``workload.conjunctions.file``.
    weights: Unnormalised probability of each column in the random choice of queries, float64 [columns of the view];
        None without ``workload.conjunctions.weights_file``.
    digests: SHA-256 of the meaning of each file (not of its bytes), by the config key that names the file.
    """

    queries: Workload | None = None
    weights: NDArray[np.float64] | None = None
    digests: dict[str, str] = field(default_factory=dict)


def read_public_files(section: Queries, layout: Layout) -> PublicFiles:
    """Reads the public files that a workload names.

    section: The section ``workload`` of a config, with absolute paths.
    layout: The public layout of the data, which defines the columns.

    Raises: ConfigError that names the file, the line or row, and the column.
    """
    conjunctions = section.conjunctions
    if conjunctions is None:
        return PublicFiles()
    if conjunctions.file is not None:
        queries = read_queries(Path(conjunctions.file), layout)
        digest = hashlib.sha256(queries.queries.digest().encode() + queries.weights.astype("<f8").tobytes())
        return PublicFiles(queries=queries, digests={"workload.conjunctions.file": digest.hexdigest()})
    if conjunctions.weights_file is not None:
        weights = read_weights(Path(conjunctions.weights_file), layout)
        digest = hashlib.sha256(weights.astype("<f8").tobytes())
        return PublicFiles(weights=weights, digests={"workload.conjunctions.weights_file": digest.hexdigest()})
    return PublicFiles()


def read_texts(path: Path, column: str) -> Sequence[str]:
    """Reads the texts of a public file, in their order.

    path: A .parquet or .csv file with the column. In any other file, each line is one text, and empty lines are
        skipped.
    column: Name of the column.

    Raises: ConfigError that names the file and the line or row.
    """
    return _read_rows(path, column).texts


def read_queries(path: Path, layout: Layout) -> Workload:
    """Reads conjunctions, of one or several numbers of literals, written as in ``answers.parquet``.

    path: A .parquet or .csv file with a column ``query`` and optionally a column ``weight``. In any other file, each
        line is one query, and empty lines are skipped.
    layout: The public layout of the data, which defines the columns.

    Returns: The conjunctions in the order of the file, with their weights (1 by default).
    Raises: ConfigError that names the file, the line or row, and the column.
    """
    rows = _read_rows(path, "query")
    try:
        literals = read_conjunctions(rows.texts, layout)
        queries = Conjunctions(layout.view, literals.columns, literals.negated)
    except LiteralError as error:
        raise rows.error(error.index, str(error)) from error
    weights = np.ones(queries.size) if rows.weights is None else rows.weights
    invalid = ~(np.isfinite(weights) & (weights > 0))
    if invalid.any():
        raise rows.error(
            int(invalid.argmax()), f"{weights[invalid][0]:g} is not a positive finite number; want > 0", "weight"
        )
    return Workload(queries, weights)


def read_weights(path: Path, layout: Layout) -> NDArray[np.float64]:
    """Reads the weights of columns.

    path: A .csv or .parquet file with a column ``item`` (baskets) or ``value`` (a table: 'sex=male'), and a column
        ``weight`` of numbers >= 0.
    layout: The public layout of the data, which defines the columns.

    Returns: Unnormalised probabilities, float64 [columns of the view]; 0 for columns that the file does not list.
    Raises: ConfigError that names the file, the line or row, and the column.
    """
    rows = _read_rows(path, "item" if isinstance(layout, BasketLayout) else "value", weighted=True)
    try:
        columns = read_columns(rows.texts, layout)
    except LiteralError as error:
        raise rows.error(error.index, str(error)) from error
    listed = np.ones(len(columns)) if rows.weights is None else rows.weights
    invalid = ~(np.isfinite(listed) & (listed >= 0))
    if invalid.any():
        raise rows.error(
            int(invalid.argmax()), f"{listed[invalid][0]:g} is not a finite number >= 0; want one", "weight"
        )
    if not listed.any():
        raise ConfigError(f"{path}: every weight is 0; want at least one positive weight")
    weights = np.zeros(layout.view.columns)
    weights[columns] = listed
    return weights


@final
@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a public file.

    path: The file.
    kind: Word for a row in error messages: 'line' or 'row'.
    column: Name of the column of texts; None for a file without columns.
    texts: The texts of that column.
    weights: Weight of each text, float64; None if the file has no weights.
    lines: Number of the line or row of each text in the file, from 1.
    """

    path: Path
    kind: str
    column: str | None
    texts: Sequence[str]
    weights: NDArray[np.float64] | None
    lines: Sequence[int]

    def error(self, index: int, problem: str, column: str | None = None) -> ConfigError:
        """An error about the text at ``index``."""
        column = column or self.column
        where = "" if column is None else f", column {column!r}"
        return ConfigError(f"{self.path}, {self.kind} {self.lines[index]}{where}: {problem}")


def _read_rows(path: Path, column: str, weighted: bool = False) -> _Rows:
    """Reads a file whose texts are in ``column``. If ``weighted``, the file must have weights."""
    wanted = f"a text file with a column {column!r}, or Parquet with a name that ends in .parquet"
    try:
        if path.suffix == ".parquet":
            rows = _read_parquet(path, column)
        else:
            text = read_text(path, wanted, _LARGEST_TEXT)
            rows = _read_csv(path, text, column) if path.suffix == ".csv" or weighted else _read_lines(path, text)
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist; want {wanted}") from error
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be read as Parquet, as its name says that it is; want a whole Parquet file, or a .csv file"
        ) from error
    if not len(rows.texts):
        raise ConfigError(f"{path} has no rows; want at least one")
    if weighted and rows.weights is None:
        raise ConfigError(f"{path} has no column 'weight'; want the columns {column!r} and 'weight'")
    return rows


def _read_lines(path: Path, text: str) -> _Rows:
    kept = [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    return _Rows(path, "line", None, [line for _, line in kept], None, [number for number, _ in kept])


def _read_csv(path: Path, text: str, column: str) -> _Rows:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    texts: list[str] = []
    weights: list[float] = []
    lines: list[int] = []
    try:
        header = [name.strip() for name in next(reader, [])]
        field_index = _column_index(path, header, column)
        weight = header.index("weight") if "weight" in header else None
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                problem = f"has {len(row)} fields; want {len(header)}, with quotes around a field that contains a comma"
                raise ConfigError(f"{path}, line {reader.line_num}: {problem}")
            texts.append(row[field_index])
            lines.append(reader.line_num)
            if weight is not None:
                weights.append(_number(path, row[weight], reader.line_num))
    except csv.Error as error:
        raise ConfigError(f"{path}, line {reader.line_num}: is not valid CSV ({error})") from error
    return _Rows(path, "line", column, texts, None if weight is None else np.array(weights), lines)


def _column_index(path: Path, header: list[str], column: str) -> int:
    if column not in header:
        raise ConfigError(f"{path} has the columns {header}; want a column {column!r}")
    if any(header.count(name) > 1 for name in (column, "weight")):
        raise ConfigError(f"{path} has the columns {header}; want {column!r} and 'weight' once each")
    return header.index(column)


def _number(path: Path, text: str, line: int) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ConfigError(f"{path}, line {line}, column 'weight': {text!r} is not a number; want > 0") from error


def _read_parquet(path: Path, column: str) -> _Rows:
    names = pq.read_schema(path).names
    _column_index(path, names, column)
    weighted = "weight" in names
    table = pq.read_table(path, columns=[column, *(["weight"] if weighted else [])])
    for name in table.column_names:
        if table.column(name).null_count:
            index = int(pc.index(table.column(name).is_null(), True).as_py())
            raise ConfigError(f"{path}, row {index + 1}, column {name!r}: is null; want no nulls")
    try:
        texts = table.column(column).cast(pa.string()).to_pylist()
        weights = np.asarray(table.column("weight").cast(pa.float64()).to_numpy()) if weighted else None
    except pa.ArrowException as error:
        raise ConfigError(
            f"{path}: column {column!r} or 'weight' has the wrong type; want text in the first and numbers in the "
            "second"
        ) from error
    return _Rows(path, "row", column, texts, weights, range(1, len(texts) + 1))
