from __future__ import annotations

from pathlib import Path

import pytest

from dpcore.errors import ConfigError
from pipelines.schema import Attribute, Kind, Schema, load_schema

PUBLISHED = """
version: 1
attributes:
  - {name: workclass, type: categorical, values: [Private, State-gov], other: true, 'null': true}
  - {name: age, type: integer, edges: [17, 25, 35, 45, 55, 65, 91]}
  - {name: income, type: float, bins: {low: 1, high: 100000, count: 5, scale: log}}
  - {name: day, type: date, edges: [2026-01-01, 2026-02-01, 2026-03-01]}
  - {name: insured, type: boolean, column: is_insured, null: false}
"""


def load(folder: Path, text: str) -> Schema:
    path = folder / "s.schema.yaml"
    path.write_text(text, encoding="utf-8")
    return load_schema(path)


def one(folder: Path, entry: str) -> Attribute:
    (attribute,) = load(folder, f"version: 1\nattributes:\n  - {{name: a, {entry}}}").attributes
    return attribute


def test_reads_the_published_example(tmp_path: Path) -> None:
    schema = load(tmp_path, PUBLISHED)
    assert schema.domain.names == ("workclass", "age", "income", "day", "insured")
    assert schema.domain.sizes == (4, 7, 6, 3, 2)
    assert schema.attributes[2].edges == pytest.approx((1, 10, 100, 1000, 10_000, 100_000))
    assert schema.attributes[3].labels[0] == "[2026-01-01, 2026-02-01)"
    assert schema.attributes[4].column == "is_insured"


@pytest.mark.parametrize("key", ["null", "'null'", '"null"', "~"])
@pytest.mark.parametrize(("setting", "expected"), [("true", True), ("no", False), ("y", "y")])
def test_takes_the_key_null_bare_or_quoted(tmp_path: Path, key: str, setting: str, expected: object) -> None:
    assert one(tmp_path, f"type: categorical, values: [x, y], {key}: {setting}").null == expected


@pytest.mark.parametrize(
    ("entry", "other", "null"),
    [
        ("type: categorical, values: [x]", True, True),
        ("type: categorical, values: [1, 2], other: 2", 2, True),
        ("type: categorical, values: [yes, no]", True, True),
        ("type: integer, edges: [0, 1]", False, True),
        ("type: boolean", False, True),
    ],
)
def test_other_and_null_by_default(tmp_path: Path, entry: str, other: object, null: object) -> None:
    attribute = one(tmp_path, entry)
    assert (attribute.other, attribute.null) == (other, null)


@pytest.mark.parametrize(
    ("kind", "bins", "edges"),
    [
        ("integer", "{low: 0, high: 10, count: 4}", (0, 2, 5, 8, 10)),
        ("integer", "{low: 1, high: 1000, count: 3, scale: log}", (1, 10, 100, 1000)),
        ("float", "{low: 0, high: 1, count: 4, scale: uniform}", (0.0, 0.25, 0.5, 0.75, 1.0)),
        ("float", "{low: -1.5, high: 1.5, count: 1}", (-1.5, 1.5)),
        ("date", "{low: 1970-01-01, high: 1970-01-11, count: 2}", (0, 5, 10)),
    ],
)
def test_bins_by_rule(tmp_path: Path, kind: str, bins: str, edges: tuple[float, ...]) -> None:
    assert one(tmp_path, f"type: {kind}, bins: {bins}").edges == edges


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[", "is not valid YAML"),
        ("version: 1\nattributes:\n  - {name: a, type: date, edges: [2026-13-01, 2026-14-01]}", "is not valid YAML"),
        ("hello", "the schema is not a mapping"),
        ("attributes: []", "version is None; want 1"),
        ("version: true\nattributes: []", "version is True; want 1"),
        ("version: 2\nattributes: []", "version is 2; want 1"),
        ("version: 1", "attributes is missing"),
        ("version: 1\nattributes: []", "the schema has no attributes"),
        ("version: 1\natributes: []", "unknown key 'atributes'; did you mean 'attributes'?"),
        ("version: 1\nattributes: [x]", "attribute 1 is not a mapping"),
        ("version: 1\nattributes: [{name: no, type: boolean}]", "attribute 1 has name False"),
        ("version: 1\nattributes: [{name: a, type: boolean}, {name: a, type: boolean}]", "names attribute 'a' twice"),
    ],
)
def test_refuses_a_bad_document_and_names_the_key(tmp_path: Path, text: str, wanted: str) -> None:
    with pytest.raises(ConfigError, match=r"s\.schema\.yaml") as refused:
        load(tmp_path, text)
    assert wanted in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        ("type: integer, edge: [0, 1]", "unknown key 'edge'; did you mean 'edges'?"),
        ("type: categorial, values: [x]", "has type 'categorial'; did you mean 'categorical'?"),
        ("values: [x]", "has type None"),
        ("type: categorical", "needs exactly one of: values"),
        ("type: categorical, values: x", "values is not a list"),
        ("type: categorical, edges: [0, 1]", "has edges; want values"),
        ("type: categorical, values: [no, maybe]", "quote words such as 'no'"),
        ("type: categorical, values: [x], other: [x]", "other is ['x']; want true, false or a listed value"),
        ("type: categorical, values: [x], null: 1.5", "null is 1.5; want true, false or a listed value"),
        ("type: boolean, values: [x]", "has values; want no list of values"),
        ("type: integer", "needs exactly one of: bins or edges"),
        ("type: integer, edges: [0, 1], bins: {low: 0, high: 1, count: 1}", "needs exactly one of: bins or edges"),
        ("type: integer, edges: 5", "edges is not a list"),
        ("type: integer, edges: [0, 1.5]", "has the edge 1.5; want one finite integer"),
        ("type: integer, edges: [no, 5]", "has the edge False; want one finite integer"),
        ("type: float, edges: [0, .inf]", "has the edge inf; want one finite float"),
        ("type: date, edges: [2026-01-01, 5]", "has the edge 5; want a date such as 2026-01-31"),
        ("type: date, edges: [2026-01-01T10:00:00, 2027-01-01]", "want a date such as 2026-01-31"),
        ("type: integer, bins: {low: 0, high: 9}", "bins has no count"),
        ("type: integer, bins: {low: 0, high: 9, count: 3, step: 1}", "unknown key 'step'"),
        ("type: integer, bins: {low: 0, high: 9, count: 0}", "bins count is 0; want 1 .. 1,000,000"),
        ("type: integer, bins: {low: 9, high: 0, count: 3}", "bins run from 9 to 0"),
        ("type: integer, bins: {low: 0, high: 9, count: 20}", "20 bins do not fit between integer edges"),
        ("type: integer, bins: {low: 0, high: 9, count: 2, scale: log}", "low > 0 on a log scale"),
        ("type: integer, bins: {low: 1, high: 9, count: 2, scale: sqrt}", "bins scale is 'sqrt'"),
        ("type: date, bins: {low: 2026-01-01, high: 2027-01-01, count: 2, scale: log}", "bins scale is 'log'"),
        ("type: boolean, column: 7", "has column 7; want the name of a Parquet column"),
        ("type: integer, edges: [0, 1], sum_of: [x, y]", "has sum_of ['x', 'y']; want a mapping of columns"),
        ("type: integer, edges: [0, 1], sum_of: {}", "has sum_of {}; want a mapping of columns to coefficients"),
        ("type: integer, edges: [0, 1], sum_of: {x: 1.5}", "column 'x' in sum_of is 1.5; want an integer other than 0"),
        ("type: float, edges: [0, 1], sum_of: {x: 0}", "column 'x' in sum_of is 0; want a number other than 0"),
        ("type: float, edges: [0, 1], sum_of: {x: .nan}", "is nan; want a number other than 0"),
        ("type: float, edges: [0, 1], sum_of: {x: 1e7}", "of at most 1,000,000"),
        ("type: integer, edges: [0, 1], sum_of: {1: 1}", "has sum_of with columns [1]; want distinct names"),
        ("type: integer, edges: [0, 1], sum_of: {x: 1}, column: y", "has both column and sum_of; want one of them"),
        ("type: boolean, sum_of: {x: 1}", "has sum_of; want type integer or float"),
        ("type: integer, edges: [0, 1], absolute: true", "has absolute without sum_of; want both, or neither"),
        ("type: integer, edges: [0, 1], dates: true", "has dates without sum_of; want both, or neither"),
        ("type: integer, edges: [0, 1], sum_of: {x: 1}, absolute: 1", "has absolute 1; want true or false"),
    ],
)
def test_refuses_a_bad_attribute_and_says_what_was_wanted(tmp_path: Path, entry: str, wanted: str) -> None:
    with pytest.raises(ConfigError) as refused:
        one(tmp_path, entry)
    assert wanted in str(refused.value)


