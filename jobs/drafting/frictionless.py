"""Reads the fields of a Frictionless table schema, alone or in a data package with one table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from typing import Any, Final

from dpcore.errors import ConfigError
from jobs.drafting.variables import Variable
from pipelines.attributes import Kind, Value

_KINDS: Final = {
    "string": Kind.CATEGORICAL,
    "integer": Kind.INTEGER,
    "year": Kind.INTEGER,
    "number": Kind.FLOAT,
    "boolean": Kind.BOOLEAN,
    "date": Kind.DATE,
    "datetime": Kind.DATE,
}


def read_frictionless(text: str) -> tuple[Variable, ...]:
    """The fields of a table schema, in its order.

    text: The file.

    Raises: ConfigError when it is no JSON or has no fields, or a package has several tables.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"it is no JSON ({type(error).__name__}); want a Frictionless table schema") from error
    fields = _schema(document).get("fields")
    if not isinstance(fields, list) or not all(isinstance(field, Mapping) for field in fields):
        raise ConfigError("it has no list 'fields'; want a Frictionless table schema")
    return tuple(map(_variable, fields))


def _schema(document: Any) -> Mapping[str, Any]:
    resources = document.get("resources") if isinstance(document, Mapping) else None
    if isinstance(resources, list):
        schemas = [entry.get("schema") for entry in resources if isinstance(entry, Mapping)]
        tables = [schema for schema in schemas if isinstance(schema, Mapping)]
        if len(tables) != 1:
            raise ConfigError(f"it is a package of {len(tables)} tables with a schema; want one, or the schema alone")
        return tables[0]
    return document if isinstance(document, Mapping) else {}


def _variable(field: Mapping[str, Any]) -> Variable:
    kind = _KINDS.get(field.get("type", "string")) if isinstance(field.get("type", "string"), str) else None
    constraints = field.get("constraints")
    limits = constraints if isinstance(constraints, Mapping) else {}
    pairs = list(_values(field, limits))
    low, high = _limit(kind, limits.get("minimum")), _limit(kind, limits.get("maximum"))
    title, description = field.get("title"), field.get("description")
    return Variable(
        str(field.get("name") or ""),
        kind,
        label=title if isinstance(title, str) else "",
        description=description if isinstance(description, str) else "",
        values=tuple(value for value, _ in pairs),
        labels=tuple(label for _, label in pairs),
        low=low,
        high=high,
    )


def _values(field: Mapping[str, Any], limits: Mapping[str, Any]) -> list[tuple[Value, str]]:
    """The values of ``categories``, which may have labels, or else those of the constraint ``enum``."""
    categories, enum = field.get("categories"), limits.get("enum")
    listed = categories if isinstance(categories, list) else enum if isinstance(enum, list) else []
    pairs = [
        (entry.get("value"), str(entry.get("label") or "")) if isinstance(entry, Mapping) else (entry, "")
        for entry in listed
    ]
    return [(value if isinstance(value, str | int) else str(value), label) for value, label in pairs]


def _limit(kind: Kind | None, limit: object) -> int | float | str | None:
    """An end of the bins; None for what is none of the field's type."""
    if kind is Kind.DATE and isinstance(limit, str):
        try:
            return date.fromisoformat(limit[:10]).isoformat()
        except ValueError:
            return None
    if kind is Kind.FLOAT or kind is Kind.INTEGER:
        fits = isinstance(limit, int | float) and not isinstance(limit, bool) and abs(limit) < 1e300
        return limit if fits and isinstance(limit, int | float) else None
    return None
