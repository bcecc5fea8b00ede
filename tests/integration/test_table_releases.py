"""Releases of versions of tables and of filtered rows: what plan, certificate, verify and budget say of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.support.releases import World, table_world


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
