"""The JSON Schema of schema files, by which editors complete keys. ``pipelines.schema`` decides what is valid."""

from __future__ import annotations

import json
from typing import Any, Final

from pipelines.attributes import Kind

_SCALAR: Final = {"type": ["string", "integer", "boolean"]}
_EDGE: Final = {"type": ["number", "string"], "description": "A number, or a date such as 2026-01-31."}
_BINS: Final = {
    "type": "object",
    "description": "Bins of equal width, in place of edges.",
    "properties": {
        "low": {**_EDGE, "description": "The first edge."},
        "high": {**_EDGE, "description": "The last edge."},
        "count": {"type": "integer", "minimum": 1, "description": "Number of bins."},
        "scale": {"enum": ["uniform", "log"], "default": "uniform", "description": "Scale of equal widths."},
    },
    "required": ["low", "high", "count"],
    "additionalProperties": False,
}
_PROPERTIES: Final = {
    "name": {"type": "string", "minLength": 1, "description": "Name of the attribute in queries and answers."},
    "type": {"enum": [kind.value for kind in Kind], "description": "Type of the attribute."},
    "values": {
        "type": "array",
        "items": _SCALAR,
        "description": "Categorical: all values that are listed, of one type. Their codes are 0, 1, ... in this order.",
    },
    "edges": {
        "type": "array",
        "items": _EDGE,
        "description": "Integer, float, date: increasing edges of bins. The last bin is closed. Values outside count "
        "in the nearest end bin.",
    },
    "bins": _BINS,
    "other": {
        **_SCALAR,
        "description": "Categorical: the code of values that are not listed. true (default): a code of their own. A "
        "listed value: its code. false: the code of null if it has its own, else the first code.",
    },
    "null": {
        **_SCALAR,
        "description": "The code of nulls. true (default): a code of their own. A listed value: its code. false: the "
        "code of other if it has its own, else the first code.",
    },
    "column": {"type": "string", "minLength": 1, "description": "Column of the data; by default the attribute's name."},
    "sum_of": {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {"type": "number"},
        "description": "Integer, float: columns and their coefficients, in place of column. The value is their "
        "weighted sum.",
    },
    "absolute": {"type": "boolean", "description": "With sum_of: whether the value is the absolute value of the sum."},
    "dates": {"type": "boolean", "description": "With sum_of: whether the columns are dates, which count as days."},
    "label": {"type": "string", "description": "What the attribute is called for readers. It changes no release."},
    "description": {"type": "string", "description": "What the attribute means. It changes no release."},
    "labels": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "What values are called for readers, by value. It changes no release.",
    },
}


def _kind_rules() -> list[dict[str, Any]]:
    """Which keys go with which types."""
    binned = [kind.value for kind in (Kind.INTEGER, Kind.FLOAT, Kind.DATE)]
    none = {"not": {"anyOf": [{"required": [key]} for key in ("values", "edges", "bins")]}}
    one_of = {"oneOf": [{"required": ["edges"]}, {"required": ["bins"]}], "not": {"required": ["values"]}}
    values = {"required": ["values"], "not": {"anyOf": [{"required": ["edges"]}, {"required": ["bins"]}]}}
    summed = {"properties": {"type": {"enum": ["integer", "float"]}}, "not": {"required": ["column"]}}
    of_sums = [{"if": {"required": ["sum_of"]}, "then": summed}]
    of_sums += [
        {"if": {"required": [key], "properties": {key: {"const": True}}}, "then": {"required": ["sum_of"]}}
        for key in ("absolute", "dates")
    ]
    return of_sums + [
        {"if": {"properties": {"type": {"enum": kinds}}, "required": ["type"]}, "then": rule}
        for kinds, rule in ((["categorical"], values), (binned, one_of), (["boolean"], none))
    ]


def schema_of_schemas() -> str:
    """The JSON Schema as text."""
    attribute = {
        "type": "object",
        "properties": _PROPERTIES,
        "required": ["name", "type"],
        "additionalProperties": False,
        "allOf": _kind_rules(),
    }
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Marquee schema",
        "description": "The public schema of a table: its attributes, their values and bins. Written without looking "
        "at the data.",
        "type": "object",
        "properties": {
            "version": {"const": 1, "description": "Version of this format."},
            "attributes": {
                "type": "array",
                "minItems": 1,
                "items": attribute,
                "description": "The attributes, in the order of the domain.",
            },
        },
        "required": ["version", "attributes"],
        "additionalProperties": False,
    }
    return json.dumps(document, indent=2)
