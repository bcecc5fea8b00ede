"""Footers: what they say is what pyarrow reads, and what pyarrow would not survive is refused."""

from __future__ import annotations

import io
import itertools
import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.source.footer import (
    ColumnChunk,
    FooterError,
    _check_size_statistics,
    _chunk,
    _Leaf,
    _leaves,
    read_row_groups,
)
from pipelines.source.thrift import read_struct
from tests.reliability.fuzz_parquet import TYPES

_KINDS = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")


def footer_of(file: bytes) -> bytes:
    length = int.from_bytes(file[-8:-4], "little")
    return file[-8 - length :]


def written(table: pa.Table, **settings: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, **settings)
    return file.getvalue()


def by_pyarrow(file: bytes) -> list[tuple[int, list[tuple[Any, ...]]]]:
    metadata = pq.read_metadata(io.BytesIO(file))
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    return [(group.num_rows, [_facts(group.column(index)) for index in range(group.num_columns)]) for group in groups]


def _facts(column: Any) -> tuple[Any, ...]:
    path = tuple(part.encode() for part in column.path_in_schema.split("."))
    sizes = (column.num_values, column.total_compressed_size, column.total_uncompressed_size)
    return path, column.physical_type, sizes, column.statistics is not None and column.statistics.has_min_max


@pytest.mark.parametrize("seed", range(60))
def test_row_groups_are_those_that_pyarrow_reads(seed: int) -> None:
    rng = random.Random(seed)
    columns = {
        f"c{place}": pa.array([rng.choice([*values, None]) for _ in range(40)], kind)
        for place, (kind, values) in enumerate(rng.sample([one for one in TYPES if not _odd(one[0])], 5))
    }
    file = written(
        pa.table(columns), row_group_size=rng.choice((7, 100)), use_dictionary=rng.random() < 0.5,
        write_statistics=rng.random() < 0.8,
    )  # fmt: skip
    found = [
        (
            group.rows,
            [(chunk.path, _KINDS[chunk.kind], chunk.sizes, chunk.statistics is not None) for chunk in group.columns],
        )
        for group in read_row_groups(footer_of(file))
    ]
    assert found == by_pyarrow(file)


def _odd(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or pa.types.is_duration(kind) or pa.types.is_float16(kind)


def test_statistics_are_the_stored_bytes() -> None:
    file = written(pa.table({"a": pa.array([3, None, -1], pa.int32())}))
    ((group),) = read_row_groups(footer_of(file))
    assert group.columns[0].statistics == ((-1).to_bytes(4, "little", signed=True), (3).to_bytes(4, "little"), 1)


LEAF = _Leaf(1, (0, 1))
CHUNK: dict[int, Any] = {1: 1, 3: [b"a"], 5: 3, 6: 20, 7: 18}


@pytest.mark.parametrize("wrong", [
    {1: 2},  # Another type than the schema says.
    {16: {3: [1, 2, 3]}},  # Definition levels 0 to 1 have two counts.
    {16: {2: [1, 2]}},
    {16: {1: 5}},
    {12: {5: 1 << 40, 6: b"abcd"}},  # As many zeros would be allocated.
    {3: [1 << 40]},
])  # fmt: skip
def test_what_pyarrow_would_not_survive_is_refused(wrong: dict[int, Any]) -> None:
    assert _chunk(CHUNK, LEAF) == ColumnChunk((b"a",), 1, (3, 18, 20), None)
    with pytest.raises((ValueError, TypeError), match="column|histogram|texts|number in place"):
        _chunk(CHUNK | wrong, LEAF)


def test_histograms_that_are_missing_or_empty_are_fine() -> None:
    _check_size_statistics({}, LEAF)
    _check_size_statistics({2: [], 3: [1, 2]}, LEAF)
    _check_size_statistics({1: 7}, _Leaf(6, (0, 0)))


ROOT, INT32 = {4: b"schema", 5: 2}, {1: 1, 3: 0, 4: b"u"}


@pytest.mark.parametrize("schema", [
    [ROOT, INT32],  # A child is missing.
    [ROOT, INT32, {4: b"e", 5: -1, 3: 0}, INT32],
    [{4: b"schema", 5: 1}, INT32, INT32],
    [],
])  # fmt: skip
def test_a_schema_that_is_no_tree_is_refused(schema: list[dict[int, Any]]) -> None:
    with pytest.raises((ValueError, IndexError), match="lacks|nested|index"):
        list(_leaves(schema))


def test_a_group_without_children_is_no_column() -> None:
    assert list(_leaves([ROOT, INT32, {4: b"empty", 3: 1}])) == [_Leaf(1, (0, 0))]
    assert [leaf.levels for leaf in _leaves([{5: 1}, {5: 1, 3: 1}, {5: 1, 3: 2}, {1: 6, 3: 1}])] == [(1, 3)]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        read_row_groups(data)
    except FooterError:
        return


def test_every_cut_of_a_footer_is_read_or_refused() -> None:
    footer = footer_of(written(pa.table({"a": [1, 2], "b": ["x", None]})))
    whole = read_row_groups(footer)
    for end in range(len(footer) - 8):
        with pytest.raises(FooterError):
            read_row_groups(footer[:end])
    assert read_row_groups(footer + b"more") == whole


def test_the_examples_of_the_thrift_specification() -> None:
    assert read_struct(bytes([0x15, 0x63, 0x00])) == {1: -50}
    assert read_struct(bytes([0x11, 0x12, 0x00])) == {1: True, 2: False}
    assert read_struct(bytes([0x06, 0xC8, 0x01, 0x63, 0x00])) == {100: -50}  # The id follows, as a zigzag integer.
    assert read_struct(bytes([0x18, 0x02]) + b"ab" + b"\0") == {1: b"ab"}
    assert read_struct(bytes([0x19, 0x25, 0x63, 0x02, 0x00])) == {1: [-50, 1]}
    assert read_struct(bytes([0x1C, 0x15, 0x02, 0x00, 0x00])) == {1: {1: 1}}
    assert read_struct(bytes([0x1B, 0x01, 0x58, 0x02, 0x01]) + b"x" + b"\0") == {1: [(1, b"x")]}
    assert read_struct(bytes([0x17]) + bytes(6) + b"\xf0\x3f" + b"\0") == {1: 1.0}


@pytest.mark.parametrize("nested", [b"\x1c", b"\x19\x19" + b"\x19" * 2000])
def test_nesting_is_bounded(nested: bytes) -> None:
    with pytest.raises(ValueError, match="nested|ends|longer"):
        read_struct(b"".join(itertools.repeat(nested, 200)))


def test_a_list_longer_than_the_data_allocates_nothing() -> None:
    with pytest.raises(ValueError, match="longer than the data"):
        read_struct(bytes([0x19, 0xF5, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]))
