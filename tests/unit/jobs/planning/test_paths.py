"""Paths in a config start at the folder of the config file, whatever the working folder is."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpcore.errors import ConfigError
from jobs.config import parse_config
from jobs.planning.job import load_job
from jobs.planning.paths import with_absolute_output, with_absolute_paths
from tests.support.releases import SCHEMA, TABLE


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the config; the working folder is above it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "people.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    return tmp_path / "configs"


def resolved(folder: Path, path: str = "data", ledger: str = "sqlite:///marquee.db", output: str = "out") -> list[str]:
    document: dict[str, Any] = copy.deepcopy(TABLE)
    document["dataset"]["path"], document["privacy"]["ledger"], document["output"]["path"] = path, ledger, output
    config = with_absolute_paths(parse_config(document), Path(folder.name))
    config = with_absolute_output(config, Path(folder.name), "0" * 64)
    assert config.dataset.table_schema == str(folder / "people.schema.yaml")
    return [config.dataset.path, config.privacy.ledger, config.output.path]


def test_relative_paths_start_at_the_config(folder: Path) -> None:
    assert resolved(folder) == [f"{folder}/data", f"sqlite:///{folder}/marquee.db", f"{folder}/out"]
    above = resolved(folder, "../data/*.parquet", "sqlite+pysqlite:///../a b.db?timeout=1", "../out/x")
    top = folder.parent
    assert above == [f"{top}/data/*.parquet", f"sqlite+pysqlite:///{top}/a b.db?timeout=1", f"{top}/out/x"]


def test_absolute_paths_and_urls_stay_as_they_are(folder: Path) -> None:
    for path, ledger, output in (
        ("/data/./x", "sqlite:////srv/marquee.db", "/srv/out"),
        ("s3://bucket/../x", "postgresql://user@host/marquee.db", "/srv/../out"),
        ("file:///data", "sqlite:///:memory:", "/out"),
        ("gs://b/*.parquet", "nonsense", "/out"),
    ):
        assert resolved(folder, path, ledger, output) == [path, ledger, output]


def test_a_tilde_is_the_home_folder(folder: Path) -> None:
    home = folder.parent / "home"
    wanted = [f"{home}/data", f"sqlite:///{home}/marquee.db", f"{home}/out"]
    assert resolved(folder, "~/data", "sqlite:///~/marquee.db", "~/out") == wanted


def test_files_of_queries_and_weights_are_resolved_too(folder: Path) -> None:
    random = {"count": 3, "order": 1, "weights": "file", "weights_file": "w.csv"}
    for section, key in (({"file": "q.csv"}, "file"), (random, "weights_file")):
        document = {**TABLE, "workload": {"conjunctions": section}}
        conjunctions = with_absolute_paths(parse_config(document), folder).workload.conjunctions
        assert conjunctions is not None
        assert getattr(conjunctions, key) == str(folder / section[key])


def test_data_and_ledger_of_the_working_folder_are_named(folder: Path) -> None:
    """Versions up to 0.10 looked there, so a config that worked must not find nothing, or another ledger, silently."""
    top = folder.parent
    (top / "data").mkdir()
    (top / "data" / "a.parquet").touch()
    with pytest.raises(ConfigError) as data:
        resolved(folder, "data/*.parquet")
    assert str(data.value) == (
        f"dataset.path is data/*.parquet; there is no {folder}/data/*.parquet, but there is {top}/data/*.parquet in "
        f"the working folder; relative paths start at the folder of the config file: want {top}/data/*.parquet"
    )
    (folder / "data").mkdir()
    (folder / "data" / "b.parquet").touch()
    assert resolved(folder, "data/*.parquet")[0] == f"{folder}/data/*.parquet"
    (top / "marquee.db").touch()
    with pytest.raises(ConfigError, match=rf"privacy\.ledger is .* want sqlite:///{top}/marquee\.db"):
        resolved(folder)


def test_a_folder_that_no_url_can_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="question mark"):
        with_absolute_paths(parse_config(TABLE), tmp_path / "what?")


def test_the_working_folder_changes_nothing(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "people.yaml").write_text(yaml.safe_dump(TABLE))
    jobs = []
    for working in (folder.parent, folder, tmp_path_factory.mktemp("elsewhere")):
        monkeypatch.chdir(working)
        jobs.append(load_job(folder / "people.yaml"))
    assert len({job.release_id for job in jobs}) == 1
    assert jobs[0].config == jobs[1].config == jobs[2].config
