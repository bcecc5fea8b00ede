"""Checks a schema file: what is unfinished, which codes each attribute has in full, and whether columns fit."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dpcore.errors import ConfigError, InputError
from jobs.drafting.columns import Column
from pipelines.attributes import NULL, OTHER, Attribute
from pipelines.schema import Schema, schema_from
from pipelines.source.columns import misfit
from pipelines.yaml_file import read_yaml


def checked_schema(path: Path) -> Schema:
    """Reads a schema file. Everything that a draft leaves to a person is named at once.

    path: The file.

    Raises: ConfigError that names the file, and what is unfinished or wrong.
    """
    document = read_yaml(path, "schema", dates=True)
    todo = list(unfinished(document))
    if todo:
        raise ConfigError(f"schema {path} is not finished: {'; '.join(todo)}")
    try:
        return schema_from(document)
    except ConfigError as error:
        raise ConfigError(f"schema {path}: {error}") from error


def unfinished(document: object) -> Iterator[str]:
    """Yields what a draft still asks of a person, one phrase for each attribute.

    document: The parsed schema file.
    """
    entries = document.get("attributes") if isinstance(document, Mapping) else None
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, Mapping):
            continue
        name = entry.get("name")
        if "type" in entry and entry["type"] is None:
            yield f"{name!r} has no type; want categorical, integer, float, date or boolean"
        elif entry.get("values", None) == []:
            yield f"{name!r} has no values; want all values that are possible"
        elif entry.get("edges", None) == []:
            yield f"{name!r} has no edges; want the edges of its bins"


def domain_lines(schema: Schema) -> list[str]:
    """The codes of each attribute in words, with those that no line of the file names, and the size of the domain.

    schema: The schema.
    """
    widths = [max(len(attribute.name) for attribute in schema.attributes), 11]
    lines = [
        f"{attribute.name.ljust(widths[0])}  {attribute.kind.value.ljust(widths[1])}  {codes_in_words(attribute)}"
        for attribute in schema.attributes
    ]
    cells = 1
    for attribute in schema.attributes:
        cells *= attribute.size
    shown = f"{cells:,}" if cells < 10**15 else f"{cells:.1e}".replace("e+", "e")
    number = len(schema.attributes)
    return [*lines, f"{number} {'attribute' if number == 1 else 'attributes'}, {shown} possible rows"]


def codes_in_words(attribute: Attribute) -> str:
    """How many codes an attribute has, and which: those listed, and those that are added; and the formula of a sum.

    attribute: The attribute.
    """
    what = "value" if attribute.values else "bin"
    known = f"{attribute.known} {what}{'' if attribute.known == 1 else 's'}"
    added = [known]
    added += [f"{OTHER} for values that are not listed"] if attribute.other is True else []
    added += [f"{NULL} for nulls"] if attribute.null is True else []
    merged = [f"nulls count as {attribute.labels[attribute.null_code]}"] if attribute.null is not True else []
    if attribute.kind.value == "categorical" and attribute.other is not True:
        merged.insert(0, f"values that are not listed count as {attribute.labels[attribute.other_code]}")
    codes = f"{attribute.size} {'code' if attribute.size == 1 else 'codes'}: {' + '.join(added)}"
    return "; ".join([codes, *merged, *([f"the value is {_formula(attribute)}"] if attribute.sum_of else [])])


def _formula(attribute: Attribute) -> str:
    """A weighted sum of columns as a formula, such as |discharge - 2 admission|."""
    terms = sorted(attribute.sum_of, key=lambda term: term[1] < 0)
    signed = [
        f"{'-' if coefficient < 0 else '+'} {'' if abs(coefficient) == 1 else f'{abs(coefficient):g} '}{column}"
        for column, coefficient in terms
    ]
    formula = " ".join(signed).removeprefix("+ ")
    return f"{f'|{formula}|' if attribute.absolute else formula}{', in days' if attribute.dates else ''}"


def check_columns(schema: Schema, columns: Sequence[Column], unit: str | None, place: str) -> list[str]:
    """Checks that a file has every column of a schema in a type that fits. Types of text files are the schema's.

    schema: The schema.
    columns: The columns of the file.
    unit: The column of the unit; None if it is not known.
    place: The file, for errors.

    Returns: What is worth knowing though it is no mistake.
    Raises: InputError that lists every column that is missing or has another type.
    """
    kinds = {column.name: column.kind for column in columns}
    problems = [] if unit is None or unit in kinds else [f"column {unit!r} of the unit is missing{_near(unit, kinds)}"]
    for attribute, column in [(each, column) for each in schema.attributes for column in each.columns]:
        if column not in kinds:
            problems.append(f"column {column!r} is missing{_near(column, kinds)}")
        elif (kind := kinds[column]) is not None and (wanted := misfit(attribute, kind)) is not None:
            problems.append(f"column {column!r} has type {kind}; want {wanted}")
    if problems:
        raise InputError(f"{place} does not fit the schema: {'; '.join(problems)}")
    return list(_remarks(schema, columns, unit))


def _remarks(schema: Schema, columns: Sequence[Column], unit: str | None) -> Iterator[str]:
    used = {column for attribute in schema.attributes for column in attribute.columns}
    unused = [column.name for column in columns if column.name not in used | {unit}]
    if unused:
        yield f"not in the schema, so not released: {', '.join(unused)}"
    if unit in used:
        yield f"{unit!r} is the column of the unit and an attribute too; want it in the schema only if that is meant"
    if all(column.kind is None for column in columns):
        yield "the file has no types; the schema decides how its text is read"


def _near(name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""
