"""Jobs with a public table: which mechanisms take one, and what its content changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from dpcore.errors import ConfigError
from dpcore.mechanisms.clique_tree import CliqueTree
from jobs.config import parse_config
from jobs.mechanisms import settings_of
from jobs.outputs.plan_report import LedgerFacts, plan_facts
from jobs.planning.identity import identifying_config
from jobs.planning.job import Job, job_of
from tests.support.releases import BASKETS, SCHEMA, TABLE, people

NAMED = {"name": "clique_tree", "public": "before.parquet"}


def write(path: Path, seed: int = 0, rows: int = 80) -> None:
    table = people(0, rows, np.random.default_rng(seed))
    work = ["none" if value == "astronaut" else value for value in table["work"].to_pylist()]
    pq.write_table(table.set_column(table.schema.get_field_index("work"), "work", pa.array(work)), path)


def job(folder: Path, mechanism: dict[str, Any], document: dict[str, Any] = TABLE) -> Job:
    (folder / "people.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    return job_of(parse_config({**document, "mechanism": mechanism}), folder)


def test_the_mechanism_knows_the_table_and_the_plan_says_so(tmp_path: Path) -> None:
    write(tmp_path / "before.parquet")
    made = job(tmp_path, {**NAMED, "order": 2})
    assert isinstance(made.mechanism, CliqueTree)
    assert made.mechanism.public is not None
    assert made.mechanism.public.rows == 80
    assert settings_of(made.mechanism) == {"max_model_mb": 8.0, "order": 2, "max_work": 240.0}
    facts = plan_facts(made, LedgerFacts("sqlite://", None, "new"))
    assert any("a public table of 80 rows" in note for note in facts["notes"])
    assert any("compare with the public table" in step["label"] for step in facts["steps"])


def test_the_release_follows_from_the_content_and_not_from_the_path(tmp_path: Path) -> None:
    write(tmp_path / "before.parquet")
    write(tmp_path / "copy.parquet")
    write(tmp_path / "other.parquet", seed=1)
    names = ("before", "copy", "other")
    made = [job(tmp_path, {**NAMED, "public": f"{name}.parquet"}) for name in names]
    without = job(tmp_path, {"name": "clique_tree"})
    assert made[0].release_id == made[1].release_id
    assert len({one.release_id for one in (*made, without)}) == 3
    assert len({one.identity.digest for one in (*made, without)}) == 3
    assert list(made[0].files.digests) == ["mechanism.public"]
    assert identifying_config(made[0].config)["mechanism"] == {"name": "clique_tree"}
    assert not made[0].identity.older


def test_the_path_starts_at_the_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "before.parquet")
    monkeypatch.chdir("/")
    assert job(tmp_path, NAMED).config.mechanism.public == str(tmp_path / "before.parquet")


@pytest.mark.parametrize(
    ("mechanism", "document", "problem"),
    [
        ({**NAMED, "name": "aim"}, TABLE, r"mechanism aim takes no public table; want clique_tree"),
        ({**NAMED, "name": "recommended"}, TABLE, r"recommended takes no public table; want clique_tree by name"),
        ({**NAMED, "public": "gone.parquet"}, TABLE, r"gone\.parquet, which does not exist"),
        (NAMED, BASKETS, r"mechanism\.public is for tables"),
    ],
)
def test_what_takes_no_public_table(
    tmp_path: Path, mechanism: dict[str, Any], document: dict[str, Any], problem: str
) -> None:
    write(tmp_path / "before.parquet")
    with pytest.raises(ConfigError, match=problem):
        job(tmp_path, mechanism, document)


def test_a_value_outside_the_schema_is_named(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"sex": ["female", "robot"], "work": ["none", None], "age": [3, 4], "home": [True, False]}),
        tmp_path / "before.parquet",
    )
    with pytest.raises(ConfigError, match="column 'sex' is 'robot' in row 2"):
        job(tmp_path, NAMED)


@pytest.mark.parametrize("named", ["people.parquet", "link.parquet", "sub/../people.parquet"])
def test_a_file_of_the_private_data_is_refused_before_it_is_opened(named: str, tmp_path: Path) -> None:
    """Its number of rows, and values in errors, would be shown exactly."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "people.parquet").write_bytes(b"not even a table")
    (tmp_path / "link.parquet").symlink_to(tmp_path / "people.parquet")
    for path in ("people.parquet", "*.parquet", "."):
        document = {**TABLE, "dataset": {**TABLE["dataset"], "path": path}}
        with pytest.raises(ConfigError, match="one of the files of the private data; want a table that is public"):
            job(tmp_path, {**NAMED, "public": named}, document)


def test_a_table_beside_the_private_files_is_no_private_file(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    write(tmp_path / "data" / "before.parquet")
    document = {**TABLE, "dataset": {**TABLE["dataset"], "path": "data/people-*.parquet"}}
    assert job(tmp_path, {**NAMED, "public": "data/before.parquet"}, document).files.digests
    for path in ("data/b*.parquet", "**/*.parquet", "d*/before.*"):
        document = {**TABLE, "dataset": {**TABLE["dataset"], "path": path}}
        with pytest.raises(ConfigError, match="one of the files of the private data"):
            job(tmp_path, {**NAMED, "public": "data/before.parquet"}, document)
