"""Checks of schema files say what is unfinished, which codes are added, and which columns do not fit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from jsonschema import Draft202012Validator

from dpcore.errors import ConfigError, InputError
from jobs.drafting.checking import check_columns, checked_schema, codes_in_words, domain_lines
from jobs.drafting.columns import Column
from jobs.drafting.json_schema import schema_of_schemas
from pipelines.attributes import Attribute, Kind
from pipelines.schema import KEYS, Schema

TOWN = Attribute("town", Kind.CATEGORICAL, values=("A & B", "C"), other=True)
AGE = Attribute("age", Kind.INTEGER, edges=(0, 18, 100), null=False, column="years")
SCHEMA = Schema((TOWN, AGE))
COLUMNS = (Column("person", pa.int64()), Column("town", pa.string()), Column("years", pa.int32()))
VALIDATOR = Draft202012Validator(yaml.safe_load(schema_of_schemas()))


def test_added_codes_are_said() -> None:
    assert codes_in_words(TOWN) == "4 codes: 2 values + __other__ for values that are not listed + __null__ for nulls"
    assert codes_in_words(AGE) == "2 codes: 2 bins; nulls count as [0, 18)"
    strict = Attribute("sex", Kind.CATEGORICAL, values=("f", "m"), other="m", null=False)
    assert codes_in_words(strict) == "2 codes: 2 values; values that are not listed count as m; nulls count as f"
    assert domain_lines(SCHEMA)[-1] == "2 attributes, 8 possible rows"


@pytest.mark.parametrize(
    ("terms", "absolute", "dates", "formula"),
    [
        ((("came", -1), ("left", 1)), False, True, "left - came, in days"),
        ((("a", 1), ("b", -1)), True, False, "|a - b|"),
        ((("a", -1), ("b", -2.5)), False, False, "- a - 2.5 b"),
    ],
)
def test_the_formula_of_a_sum_is_said(
    terms: tuple[tuple[str, float], ...], absolute: bool, dates: bool, formula: str
) -> None:
    attribute = Attribute("s", Kind.FLOAT, edges=(0, 1), sum_of=terms, absolute=absolute, dates=dates)
    assert codes_in_words(attribute).endswith(f"; the value is {formula}")


def test_everything_unfinished_is_named_at_once(tmp_path: Path) -> None:
    path = tmp_path / "draft.yaml"
    entries = "{name: a, type: }, {name: b, type: categorical, values: []}, {name: c, type: date, edges: []}"
    path.write_text(f"version: 1\nattributes: [{entries}]")
    with pytest.raises(ConfigError, match="'a' has no type.*'b' has no values.*'c' has no edges"):
        checked_schema(path)
    path.write_text("version: 1\nattributes: [{name: a, type: integer, edges: [3, 2]}]")
    with pytest.raises(ConfigError, match="draft.yaml: .*want increasing edges"):
        checked_schema(path)


def test_columns_that_fit_pass_with_remarks() -> None:
    assert check_columns(SCHEMA, COLUMNS, "person", "data") == []
    (remark,) = check_columns(SCHEMA, [*COLUMNS, Column("income", pa.float64())], "person", "data")
    assert remark == "not in the schema, so not released: income"
    untyped = [Column(column.name, None) for column in COLUMNS]
    assert "no types" in check_columns(SCHEMA, untyped, "person", "data")[-1]
    assert "an attribute too" in check_columns(SCHEMA, COLUMNS, "town", "data")[-1]


def test_columns_that_do_not_fit_are_all_named() -> None:
    columns = [Column("user", pa.int64()), Column("town", pa.int64()), Column("year", pa.int32())]
    wanted = "'user_id' of the unit is missing.*'user'.*'town' has type int64; want a string; .*'years'.*'year'"
    with pytest.raises(InputError, match=wanted):
        check_columns(SCHEMA, columns, "user_id", "data")


GOOD = [
    {"name": "a", "type": "categorical", "values": ["x", "y"], "labels": {"x": "X"}, "other": "y", "null": False},
    {"name": "b", "type": "integer", "bins": {"low": 0, "high": 9, "count": 3}, "label": "B", "description": "b"},
    {"name": "c", "type": "date", "edges": ["2026-01-01", "2026-02-01"], "column": "day"},
    {"name": "d", "type": "boolean"},
    {"name": "e", "type": "integer", "sum_of": {"x": 1, "y": -1}, "absolute": True, "edges": [0, 1]},
    {"name": "f", "type": "float", "sum_of": {"x": 0.5}, "absolute": False, "edges": [0, 1]},
    {"name": "g", "type": "float", "absolute": False, "dates": False, "edges": [0, 1]},
    {"name": "h", "type": "integer", "sum_of": {"x": 1, "y": -1}, "dates": True, "edges": [0, 1]},
]
WRONG = [
    {"name": "a", "type": "categorical"},
    {"name": "a", "type": "categorical", "values": ["x"], "edges": [1, 2]},
    {"name": "a", "type": "integer", "values": [1]},
    {"name": "a", "type": "integer", "edges": [1, 2], "bins": {"low": 0, "high": 9, "count": 3}},
    {"name": "a", "type": "boolean", "values": [True]},
    {"name": "a", "type": "number", "edges": [1, 2]},
    {"name": "a", "type": "float", "edge": [1, 2]},
    {"type": "boolean"},
    {"name": "a", "type": "integer", "absolute": True, "edges": [0, 1]},
    {"name": "a", "type": "integer", "dates": True, "edges": [0, 1]},
    {"name": "a", "type": "integer", "sum_of": {"x": 1}, "column": "b", "edges": [0, 1]},
    {"name": "a", "type": "date", "sum_of": {"x": 1}, "edges": ["2026-01-01", "2026-02-01"]},
    {"name": "a", "type": "integer", "sum_of": {}, "edges": [0, 1]},
    {"name": "a", "type": "integer", "sum_of": {"x": "y"}, "edges": [0, 1]},
]


def accepted(entry: object) -> bool:
    return bool(VALIDATOR.is_valid({"version": 1, "attributes": [entry]}))


def read(path: Path, entry: object) -> bool:
    path.write_text(yaml.safe_dump({"version": 1, "attributes": [entry]}))
    try:
        return bool(checked_schema(path).attributes)
    except ConfigError:
        return False


def test_the_json_schema_accepts_what_is_read(tmp_path: Path) -> None:
    Draft202012Validator.check_schema(VALIDATOR.schema)
    properties = VALIDATOR.schema["properties"]["attributes"]["items"]["properties"]
    assert tuple(sorted(properties)) == tuple(sorted(KEYS))
    assert all(entry["description"] for entry in properties.values())
    assert [(accepted(entry), read(tmp_path / "s.yaml", entry)) for entry in GOOD] == [(True, True)] * len(GOOD)
    assert [(accepted(entry), read(tmp_path / "s.yaml", entry)) for entry in WRONG] == [(False, False)] * len(WRONG)
