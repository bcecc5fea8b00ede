"""schema.json is a schema file with every default and all words, and says what the certificate says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpcore.errors import ConfigError
from jobs.outputs.schema_file import SCHEMA_FILE, read_schema, write_schema
from jobs.planning.identity import canonical_sha256, identifying_schema
from jobs.verification.findings import Outcome
from jobs.verification.schema_file import schema_finding
from pipelines.layout import BasketLayout, TableLayout
from pipelines.schema import schema_from

WORDS = {"label": "Sex", "description": "As registered", "labels": {2: "Woman"}}
PLAIN = [
    {"name": "sex", "type": "categorical", "values": [1, 2], "other": 2},
    {"name": "day", "type": "date", "edges": ["2026-01-01", "1969-05-01"][::-1], "column": "d"},
    {"name": "pay", "type": "float", "bins": {"low": 1, "high": 1000, "count": 3, "scale": "log"}, "null": False},
    {"name": "home", "type": "boolean"},
    {"name": "gap", "type": "float", "edges": [0, 1], "sum_of": {"x": 1, "y": -0.5}, "absolute": True},
    {"name": "stay", "type": "integer", "edges": [0, 1], "sum_of": {"u": 1, "v": -1}, "dates": True},
]
SCHEMA = schema_from({"version": 1, "attributes": [PLAIN[0] | WORDS, *PLAIN[1:]]})
CERTIFIED = json.loads(json.dumps(identifying_schema(SCHEMA)))


def test_it_reads_as_the_schema_with_its_words(tmp_path: Path) -> None:
    assert read_schema(tmp_path) is None
    write_schema(tmp_path, TableLayout("person", SCHEMA))
    found = read_schema(tmp_path)
    assert found == SCHEMA
    assert found is not None
    assert found.codebook == SCHEMA.codebook
    assert found.codebook.entry("sex").labels == (("2", "Woman"),)
    assert found.codebook.entry("day").label == ""
    assert schema_finding(tmp_path, CERTIFIED).outcome is Outcome.PASSED


def test_attributes_that_are_no_sums_are_certified_as_before_there_were_sums() -> None:
    *others, gap, stay = CERTIFIED["attributes"]
    assert not any({"sum_of", "absolute", "dates"} & set(attribute) for attribute in others)
    assert (gap["sum_of"], gap["absolute"], gap["dates"]) == ([["x", 1], ["y", -0.5]], True, False)
    assert (stay["sum_of"], stay["absolute"], stay["dates"]) == ([["u", 1], ["v", -1]], False, True)


def test_words_change_no_release() -> None:
    plain = schema_from({"version": 1, "attributes": PLAIN})
    assert canonical_sha256(identifying_schema(plain)) == canonical_sha256(identifying_schema(SCHEMA))
    assert plain == SCHEMA


def test_baskets_have_none(tmp_path: Path) -> None:
    write_schema(tmp_path, BasketLayout("user", "item", 10))
    assert not (tmp_path / SCHEMA_FILE).exists()
    assert schema_finding(tmp_path, None).outcome is Outcome.NOT_CHECKED


@pytest.mark.parametrize("change", [{"null": False}, {"values": [2, 1]}, {"labels": {"3": "x"}}, {"values": "x"}])
def test_another_schema_fails(tmp_path: Path, change: dict[str, object]) -> None:
    write_schema(tmp_path, TableLayout("person", SCHEMA))
    content = json.loads((tmp_path / SCHEMA_FILE).read_text())
    content["attributes"][0] |= change
    (tmp_path / SCHEMA_FILE).write_text(json.dumps(content))
    assert schema_finding(tmp_path, CERTIFIED).outcome is Outcome.FAILED


def test_what_is_no_json_fails(tmp_path: Path) -> None:
    for text in ("{", "[" * 100_000, "\udcff"):
        (tmp_path / SCHEMA_FILE).write_bytes(text.encode("utf-8", "surrogateescape"))
        assert schema_finding(tmp_path, CERTIFIED).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ({"label": 3}, "label is 3"),
        ({"labels": ["x"]}, "not a mapping"),
        ({"labels": {"4": "x"}}, "none of its codes"),
        ({"labels": {1: 2}}, "label of '1' is 2"),
    ],
)
def test_words_that_fit_nothing_are_refused(words: dict[str, object], wanted: str) -> None:
    with pytest.raises(ConfigError, match=wanted):
        schema_from({"version": 1, "attributes": [PLAIN[0] | words]})
