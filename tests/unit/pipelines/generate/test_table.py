"""The generator of the census-like table: files, types, schema, and correlations of attributes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from dpcore.errors import ConfigError
from pipelines.generate.table import ARROW_SCHEMA, ROWS_AT_ONCE, UNIT, write_table
from pipelines.schema import Kind, load_schema

ROWS = 2 * ROWS_AT_ONCE + 3


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> tuple[pa.Table, Path]:
    folder = tmp_path_factory.mktemp("people") / "census"
    schema = write_table(folder, rows=ROWS, files=3, seed=1)
    assert sorted(path.name for path in folder.iterdir()) == [f"part-0000{index}.parquet" for index in range(3)]
    return pq.read_table(folder), schema


def test_every_row_is_a_person_of_its_own(people: tuple[pa.Table, Path]) -> None:
    table, _ = people
    assert table[UNIT].to_pylist() == list(range(ROWS))


def test_files_do_not_change_the_rows(people: tuple[pa.Table, Path], tmp_path: Path) -> None:
    write_table(tmp_path / "one", rows=ROWS, files=1, seed=1)
    assert pq.read_table(tmp_path / "one").equals(people[0])
    write_table(tmp_path / "other", rows=ROWS, files=1, seed=2)
    assert not pq.read_table(tmp_path / "other").equals(people[0])


def test_a_csv_file_has_the_same_people(people: tuple[pa.Table, Path], tmp_path: Path) -> None:
    schema = write_table(tmp_path / "new" / "people.csv", rows=ROWS, seed=1)
    assert schema == tmp_path / "new" / "people.schema.yaml"
    types = pa.csv.ConvertOptions(column_types=ARROW_SCHEMA, strings_can_be_null=True)
    read = pa.csv.read_csv(tmp_path / "new" / "people.csv", convert_options=types)
    assert read.to_pydict() == people[0].to_pydict()
    with pytest.raises(ConfigError, match="exists already"):
        write_table(tmp_path / "new" / "people.csv", rows=ROWS)


def test_a_csv_file_is_one_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="one CSV file"):
        write_table(tmp_path / "people.csv", rows=ROWS, files=2)
    assert not list(tmp_path.iterdir())


def test_the_schema_describes_the_table(people: tuple[pa.Table, Path]) -> None:
    table, path = people
    schema = load_schema(path)
    assert path.name == "census.schema.yaml"
    assert [attribute.name for attribute in schema.attributes] == [name for name in table.column_names if name != UNIT]
    assert {attribute.kind for attribute in schema.attributes} == set(Kind)
    for attribute in schema.attributes:
        present = table[attribute.name].drop_null()
        assert (present.length() < ROWS) <= bool(attribute.null), attribute.name
        if attribute.kind is Kind.CATEGORICAL:
            assert set(present.unique().to_pylist()) == set(attribute.values), attribute.name
        elif attribute.edges:
            numbers = present.cast(pa.int32()) if attribute.kind is Kind.DATE else present
            filled = np.histogram(np.clip(numbers.to_numpy(), attribute.edges[0], attribute.edges[-1]), attribute.edges)
            assert filled[0].min() > 0, attribute.name


@pytest.mark.parametrize("name", ["schooling", "occupation", "income"])
def test_some_values_are_missing(people: tuple[pa.Table, Path], name: str) -> None:
    assert 0.01 < people[0][name].null_count / ROWS < 0.25


def test_attributes_hang_together(people: tuple[pa.Table, Path]) -> None:
    table = people[0].drop_null()

    def mean_income(mask: pa.ChunkedArray) -> float:
        return float(pc.mean(table.filter(mask)["income"]).as_py())

    assert mean_income(pc.equal(table["schooling"], "tertiary")) > 1.3 * mean_income(
        pc.equal(table["schooling"], "none")
    )
    assert mean_income(table["owns_home"]) > 1.2 * mean_income(pc.invert(table["owns_home"]))
    married = pc.equal(table["marital"], "married").to_numpy()
    assert np.corrcoef(married, table["age"].to_numpy())[0, 1] > 0.1


@pytest.mark.parametrize(("change", "words"), [
    ({"rows": 0}, "rows is 0; want >= 1"),
    ({"files": 0}, "files is 0; want 1 .. 1"),
    ({"files": 2}, "files is 2; want 1 .. 1"),
    ({"seed": -1}, "seed is -1; want >= 0"),
])  # fmt: skip
def test_a_wrong_size_is_refused_and_writes_nothing(tmp_path: Path, change: dict[str, int], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        write_table(tmp_path / "out", **{"rows": 10, "files": 1, "seed": 1, **change})
    assert list(tmp_path.iterdir()) == []


def test_a_used_place_is_refused(tmp_path: Path) -> None:
    write_table(tmp_path / "out", rows=10, files=1, seed=1)
    with pytest.raises(ConfigError, match=r"out.schema.yaml exists already"):
        write_table(tmp_path / "out", rows=10, files=1, seed=1)
    (tmp_path / "out.schema.yaml").unlink()
    with pytest.raises(ConfigError, match="is not an empty folder"):
        write_table(tmp_path / "out", rows=10, files=1, seed=1)
    assert not (tmp_path / "out.schema.yaml").exists()
