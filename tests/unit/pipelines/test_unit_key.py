"""Keys and names of units of several columns."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
import pytest

from dpcore.errors import ConfigError
from pipelines.attributes import Attribute, Kind
from pipelines.layout import BasketLayout, TableLayout
from pipelines.partition import Partition, Values
from pipelines.schema import Schema
from pipelines.unit_key import with_key
from pipelines.unit_names import canonical, combined_name, in_words, parts_of

SCHEMA = Schema((Attribute("sex", Kind.CATEGORICAL, values=("m", "f"), other=True),))
PAIR = '["a", "b"]'


def keys(*columns: pa.Array) -> list[str | None]:
    names = [f"c{number}" for number in range(len(columns))]
    batch = with_key(pa.record_batch(list(columns), names=names), "key", names)
    assert batch.schema.field("key").type == pa.large_string()
    values: list[str | None] = batch.column("key").to_pylist()
    return values


def test_the_key_is_the_values_behind_their_lengths() -> None:
    assert keys(pa.array(["a", "ab", "ä"]), pa.array(["bc", "c", ""])) == ["1:a2:bc", "2:ab1:c", "2:ä0:"]
    assert keys(pa.array([-1, 12], pa.int16()), pa.array([2**64 - 1, 0], pa.uint64())) == [
        "2:-120:18446744073709551615",
        "2:121:0",
    ]


def test_different_tuples_have_different_keys() -> None:
    values = ["", "1", "1:", ":", "11", "a", "0:", "1:1", "\0", "é"]
    tuples = list(product(values, repeat=3))
    made = keys(*(pa.array(column) for column in zip(*tuples, strict=True)))
    assert len(set(made)) == len(tuples)


def test_null_in_any_column_is_a_row_without_a_unit() -> None:
    assert keys(pa.array(["a", None, "a"]), pa.array([1, 1, None])) == ["1:a1:1", None, None]
    assert keys(pa.nulls(2, pa.string()), pa.array([1, 2])) == [None, None]


def test_no_rows_have_no_keys_and_slices_have_their_own() -> None:
    assert keys(pa.array([], pa.string()), pa.array([], pa.int64())) == []
    assert keys(pa.array(["x", "ab", "c"]).slice(1), pa.array([7, 8, 9]).slice(1)) == ["2:ab1:8", "1:c1:9"]


def test_text_that_is_not_utf8_has_a_key() -> None:
    bad = pa.array([b"\xff", b"\xfe"]).view(pa.string())
    batch = with_key(pa.record_batch([bad, pa.array([1, 1])], names=["a", "b"]), "key", ["a", "b"])
    assert batch.column("key").view(pa.large_binary()).to_pylist() == [b"1:\xff1:1", b"1:\xfe1:1"]


def test_the_name_is_the_same_for_every_order_and_spelling() -> None:
    assert combined_name(["b", "a"]) == combined_name(("a", "b")) == canonical('["b","a"]') == PAIR
    assert combined_name(["a"]) == canonical("a") == "a"
    assert parts_of(PAIR) == ("a", "b")
    for single in ("a", "[a]", '["a"]', "[1, 2]", "[", '{"a": 1}'):
        assert parts_of(single) == ()
        assert canonical(single) == single
    assert in_words("a") == "column 'a'"
    assert in_words(PAIR) == "columns 'a' and 'b' together"


@pytest.mark.parametrize("columns", [[], [""], ["a", "a"], ["a", ""]])
def test_empty_and_repeated_columns_are_refused(columns: list[str]) -> None:
    with pytest.raises(ConfigError, match="list of different columns"):
        combined_name(columns)


def test_layouts_refuse_columns_that_contradict_each_other() -> None:
    with pytest.raises(ConfigError, match="partition column 'b' is that of the unit"):
        TableLayout(PAIR, SCHEMA, partition=Partition("b", Values.TEXT, ("x",)), unit_parts=("a", "b"))
    with pytest.raises(ConfigError, match="both column 'b'"):
        BasketLayout(PAIR, "b", 3, unit_parts=("a", "b"))
    with pytest.raises(ConfigError, match="in the order of names"):
        TableLayout(PAIR, SCHEMA, unit_parts=("b", "a"))
    with pytest.raises(ConfigError, match="name of the combined unit"):
        TableLayout("sex", SCHEMA, unit_parts=("a", "b"))


def test_layouts_read_the_columns_of_the_unit() -> None:
    layout = TableLayout(PAIR, SCHEMA, unit_parts=("a", "b"))
    assert layout.columns == (PAIR, "sex")
    assert layout.columns_to_read == layout.stored_columns == ("a", "b", "sex")
