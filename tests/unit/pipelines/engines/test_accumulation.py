from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.errors import InputError
from dpcore.exact_statistics import QueryAnswers
from dpcore.queries import Marginals, UnitCount
from pipelines.aggregators import aggregator_for
from pipelines.attributes import Attribute, Kind
from pipelines.engines.accumulation import accumulate, read_batches, split_by_unit, units_in_many_files, units_of_file
from pipelines.layout import BasketLayout, TableLayout
from pipelines.schema import Schema
from pipelines.source import Source, open_source
from tests.support.engine_cases import SALT

BASKETS = BasketLayout("u", "i", 10)
TABLE = TableLayout("u", Schema((Attribute("a", Kind.CATEGORICAL, values=("x", "y")),)))
PAIRS = pa.table(
    {"i": pa.array([1, 2, 3, 4]), "more": ["p"] * 4, "u": pa.array([7, 8, None, 7], pa.int32())},
)


def source_of(folder: Path, rows: pa.Table, layout: BasketLayout | TableLayout = BASKETS, groups: int = 1) -> Source:
    pq.write_table(rows, folder / "x.parquet", row_group_size=max(1, rows.num_rows // groups))
    return open_source(str(folder), layout, SALT)


def test_reads_the_columns_of_the_layout_alone(tmp_path: Path) -> None:
    source = source_of(tmp_path, PAIRS)
    (batch,) = read_batches(source, source.files[0])
    assert batch.schema.names == ["u", "i"]
    assert batch.column("u").to_pylist() == [7, 8, None, 7]


def test_reads_some_row_groups_alone(tmp_path: Path) -> None:
    source = source_of(tmp_path, PAIRS, groups=4)
    batches = read_batches(source, source.files[0], (1, 3))
    assert [item for batch in batches for item in batch.column("i").to_pylist()] == [2, 4]


def test_reads_text_attributes_as_dictionaries_and_units_as_text(tmp_path: Path) -> None:
    source = source_of(tmp_path, pa.table({"u": ["p", "q"], "a": ["x", "z"]}), TABLE)
    (batch,) = read_batches(source, source.files[0])
    assert pa.types.is_dictionary(batch.column("a").type)
    assert batch.column("u").type == pa.string()


@pytest.mark.parametrize("row_groups", [None, (0, 2)])
def test_reads_texts_too_long_for_a_dictionary_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row_groups: tuple[int, ...] | None
) -> None:
    schema = Schema(tuple(Attribute(name, Kind.CATEGORICAL, values=("x", "y")) for name in "ab"))
    rows = pa.table({"u": range(6), "a": ["x", "y" * 9_999, None] * 2, "b": ["x", "y", "z"] * 2})
    source = source_of(tmp_path, rows, TableLayout("u", schema), groups=3)
    aggregator = aggregator_for(QueryAnswers(Marginals(schema.domain, (("a", "b"),))), source.layout)
    counts = accumulate(read_batches(source, source.files[0], row_groups), source, aggregator)
    monkeypatch.setattr("pipelines.source.batches._LONGEST_DICTIONARY", 9_999)
    batches = list(read_batches(source, source.files[0], row_groups))
    for batch in batches:
        assert [pa.types.is_dictionary(batch.column(name).type) for name in ("a", "b")] == [False, True]
    assert accumulate(batches, source, aggregator).tolist() == counts.tolist()


def test_names_a_file_whose_data_are_damaged(tmp_path: Path) -> None:
    source = source_of(tmp_path, pa.table({"u": pa.array(range(50_000)), "i": pa.array([1] * 50_000)}))
    content = bytearray((tmp_path / "x.parquet").read_bytes())
    content[4:2000] = bytes(1996)
    (tmp_path / "x.parquet").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.parquet cannot be read as Parquet; it is damaged or truncated"):
        list(read_batches(source, source.files[0]))


@pytest.mark.parametrize(
    ("units", "kind", "wanted"),
    [
        (pa.array([7, 8, None, 7], pa.int16()), pa.int64(), [7, 8]),
        (pa.array(["b", None, "a", "b"]), pa.large_string(), ["b", "a"]),
        (pa.array(["b", None, "a", "b"]).dictionary_encode(), pa.large_string(), ["b", "a"]),
        (pa.array([None, None], pa.int32()), pa.null(), []),
    ],
)
def test_units_of_a_file_are_distinct_and_not_null(
    tmp_path: Path, units: pa.Array, kind: pa.DataType, wanted: list[object]
) -> None:
    source = source_of(tmp_path, pa.table({"u": units, "i": [0] * len(units)}), groups=2)
    found = units_of_file(source, source.files[0])
    assert found.type == kind
    assert found.to_pylist() == wanted


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ([], []),
        ([[1, 2]], []),
        ([[1, 2], [3, 4], []], []),
        ([[1, 2], [2, 3]], [2]),
        ([[1, 9], [3, 4], [9, 10]], [9]),
        ([[1, 9], [3, 4], [4, 5], [20]], [4]),
        ([["a", "c"], ["b"], ["b", "d"]], ["b"]),
        ([[2, 1], [1, 2], [2, 1]], [1, 2]),
    ],
)
def test_finds_units_in_more_than_one_file(files: list[list[object]], wanted: list[object]) -> None:
    arrays = [
        pa.array(units, pa.large_string() if units and isinstance(units[0], str) else pa.int64()) for units in files
    ]
    assert sorted(units_in_many_files(arrays).to_pylist()) == wanted


