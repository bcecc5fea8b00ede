"""Releases of CSV, JSON lines, ORC and Feather: found by their names, checked, identified, refused in plain words."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

from dpcore.errors import ConfigError, InputError, IntegrityError
from jobs.config import parse_config
from jobs.planning.job import job_of
from jobs.release.run import release
from tests.support.releases import World, table_world


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    """The table of a config as CSV, in a folder."""
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    rows = pq.read_table(tmp_path / "data")
    (tmp_path / "csv").mkdir()
    arrow_csv.write_csv(rows.slice(0, 100), tmp_path / "csv" / "a.csv")
    arrow_csv.write_csv(rows.slice(100), tmp_path / "csv" / "b.csv")
    world.set("dataset.path", str(tmp_path / "csv"))
    world.budget()
    return world


def test_the_format_of_a_folder_follows_from_the_names(world: World) -> None:
    made = release(world.job())
    assert not made.already
    assert release(world.job()).already


def test_the_format_is_no_part_of_the_release_id(world: World) -> None:
    ids = {world.job().release_id}
    world.set("dataset.format", "csv")
    world.set("dataset.csv", {"null_values": ["", "NA"]})
    ids.add(world.job().release_id)
    world.set("dataset.path", str(world.folder / "data"))
    del world.config["dataset"]["format"], world.config["dataset"]["csv"]
    assert ids == {world.job().release_id}


def test_another_way_of_reading_is_other_data(world: World) -> None:
    release(world.job())
    world.set("dataset.csv", {"null_values": ["", "NA"]})
    with pytest.raises(IntegrityError, match="snapshot"):
        release(world.job())


def test_changed_bytes_are_other_data(world: World) -> None:
    release(world.job())
    file = world.folder / "csv" / "a.csv"
    text = file.read_text()
    file.write_text(text[:-2] + ("1" if text[-2] != "1" else "2") + "\n")
    with pytest.raises(IntegrityError, match="snapshot"):
        release(world.job())


def test_a_copy_gets_no_second_total(world: World) -> None:
    release(world.job())
    copy = world.folder / "copy" / "c.csv"
    copy.parent.mkdir()
    copy.write_bytes((world.folder / "csv" / "b.csv").read_bytes())
    world.set("dataset.name", "another")
    world.set("dataset.path", str(copy.parent))
    world.set("output.path", "out/another")
    world.budget()
    with pytest.raises(ConfigError, match="dataset"):
        release(world.job())


BROKEN = {
    "no heading": ("a.csv", b"", "has no heading"),
    "a short row": ("a.csv", b"person,sex,work,age,home\np-4711\n", "cannot be read as CSV"),
    "another encoding": (
        "a.csv",
        "person,sex,work,age,home\n1,m,n\u00f6rd,3,\n".encode("latin-1"),
        "cannot be read as CSV",
    ),
    "a missing column": ("a.csv", b"person,sex,age,home\n4711,a,b,c\n", "has no column 'work'"),
    "a repeated column": ("a.csv", b"person,sex,work,work,age,home\n4711,1,2,3,4,5\n", "more than one column 'work'"),
    "a line that is no object": ("a.jsonl", b'{"person": "4711"}\n[4711]\n', "no JSON object"),
    "half of an object": ("a.jsonl", b'{"person": "4711"', "no JSON object"),
    "no ORC": ("a.orc", b"person 4711", "cannot be read as ORC"),
    "no Feather": ("a.feather", b"person 4711", "cannot be read as Feather"),
    "nothing": ("a.txt", b"4711", "matches no Parquet file"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_cannot_be_read_is_refused_without_its_values(world: World, case: str) -> None:
    name, content, message = BROKEN[case]
    folder = world.folder / "broken"
    folder.mkdir()
    (folder / name).write_bytes(content)
    world.set("dataset.path", str(folder))
    with pytest.raises(InputError, match=message) as caught:
        release(world.job())
    assert "4711" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert world.charges() == 0


def test_several_formats_in_a_folder_need_a_choice(world: World) -> None:
    (world.folder / "csv" / "c.jsonl").write_text(json.dumps({"person": 1}) + "\n")
    with pytest.raises(InputError, match="several formats .csv and json.; want dataset.format"):
        release(world.job())
    world.set("dataset.format", "csv")
    assert not release(world.job()).already


def test_other_files_beside_parquet_are_ignored_as_before(world: World) -> None:
    (world.folder / "data" / "notes.csv").write_text("no,rows\n")
    world.set("dataset.path", str(world.folder / "data"))
    assert not release(world.job()).already


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"format": "xlsx"}, "dataset.format"),
        ({"format": "json", "csv": {}}, "csv does not go with format: json"),
        ({"csv": {"delimiter": "||"}}, "dataset.csv.delimiter"),
        ({"csv": {"encoding": "klingon"}}, "dataset.csv.encoding"),
        ({"csv": {"quote": ","}}, "are the same"),
        ({"path": None, "frame": "people", "format": "csv"}, "not about a frame"),
    ],
)
def test_choices_that_contradict_each_other_are_refused(world: World, keys: dict[str, object], message: str) -> None:
    dataset = {key: value for key, value in (world.config["dataset"] | keys).items() if value is not None}
    with pytest.raises(ConfigError, match=message):
        job_of(parse_config(world.config | {"dataset": dataset}), world.folder)


def test_a_column_of_folder_names_joins_csv(world: World) -> None:
    rows = pq.read_table(world.folder / "data")
    for region in rows["work"].unique().to_pylist():
        if region is None:
            continue
        folder = world.folder / "hive" / f"work={region}"
        folder.mkdir(parents=True)
        part = rows.filter(pa.compute.equal(rows["work"], region)).drop_columns(["work"])
        arrow_csv.write_csv(part, folder / "a.csv")
    world.set("dataset.path", str(world.folder / "hive"))
    assert not release(world.job()).already


def test_the_plan_says_how_text_is_read(world: World) -> None:
    assert "files" not in world.marquee("plan", "release.yaml")[1]  # The names in the folder tell, which no plan reads.
    world.set("dataset.format", "csv")
    code, out, err = world.marquee("plan", "release.yaml")
    assert code == 0, err
    assert "files      csv: types follow from the schema, and text that is no value of its type counts as null" in out
    assert json.loads(world.marquee("plan", "release.yaml", "--json")[1])["format"] == "csv"
