"""Real files, copied in every way that keeps their content, get no second budget, and a move looks at its target."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.ledger import SqlLedger
from tests.support.ledgers import past_the_ledger
from tests.support.releases import LEDGER, World, people, table_world


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    """A release of dataset people is published, and dataset again has a full budget of its own."""
    monkeypatch.chdir(tmp_path)
    made = table_world(tmp_path, capsys)
    made.set("mechanism", {"name": "gaussian"})
    made.set("workload.marginals.order", 1)
    for name in ("people", "again"):
        made.budget(name=name)
    assert made.run()[0] == 0
    return made


def move(world: World, path: str, *options: str) -> tuple[int, str, str]:
    return world.marquee("budget", "move", "--dataset", "people", "--path", path, "--reason", "new disk", *options)


def others(folder: Path, *names: str, count: int = 1000) -> None:
    """Files about other people."""
    folder.mkdir(exist_ok=True)
    generator = np.random.default_rng(7)
    for number, name in enumerate(names):
        pq.write_table(people(10_000 * (number + 1), count, generator), folder / name)


def copied_folder(folder: Path) -> None:
    shutil.copytree(folder / "data", folder / "copies")


def other_names(folder: Path) -> None:
    copied_folder(folder)
    for number, file in enumerate(sorted((folder / "copies").iterdir())):
        file.rename(file.with_name(f"{number}-renamed.parquet"))


def hard_links(folder: Path) -> None:
    (folder / "copies").mkdir()
    for file in (folder / "data").iterdir():
        os.link(file, folder / "copies" / file.name)


def one_file_of_three(folder: Path) -> None:
    copied_folder(folder)
    for name in ("part-0.parquet", "part-2.parquet"):
        (folder / "copies" / name).unlink()


def one_file_among_others(folder: Path) -> None:
    others(folder / "copies", "x.parquet", "y.parquet")
    shutil.copy(folder / "data" / "part-1.parquet", folder / "copies")


def row_groups_in_one_new_file(folder: Path) -> None:
    """Two of the three files become the row groups of a file with rows of others."""
    others(folder / "copies", "new.parquet", count=150)
    tables = [pq.read_table(folder / "copies" / "new.parquet")]
    tables += [pq.read_table(folder / "data" / f"part-{number}.parquet") for number in (0, 2)]
    with pq.ParquetWriter(folder / "copies" / "new.parquet", tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)


@pytest.mark.parametrize("attack", [
    copied_folder, other_names, hard_links, one_file_of_three, one_file_among_others, row_groups_in_one_new_file
])  # fmt: skip
def test_copied_data_get_no_second_budget(world: World, attack: Callable[[Path], None]) -> None:
    attack(world.folder)
    code, out, err = world.run_as("again", "copies")
    assert (code, out) == (2, ""), err
    assert "so the data belong to 'people' and not to dataset 'again'; want dataset.name: people." in err
    assert f"{world.folder}/copies/" in err
    assert err.count("\n") == 1
    ledger = SqlLedger(LEDGER)
    assert (ledger.history("again"), ledger.dataset("again", 1, 1e-6).path) == ([], None)


def test_data_of_others_are_no_copy(world: World) -> None:
    """The same schema, the same numbers of rows and values from the same lists: only the people differ."""
    others(world.folder / "copies", "part-0.parquet", "part-1.parquet", "part-2.parquet", count=100)
    for name in ("copies", "data"):
        no_rows = pq.read_table(world.folder / name / "part-0.parquet").slice(0, 0)
        pq.write_table(no_rows, world.folder / name / "empty.parquet")
    world.set("dataset.snapshot", "2026-12")
    world.set("privacy.epsilon", 0.1)
    world.set("output.path", "out/more")
    SqlLedger(LEDGER).raise_total("people", 2.0, 1e-6, "more")
    assert world.run()[0] == 0
    code, _, err = world.run_as("again", "copies")
    assert code == 0, err


def test_a_copy_may_be_shared_on_record(world: World) -> None:
    copied_folder(world.folder)
    words = (
        "budget",
        "create",
        "--dataset",
        "people-2",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--shares-with",
        "people",
    )
    assert world.marquee(*words, "--reason", "decision 12")[0] == 0
    world.config["dataset"] |= {"name": "people-2", "path": "copies"}
    world.set("output.path", "out/second")
    assert world.run()[0] == 0
    history = world.marquee("budget", "history", "--dataset", "people-2")[1]
    assert "created; may use the data of dataset 'people': decision 12" in history


@pytest.mark.parametrize("path", ["copies", "copies/*.parquet", "copies/part-1.parquet", "file://{}/copies"])
def test_a_move_finds_the_known_content(world: World, path: str) -> None:
    copied_folder(world.folder)
    code, out, err = move(world, path.format(world.folder))
    assert (code, err) == (0, "")
    assert "not compared" not in out
    shutil.copytree(world.folder / "copies", world.folder / "more")
    for again in ("copies", "data", "more"):
        code, out, err = world.run_as("again", again)
        assert (code, out) == (2, ""), err
        assert "'people'" in err


def test_a_moved_dataset_with_some_new_files_is_known(world: World) -> None:
    copied_folder(world.folder)
    others(world.folder / "copies", "part-1.parquet", "part-3.parquet")
    assert move(world, "copies")[0] == 0


def no_folder(folder: Path) -> None:
    pass


def empty_folder(folder: Path) -> None:
    (folder / "copies").mkdir()


def folder_of_others(folder: Path) -> None:
    others(folder / "copies", "part-0.parquet")


def rewritten_rows(folder: Path) -> None:
    (folder / "copies").mkdir()
    tables = [pq.read_table(file) for file in sorted((folder / "data").iterdir())]
    pq.write_table(pa.concat_tables(tables), folder / "copies" / "all.parquet")


@pytest.mark.parametrize(("target", "code", "says"), [
    (no_folder, 3, "copies does not exist; want a Parquet file"),
    (empty_folder, 3, "copies matches no Parquet file"),
    (folder_of_others, 2, "copies has the footer or a row group of a file that runs of dataset 'people' have read"),
    (rewritten_rows, 2, "add --new-content, which is recorded with the reason"),
])  # fmt: skip
def test_a_move_to_something_else_is_a_decision_on_record(
    world: World, target: Callable[[Path], None], code: int, says: str
) -> None:
    target(world.folder)
    found, out, err = move(world, "copies")
    assert (found, out) == (code, ""), err
    assert says in err
    assert SqlLedger(LEDGER).dataset("people", 1, 1e-6).path == str(world.folder / "data")
    assert move(world, "copies", "--new-content")[0] == 0
    history = world.marquee("budget", "history", "--dataset", "people")[1]
    assert f": moved to {world.folder}/copies, with new content: new disk\n" in history


def test_a_move_onto_a_file_of_another_dataset_is_refused(world: World) -> None:
    others(world.folder / "shop", "a.parquet")
    code, _, err = world.run_as("again", "shop")
    assert code == 0, err
    copied_folder(world.folder)
    shutil.copy(world.folder / "shop" / "a.parquet", world.folder / "copies" / "z.parquet")
    code, out, err = move(world, "copies")
    assert (code, out) == (2, ""), err
    assert "z.parquet has the same footer as a file of dataset 'again'" in err


def test_new_content_does_not_free_the_content_of_another_dataset(world: World) -> None:
    """The decision is about the files of this dataset; the next run still looks for those of others."""
    others(world.folder / "shop", "a.parquet")
    assert world.run_as("again", "shop")[0] == 0
    shutil.copytree(world.folder / "shop", world.folder / "copies")
    assert move(world, "copies", "--new-content")[0] == 0
    world.set("dataset.path", "copies")
    world.set("dataset.snapshot", "2026-12")
    world.set("output.path", "out/more")
    code, out, err = world.run()
    assert (code, out) == (2, ""), err
    assert "belong to 'again' and not to dataset 'people'" in err
    assert world.charges() == 1


def test_a_move_of_a_dataset_whose_content_nobody_recorded_says_so(world: World) -> None:
    """As after the migration of an older ledger. The next run records the content."""
    past_the_ledger(LEDGER, "DROP TABLE contents", "CREATE TABLE contents (digest TEXT, dataset TEXT, bound TEXT)")
    copied_folder(world.folder)
    code, out, err = move(world, "copies")
    assert (code, err) == (0, "")
    assert "the files at the new path were not compared, because no run has recorded the content of the data\n" in out
    world.set("dataset.path", "copies")
    assert world.run()[0] == 0
    assert SqlLedger(LEDGER).is_content_known("people")
    assert move(world, "nowhere")[0] == 3