def test_units_that_are_not_valid_text_are_compared_as_well() -> None:
    files = [pa.array([b"\xff\xfe", b"ok"]), pa.array([b"\xf0", b"\xff\xfe"]), pa.array([b"zz"])]
    texts = [units.cast(pa.large_binary()).view(pa.large_string()) for units in files]
    broken = units_in_many_files(texts)
    assert broken.type == pa.large_string()
    assert broken.view(pa.large_binary()).to_pylist() == [b"\xff\xfe"]


def test_never_compares_files_whose_ranges_of_units_do_not_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("units were compared")

    monkeypatch.setattr("pipelines.engines.accumulation.pc.value_counts", fail)
    files = [pa.array(range(start, start + 10)) for start in (40, 0, 20)]
    assert len(units_in_many_files(files)) == 0


@pytest.mark.parametrize("units", [pa.array([3, None, 4, 3], pa.int8()), pa.array(["p", None, "q", "p"])])
def test_splits_rows_without_a_unit_off_or_into_the_first_piece(tmp_path: Path, units: pa.Array) -> None:
    rows = pa.table({"u": units, "i": [0, 1, 2, 3]})
    source = source_of(tmp_path, rows)
    (batch,) = rows.to_batches()
    pieces = split_by_unit(batch, source, 5)
    assert sorted(item for piece in pieces for item in piece.column("i").to_pylist()) == [0, 2, 3]
    kept = split_by_unit(batch, source, 5, unitless=True)
    assert 1 in kept[0].column("i").to_pylist()
    assert sum(piece.num_rows for piece in kept) == 4
    assert split_by_unit(batch, source, 5, range(2, 4), unitless=True) == pieces[2:4]


def test_accumulates_nothing_from_no_batches(tmp_path: Path) -> None:
    source = source_of(tmp_path, PAIRS)
    units = aggregator_for(UnitCount(), BASKETS)
    assert units.extract(accumulate([], source, units)).tolist() == [0]


def test_accumulates_without_the_dropped_units(tmp_path: Path) -> None:
    source = source_of(tmp_path, PAIRS)
    batches = list(read_batches(source, source.files[0]))
    units = aggregator_for(UnitCount(), BASKETS)
    assert units.extract(accumulate(batches, source, units)).tolist() == [2]
    assert units.extract(accumulate(batches, source, units, pa.array([7], pa.int64()))).tolist() == [1]
    assert units.extract(accumulate(batches, source, units, pa.array([], pa.null()))).tolist() == [2]
