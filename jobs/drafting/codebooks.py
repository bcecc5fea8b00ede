"""Reads codebooks, which say in public what the values of each variable are and mean."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from dpcore.errors import ConfigError
from jobs.drafting.ddi import read_ddi
from jobs.drafting.frictionless import read_frictionless
from jobs.drafting.variables import Variable, listed, number
from pipelines.attributes import Kind
from pipelines.text_file import read_text

LARGEST_CODEBOOK: Final = 32 << 20
"""Maximum size of a codebook, in bytes."""

_COLUMNS: Final = ("attribute", "value", "label", "type", "description", "low", "high")


def read_codebook(path: Path) -> tuple[Variable, ...]:
    """The variables of a codebook, in its order.

    path: A CSV file with columns ``attribute``, ``value`` and ``label``; a DDI Codebook (.xml); or a table schema of
        Frictionless (.json), alone or in a data package.

    Raises: ConfigError when the file is none of these, or describes no variable or one of them twice.
    """
    text = read_text(path, "a codebook: CSV, DDI (.xml) or a Frictionless table schema (.json)", LARGEST_CODEBOOK)
    readers = {".csv": read_csv, ".xml": read_ddi, ".json": read_frictionless}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ConfigError(f"codebook {path} ends with {path.suffix!r}; want .csv, .xml (DDI) or .json (Frictionless)")
    try:
        variables = reader(text)
    except ConfigError as error:
        raise ConfigError(f"codebook {path}: {error}") from error
    _check(path, variables)
    return variables


def _check(path: Path, variables: Sequence[Variable]) -> None:
    names = [variable.name for variable in variables]
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if not names or not all(names):
        raise ConfigError(f"codebook {path} describes no variable, or one without a name; want names of variables")
    if twice is not None:
        raise ConfigError(f"codebook {path} describes {twice!r} twice; want each variable once")


def read_csv(text: str) -> tuple[Variable, ...]:
    """The variables of a codebook in CSV: one line per value, and a line without a value about the attribute itself.

    text: The file. Columns are ``attribute`` (always), and ``value``, ``label``, ``type``, ``description``, ``low`` and
        ``high``.

    Raises: ConfigError when a column is missing or unknown, or a type is none of a schema.
    """
    try:
        rows = list(csv.DictReader(io.StringIO(text), strict=True))
    except csv.Error as error:
        raise ConfigError(f"it is no CSV file ({error}); want columns {', '.join(_COLUMNS[:3])}") from error
    columns = set(rows[0]) if rows else set()
    if "attribute" not in columns or not columns <= set(_COLUMNS):
        raise ConfigError(f"it has other columns than a codebook; want attribute, and of {', '.join(_COLUMNS[1:])} any")
    names = dict.fromkeys((row["attribute"] or "").strip() for row in rows)
    return tuple(_of_rows(name, [row for row in rows if (row["attribute"] or "").strip() == name]) for name in names)


def _of_rows(name: str, rows: Sequence[Mapping[str, str | None]]) -> Variable:
    about = [row for row in rows if not (row.get("value") or "").strip()]
    kind = _kind(name, next(filter(None, (row.get("type") for row in rows)), None))
    values = [row for row in rows if (row.get("value") or "").strip()]
    return Variable(
        name,
        kind,
        label=_first(about, "label"),
        description=_first(about or rows, "description"),
        values=tuple(listed(row["value"], kind) for row in values),
        labels=tuple((row.get("label") or "").strip() for row in values),
        low=number(_first(rows, "low")),
        high=number(_first(rows, "high")),
    )


def _first(rows: Sequence[Mapping[str, str | None]], key: str) -> str:
    return next((text.strip() for row in rows if (text := row.get(key))), "")


def _kind(name: str, text: str | None) -> Kind | None:
    if text is None:
        return None
    if text.strip() not in tuple(Kind):
        raise ConfigError(f"{name!r} has type {text!r}; want one of {', '.join(Kind)}")
    return Kind(text.strip())


def joined(columns: Sequence[Variable], codebook: Sequence[Variable]) -> tuple[Variable, ...]:
    """The variables of a file, with what a codebook says of those that it describes.

    columns: The variables of the file, which decide which there are and in what order.
    codebook: The variables of the codebook.
    """
    described = {variable.name: variable for variable in codebook}
    return tuple(_joined(column, described.get(column.name)) for column in columns)


def _joined(column: Variable, described: Variable | None) -> Variable:
    """The type of the column decides: '1' is an integer in a column of integers, and text in a column of texts."""
    if described is None:
        return column
    kind = column.kind or described.kind
    numbers = tuple(listed(str(value), Kind.INTEGER) for value in described.values)
    values = described.values
    if column.kind is Kind.INTEGER and all(isinstance(value, int) for value in numbers):
        values = numbers
    elif column.kind is Kind.CATEGORICAL:
        values = tuple(map(str, values))
    return replace(described, kind=kind, column_type=column.column_type, values=values)
