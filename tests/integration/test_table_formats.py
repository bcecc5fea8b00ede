"""Versions of Delta and Iceberg tables, and Hive folders: each equals its live rows as its own library reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
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
from jobs.config.dataset import table_folder
from pipelines.attributes import Attribute, Kind
from pipelines.engines.statistics import Engine, EngineStatistics
from pipelines.layout import TableLayout
from pipelines.schema import Schema
from pipelines.source import Location, Source, TableFormat, TableVersion, fingerprint_now, open_source, read_contents
from pipelines.source.batches import read_batches
from pipelines.source.data_file import packed_deletions
from tests.support.engine_cases import SALT
from tests.support.engines import ENGINES
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


@pytest.mark.parametrize("region", ["50% off", "50%20off", "a b", "a%20b", "é/ü", "x=y&z"])
def test_deletion_vectors_find_their_files_whatever_the_partition_is_called(tmp_path: Path, region: str) -> None:
    """Found in review: names were unescaped twice, so that a vector of ``50%20off`` met no file and deleted nothing."""
    people = pa.table({"person": range(4), "region": [region] * 4, "year": [2001] * 4, "score": [0.1] * 4})
    write_deltalake(tmp_path, people, partition_by=["region"], configuration={"delta.enableDeletionVectors": "true"})
    delete_by_vector(tmp_path, 0, [0, 1])
    source = open_source(TableVersion(TableFormat.DELTA, str(tmp_path), 1), LAYOUT, SALT)
    (batch,) = read_batches(source, source.files[0])
    assert batch.column("person").to_pylist() == [2, 3]
    assert set(batch.column("region").to_pylist()) == {region}


def test_refuses_a_list_of_deleted_rows_that_meets_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _delta(tmp_path)
    delete_by_vector(tmp_path, 0, [0])
    monkeypatch.setattr("pipelines.source.delta.unquote", lambda text: text + "?")
    with pytest.raises(InputError, match="has deleted rows that cannot be matched with its files"):
        open_source(TableVersion(TableFormat.DELTA, str(tmp_path), DeltaTable(tmp_path).version()), LAYOUT, SALT)


@pytest.mark.parametrize("link", ["folder", "file"])
def test_refuses_links_into_a_table(tmp_path: Path, link: str) -> None:
    """Found in review: a link to a partition of a table, or to one of its files, was read with its deleted rows."""
    delta_with_deletes(tmp_path / "table")
    file = next((tmp_path / "table").rglob("*.parquet"))
    (tmp_path / "plain").mkdir()
    place = tmp_path / "plain" / ("part" if link == "folder" else "part.parquet")
    place.symlink_to(file.parent if link == "folder" else file)
    for path in (place, tmp_path / "plain" / "*.parquet") if link == "file" else (place,):
        with pytest.raises(InputError, match="belongs to the Delta table in"):
            open_source(str(path), LAYOUT, SALT)


@pytest.mark.parametrize("spelling", ["file:///", "file:/", "/"])
def test_lists_of_deleted_rows_find_their_files_in_every_spelling(tmp_path: Path, spelling: str) -> None:
    table = _iceberg(tmp_path / "ice")
    first = _paths(table)[0]
    rows_before = table.scan().to_arrow().num_rows
    delete_by_list(table, {first.replace("file:///", spelling): [0, 1]})
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    location = TableVersion(TableFormat.ICEBERG, f"{tmp_path}/ice/ns/people", snapshot.snapshot_id)
    source = open_source(location, LAYOUT, SALT)
    live = sum(batch.num_rows for file in source.files for batch in read_batches(source, file))
    assert live == rows_before - 2


def test_refuses_positions_outside_a_file(tmp_path: Path) -> None:
    table = _iceberg(tmp_path / "ice")
    delete_by_list(table, {_paths(table)[0]: [100_000]})
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    location = TableVersion(TableFormat.ICEBERG, f"{tmp_path}/ice/ns/people", snapshot.snapshot_id)
    with pytest.raises(InputError, match="has a list of deleted rows with positions outside its file"):
        open_source(location, LAYOUT, SALT)


def test_refuses_units_that_only_folders_name(tmp_path: Path) -> None:
    (tmp_path / "person=7").mkdir()
    pq.write_table(rows().drop_columns("person"), tmp_path / "person=7" / "a.parquet")
    with pytest.raises(InputError, match="^column 'person' of units is in names of folders alone"):
        open_source(str(tmp_path), LAYOUT, SALT)


def test_every_metadata_file_of_a_table_is_in_one_place() -> None:
    assert table_folder("/data/t/metadata/v3.metadata.json") == table_folder("/data/t") == "/data/t"
    assert table_folder("s3://b/t/metadata/00001-x.gz.metadata.json") == "s3://b/t"


def test_deleted_rows_are_found_in_every_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.source.batches.BATCH_ROWS", 30)
    people = pa.table({"person": range(100), "region": ["north"] * 100, "year": [2001] * 100, "score": [0.1] * 100})
    pq.write_table(people, tmp_path / "a.parquet", row_group_size=40)
    (file,) = open_source(str(tmp_path), LAYOUT, SALT).files
    live = np.arange(100) % 7 != 3
    source = Source((replace(file, deleted=packed_deletions(live)),), LAYOUT, SALT)
    for groups, rows_of in ((None, range(100)), ((1, 2), range(40, 100)), ((2,), range(80, 100))):
        batches = read_batches(source, source.files[0], groups)
        found = [person for batch in batches for person in batch.column("person").to_pylist()]
        assert found == [row for row in rows_of if live[row]]


def test_deleted_rows_change_the_fingerprint(tmp_path: Path) -> None:
    _delta(tmp_path)
    before = open_source(TableVersion(TableFormat.DELTA, str(tmp_path), 1), LAYOUT, SALT)
    delete_by_vector(tmp_path, 0, [0])
    after = open_source(TableVersion(TableFormat.DELTA, str(tmp_path), 2), LAYOUT, SALT)
    assert before.paths == after.paths
    assert fingerprint_now(before, b"key") != fingerprint_now(after, b"key")