def test_reads_a_sum_of_columns(tmp_path: Path) -> None:
    attribute = one(tmp_path, "type: integer, edges: [0, 1], sum_of: {out: 1, in: -1}, absolute: true, dates: true")
    assert (attribute.sum_of, attribute.absolute, attribute.dates) == ((("in", -1), ("out", 1)), True, True)
    assert (attribute.columns, attribute.column) == (("in", "out"), "a")
    assert attribute.as_written == one(tmp_path, "type: integer, edges: [0, 1]")


def test_a_sum_may_not_have_the_name_of_another_column(tmp_path: Path) -> None:
    entries = "  - {name: a, type: integer, edges: [0, 1], sum_of: {x: 1}}\n  - {name: b, type: boolean, column: a}\n"
    with pytest.raises(ConfigError, match="'a' is a sum and has the name of another attribute's column"):
        load(tmp_path, f"version: 1\nattributes:\n{entries}")


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        ("type: date, edges: [2026-01-01, 2026-02-01]", "'x' holds numbers for attribute 'a', and dates"),
        ("type: boolean", "and booleans for attribute 'x'"),
        ("type: categorical, values: [p, q]", "and texts for attribute 'x'"),
        ("type: integer, edges: [0, 1], sum_of: {x: 1}, dates: true", "and dates for attribute 'x'"),
    ],
)
def test_a_column_of_a_sum_holds_the_same_for_all(tmp_path: Path, entry: str, wanted: str) -> None:
    summed = "  - {name: a, type: integer, edges: [0, 1], sum_of: {x: 1}}"
    with pytest.raises(ConfigError, match=wanted):
        load(tmp_path, f"version: 1\nattributes:\n{summed}\n  - {{name: x, {entry}}}\n")
    numbers = "  - {name: x, type: categorical, values: [1, 2]}\n  - {name: y, type: float, edges: [0, 1], column: x}"
    assert len(load(tmp_path, f"version: 1\nattributes:\n{summed}\n{numbers}\n").attributes) == 3


def test_names_a_schema_file_that_is_missing_or_not_text(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name, problem in (("missing.yaml", "does not exist"), ("binary", "cannot be read, because it is UTF-16")):
        with pytest.raises(ConfigError, match=f"{name} {problem}"):
            load_schema(tmp_path / name)


def test_a_schema_made_in_python_is_checked_as_well() -> None:
    attribute = Attribute("a", Kind.BOOLEAN)
    assert Schema([attribute]).attributes == (attribute,)
    with pytest.raises(ConfigError, match="twice"):
        Schema((attribute, attribute))
