"""Versions of Delta and Iceberg tables, and Hive folders: each equals its live rows as its own library reads them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from dpcore.errors import InputError
from dpcore.exact_statistics import QueryAnswers
from dpcore.queries import Marginals
from pipelines.attributes import Attribute, Kind
from pipelines.engines.statistics import Engine, EngineStatistics
from pipelines.layout import TableLayout
from pipelines.schema import Schema
from pipelines.source import Location, TableFormat, TableVersion, open_source, read_contents
from tests.support.engine_cases import SALT
from tests.support.engines import ENGINES
from tests.support.releases import World, table_world
from tests.support.tables import delete_by_list, delete_by_vector

REGIONS = ["north", "south west", "100%", None]
ATTRIBUTES = (
    Attribute("region", Kind.CATEGORICAL, values=("north", "south west", "100%")),
    Attribute("year", Kind.INTEGER, edges=(2000, 2010, 2020, 2030)),
    Attribute("score", Kind.FLOAT, edges=(0.0, 0.5, 1.0)),
)
LAYOUT = TableLayout("person", Schema(ATTRIBUTES), max_rows_per_unit=2)
REQUEST = QueryAnswers(Marginals(LAYOUT.schema.domain, [("region", "year", "score"), ("score",), ()]))


@dataclass(frozen=True)
class Stored:
    """A version of a table, and its rows as its own library reads them."""

    location: Location
    live: pa.Table
    deleted: int


def rows(count: int = 400, seed: int = 0) -> pa.Table:
    draw = np.random.default_rng(seed)
    return pa.table(
        {
            "person": pa.array(draw.integers(0, count // 2, count)),
            "region": pa.array([REGIONS[place] for place in draw.integers(0, 4, count)]),
            "year": pa.array(draw.integers(2000, 2030, count)),
            "score": pa.array(draw.random(count)),
        }
    )


def _delta(folder: Path) -> DeltaTable:
    write_deltalake(folder, rows(), partition_by=["region"], configuration={"delta.enableDeletionVectors": "true"})
    write_deltalake(folder, rows(100, seed=1), mode="append")
    return DeltaTable(folder)


def _stored_delta(table: DeltaTable) -> Stored:
    """As DataFusion reads the table for ``deltalake``, which honours deletion vectors."""
    live = pa.table(QueryBuilder().register("t", table).execute("select * from t"))
    return Stored(TableVersion(TableFormat.DELTA, table.table_uri, table.version()), live, 500 - live.num_rows)


def delta_with_deletes(folder: Path) -> Stored:
    table = _delta(folder)
    table.delete("year < 2005")
    table.delete("region = 'north'")
    return _stored_delta(DeltaTable(folder))


def delta_with_updates(folder: Path) -> Stored:
    table = _delta(folder)
    table.delete("score < 0.1")
    table.update({"region": "'north'"}, predicate="year > 2020")
    return _stored_delta(DeltaTable(folder))


def delta_after_vacuum(folder: Path) -> Stored:
    table = _delta(folder)
    table.delete("score < 0.5")
    table.optimize.compact()
    removed = table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert removed
    table.create_checkpoint()
    return _stored_delta(DeltaTable(folder))


def delta_with_deletion_vectors(folder: Path) -> Stored:
    _delta(folder)
    delete_by_vector(folder, 0, [0, 3, 7, 20])
    delete_by_vector(folder, 1, range(10, 60))
    return _stored_delta(DeltaTable(folder))


def delta_at_an_old_version(folder: Path) -> Stored:
    stored = delta_with_deletes(folder)
    assert isinstance(stored.location, TableVersion)
    write_deltalake(folder, rows(50, seed=2), mode="append")
    DeltaTable(folder).delete("year > 2015")
    return stored


def delta_with_a_new_column(folder: Path) -> Stored:
    """A column that files of older versions lack is null in them."""
    write_deltalake(folder, rows().drop_columns("score"))
    write_deltalake(folder, rows(100, seed=1), mode="append", schema_mode="merge")
    DeltaTable(folder).delete("year < 2010")
    return _stored_delta(DeltaTable(folder))


def _iceberg(folder: Path) -> Table:
    folder.mkdir()
    catalog = SqlCatalog("test", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("ns")
    table = catalog.create_table("ns.people", rows().schema)
    table.append(rows())
    table.append(rows(100, seed=1))
    return table


def _stored_iceberg(table: Table) -> Stored:
    table = table.refresh()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    live = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
    folder = table.location().removeprefix("file://")
    return Stored(TableVersion(TableFormat.ICEBERG, folder, snapshot.snapshot_id), live, 500 - live.num_rows)


def _paths(table: Table) -> list[str]:
    return sorted(task.file.file_path for task in table.scan().plan_files())


def iceberg_with_row_deletes(folder: Path) -> Stored:
    table = _iceberg(folder)
    first, second = _paths(table)
    delete_by_list(table, {first: [0, 5, 17], second: range(30)})
    delete_by_list(table.refresh(), {first: [6]})
    return _stored_iceberg(table)


def iceberg_rewritten(folder: Path) -> Stored:
    table = _iceberg(folder)
    table.delete("year < 2010")
    table.overwrite(rows(60, seed=3), overwrite_filter="region == 'north'")
    return _stored_iceberg(table)


def iceberg_with_renamed_columns(folder: Path) -> Stored:
    """Old files hold ``region`` under another name, and a column of its present name with other values."""
    table = _iceberg(folder)
    with table.update_schema() as change:
        change.rename_column("region", "place")
    with table.update_schema() as change:
        change.rename_column("place", "region_now").add_column("region", table.schema().find_type("person"))
    with table.update_schema() as change:
        change.rename_column("region", "number").rename_column("region_now", "region")
    table.delete("year < 2010")
    return _stored_iceberg(table)


def iceberg_by_metadata_file(folder: Path) -> Stored:
    table = _iceberg(folder)
    delete_by_list(table, {_paths(table)[0]: [1, 2, 3]})
    stored = _stored_iceberg(table)
    assert isinstance(stored.location, TableVersion)
    location = TableVersion(TableFormat.ICEBERG, table.refresh().metadata_location, stored.location.version)
    return Stored(location, stored.live, stored.deleted)


def hive_folders(folder: Path) -> Stored:
    """As Arrow's datasets read it, whose null is also Hive's."""
    parts = ds.partitioning(pa.schema([("region", pa.string()), ("year", pa.int64())]), flavor="hive")
    ds.write_dataset(rows(), folder, format="parquet", partitioning=parts)
    live = ds.dataset(folder, format="parquet", partitioning=parts).to_table()
    return Stored(str(folder), live, 400 - live.num_rows)


WITH_DELETES = [
    delta_with_deletes, delta_with_updates, delta_after_vacuum, delta_with_deletion_vectors, delta_at_an_old_version,
    delta_with_a_new_column, iceberg_with_row_deletes, iceberg_rewritten, iceberg_by_metadata_file,
]  # fmt: skip
ALL = [*WITH_DELETES, iceberg_with_renamed_columns, hive_folders]


def counted(engine: Engine, location: Location, layout: TableLayout = LAYOUT) -> list[int]:
    return EngineStatistics(engine, open_source(location, layout, SALT)).aggregate(REQUEST).tolist()


@pytest.mark.smoke(13)
@pytest.mark.parametrize("make", ENGINES)
@pytest.mark.parametrize("build", ALL)
def test_counts_the_live_rows(make: Callable[[], Engine], build: Callable[[Path], Stored], tmp_path: Path) -> None:
    stored = build(tmp_path / "table")
    assert (stored.deleted > 0) == (build in (*WITH_DELETES, iceberg_with_renamed_columns))
    pq.write_table(stored.live.select(list(LAYOUT.columns)), tmp_path / "live.parquet")
    wanted = counted(make(), str(tmp_path / "live.parquet"))
    assert sum(wanted) > 0
    assert counted(make(), stored.location) == wanted


@pytest.mark.parametrize("build", [delta_with_deletes, iceberg_with_row_deletes])
@pytest.mark.parametrize("inside", ["", "/**/*.parquet", "one file"])
def test_refuses_the_folder_of_a_table_as_plain_files(
    build: Callable[[Path], Stored], inside: str, tmp_path: Path
) -> None:
    """Attack: after DELETE region='north', a release of the folder counted the deleted people."""
    stored = build(tmp_path / "table")
    assert isinstance(stored.location, TableVersion)
    folder = Path(stored.location.uri.removeprefix("file://"))
    path = str(next(folder.rglob("*.parquet"))) if inside == "one file" else f"{folder}{inside}"
    with pytest.raises(
        InputError, match=r"belongs to the (Delta|Iceberg) table in .*; want dataset\.table: \{format: "
    ):
        open_source(path, LAYOUT, SALT)
    with pytest.raises(InputError, match="belongs to the"):
        read_contents(str(tmp_path))


def test_refuses_the_folder_of_a_hudi_table(tmp_path: Path) -> None:
    (tmp_path / ".hoodie").mkdir()
    pq.write_table(rows(), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="belongs to the Hudi table in .*; want a copy of the table's present rows"):
        open_source(str(tmp_path), LAYOUT, SALT)


def test_a_folder_named_metadata_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "metadata").mkdir()
    pq.write_table(rows(), tmp_path / "metadata" / "a.parquet")
    assert len(open_source(str(tmp_path), LAYOUT, SALT).files) == 1


@pytest.mark.parametrize(
    ("location", "wanted"),
    [
        (TableVersion(TableFormat.DELTA, "nowhere", 0), "there is no delta table nowhere .version 0.; want the folder"),
        (TableVersion(TableFormat.DELTA, "delta", 9), "delta table delta .version 9. cannot be opened; want a version"),
        (TableVersion(TableFormat.ICEBERG, "nowhere", 1), "there is no iceberg table nowhere .snapshot 1."),
        (
            TableVersion(TableFormat.ICEBERG, "ice/ns/people", 1),
            "there is no iceberg table .*; want the id of a snapshot",
        ),
    ],
)
def test_names_a_missing_table_or_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: TableVersion, wanted: str
) -> None:
    monkeypatch.chdir(tmp_path)
    _delta(tmp_path / "delta")
    _iceberg(tmp_path / "ice")
    with pytest.raises(InputError, match=wanted):
        open_source(location, LAYOUT, SALT)


def test_names_what_it_cannot_read(tmp_path: Path) -> None:
    table = _iceberg(tmp_path / "ice")
    delete_by_list(table, {_paths(table)[0]: [1]}, equality=True)
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    location = TableVersion(TableFormat.ICEBERG, f"{tmp_path}/ice/ns/people", snapshot.snapshot_id)
    with pytest.raises(InputError, match="needs equality deletes to be read, which is not supported"):
        open_source(location, LAYOUT, SALT)
    _delta(tmp_path / "delta")
    log = tmp_path / "delta" / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('"delta.enableDeletionVectors":"true"', '"delta.columnMapping.mode":"name"'))
    with pytest.raises(InputError, match="columnMapping to be read, which is not supported|cannot be opened"):
        open_source(TableVersion(TableFormat.DELTA, str(tmp_path / "delta"), 0), LAYOUT, SALT)


def test_names_a_column_that_the_table_lacks(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows().drop_columns("score"))
    with pytest.raises(InputError, match=r"delta table .* has no column 'score'; want one of person, region, year"):
        open_source(TableVersion(TableFormat.DELTA, str(tmp_path), 0), LAYOUT, SALT)


@pytest.mark.parametrize("name", ["year=two", "year=1e3"])
def test_names_a_partition_value_of_another_type(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    pq.write_table(rows().drop_columns("year"), tmp_path / name / "a.parquet")
    with pytest.raises(InputError, match="column 'year' of .* is a partition column whose value is not an integer"):
        open_source(str(tmp_path), LAYOUT, SALT)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    return table_world(tmp_path, capsys)


def people_in_delta(world: World) -> None:
    """The data of the world as a Delta table, of which the men of the first version were deleted."""
    folder = world.folder / "people.delta"
    write_deltalake(folder, pq.read_table(world.folder / "data"), partition_by=["sex"])
    DeltaTable(folder).delete("sex = 'male'")
    del world.config["dataset"]["path"]
    del world.config["dataset"]["snapshot"]
    world.set("dataset.table", {"format": "delta", "uri": "people.delta", "version": 1})


def test_a_release_of_a_table_names_its_version(table: World) -> None:
    people_in_delta(table)
    table.budget(epsilon=3.0, delta=1e-5)
    code, _, err = table.run()
    assert code == 0, err
    certificate = json.loads((table.folder / "out/people/certificate.json").read_text())
    assert certificate["dataset"]["snapshot"] == "delta version 1"
    assert certificate["dataset"]["table"] == "delta, version 1"
    assert certificate["config"]["dataset"]["table"] == {"format": "delta", "version": 1, "snapshot_id": None}
    first = table.job().release_id
    # The table goes on changing, and the release stays what it is.
    write_deltalake(table.folder / "people.delta", pq.read_table(table.folder / "data"), mode="append")
    DeltaTable(table.folder / "people.delta").delete("age > 10")
    code, _, err = table.run()
    assert (code, table.charges()) == (0, 1), err
    assert table.marquee("verify", "out/people", "--ledger", "sqlite:///marquee.db")[0] == 0
    # Its files may be gone once it is published.
    shutil.rmtree(table.folder / "people.delta")
    assert table.run()[0] == 0
    table.set("dataset.table", {"format": "delta", "uri": "people.delta", "version": 3})
    assert table.job().release_id != first


def test_a_table_and_its_copy_in_other_files_have_one_answer(table: World) -> None:
    """The exact counts of the deleted men are zero, as the evaluation says to the operator."""
    people_in_delta(table)
    table.set("workload.marginals", {"cliques": [{"attributes": ["sex"]}]})
    table.set("mechanism", {"name": "gaussian"})
    table.set("privacy.epsilon", 100.0)
    table.budget(epsilon=100.0)
    code, _, err = table.run()
    assert code == 0, err
    answers = pq.read_table(table.folder / "out/people/answers.parquet").to_pylist()
    men = [row["answer"] for row in answers if "male" in row["query"] and "female" not in row["query"]]
    assert men
    assert all(abs(answer) < 20 for answer in men)


def test_validate_and_a_moved_budget_know_tables(table: World) -> None:
    people_in_delta(table)
    table.budget()
    code, out, err = table.marquee("validate", "release.yaml")
    assert code == 0, err
    live = DeltaTable(table.folder / "people.delta").to_pyarrow_table().num_rows
    assert f"{live:,}" in out
    assert table.run()[0] == 0
    (table.folder / "people.delta").rename(table.folder / "moved.delta")
    move = ["budget", "move", "--dataset", "people", "--path", "moved.delta", "--reason", "new disk"]
    code, _, err = table.marquee(*move)
    assert (code, "belongs to the Delta table" in err, "--table delta:N" in err) == (3, True, True), err
    assert table.marquee(*move, "--table", "delta:1")[0] == 0
    table.set("dataset.table.uri", "moved.delta")
    assert (table.run()[0], table.charges()) == (0, 1)


@pytest.mark.parametrize("text", ["hudi:1", "delta", "delta:x", "delta:-1"])
def test_names_a_wrong_table_of_a_moved_budget(table: World, text: str) -> None:
    table.budget()
    code, _, err = table.marquee(
        "budget", "move", "--dataset", "people", "--path", "x", "--reason", "y", "--table", text
    )
    assert (code, f"--table is {text!r}; want delta:VERSION or iceberg:SNAPSHOT" in err) == (2, True), err


@pytest.mark.parametrize("folders", [False, True], ids=["columns", "folders"])
def test_a_release_of_filtered_rows_says_so(table: World, folders: bool) -> None:
    """Two spellings of the same rows, in a column or in names of folders, have one release."""
    people = pq.read_table(table.folder / "data")
    everybody = table.job().release_id
    if folders:
        shutil.rmtree(table.folder / "data")
        parts = ds.partitioning(pa.schema([("sex", pa.string())]), flavor="hive")
        ds.write_dataset(people, table.folder / "data", format="parquet", partitioning=parts)
        table.set("dataset.path", "data")
    table.set("dataset.where", {"sex": "female", "age": {"min": 18, "max": 64}})
    table.set("workload.marginals", {"cliques": [{"attributes": ["sex", "age"]}]})
    table.set("mechanism", {"name": "gaussian"})
    table.set("privacy.epsilon", 100.0)
    table.budget(epsilon=100.0)
    words = "The release counts the rows in which sex is 'female', and age is at least 18 and at most 64."
    code, out, _ = table.marquee("plan", "release.yaml")
    assert (code, words in out) == (0, True)
    code, _, err = table.run()
    assert code == 0, err
    certificate = json.loads((table.folder / "out/people/certificate.json").read_text())
    assert certificate["dataset"]["where"].startswith(words)
    assert table.marquee("verify", "out/people", "--ledger", "sqlite:///marquee.db")[0] == 0
    rows = pq.read_table(table.folder / "out/people/answers.parquet").to_pylist()
    answers = {row["query"]: row["answer"] for row in rows}
    ages = np.array(people.column("age").to_pylist())
    women = np.array(people.column("sex").to_pylist()) == "female"
    assert abs(answers["sex=female & age=[18, 40)"] - np.sum(women & (ages >= 18) & (ages < 40))) < 10
    assert abs(answers["sex=female & age=[65, 100]"]) < 10
    assert abs(answers["sex=male & age=[18, 40)"]) < 10
    assert table.job().release_id != everybody


def test_a_certificate_that_hides_its_filter_is_seen(table: World) -> None:
    """Forgery: the sentence about the filter is taken out, so that the answers seem to be about everybody."""
    table.set("dataset.where", {"sex": ["female"]})
    table.budget()
    assert table.run()[0] == 0
    path = table.folder / "out/people/certificate.json"
    content = json.loads(path.read_text())
    del content["dataset"]["where"]
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    code, out, err = table.marquee("verify", "out/people")
    assert (code, "dataset.where" in out + err) == (7, True)
