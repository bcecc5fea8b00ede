"""Another name for bound data gets no second budget: every file is followed to where it really is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dpcore.errors import ConfigError
from jobs.ledger import SqlLedger
from jobs.planning.identity import bound_path
from tests.support.ledgers import past_the_ledger, planned, reserve
from tests.support.releases import World, table_world


@pytest.fixture
def world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ledger_url: str
) -> World:
    """A release of dataset people is published, and dataset again has a full budget of its own."""
    monkeypatch.chdir(tmp_path)
    made = table_world(tmp_path, capsys)
    made.set("privacy.ledger", ledger_url)
    for name in ("people", "again"):
        SqlLedger(ledger_url).create_dataset(name, 1.0, 1e-6)
    return made


def file_links(folder: Path) -> str:
    (folder / "links").mkdir()
    for file in (folder / "data").iterdir():
        (folder / "links" / file.name).symlink_to(file)
    return "links/*.parquet"


def one_file_link_among_copies(folder: Path) -> str:
    shutil.copytree(folder / "data", folder / "links")
    (folder / "links" / "part-1.parquet").unlink()
    (folder / "links" / "part-1.parquet").symlink_to(folder / "data" / "part-1.parquet")
    return "links"


def subfolder_link(folder: Path) -> str:
    (folder / "links").mkdir()
    (folder / "links" / "2026").symlink_to(folder / "data")
    return "links/**/*.parquet"


def folder_link(folder: Path) -> str:
    (folder / "links").symlink_to("data")
    return "links"


def local_scheme(folder: Path) -> str:
    return f"local://{folder}/data/*.parquet"


def doubled_slashes(folder: Path) -> str:
    return f"file://{folder}//out/..//data/*.parquet"


@pytest.mark.parametrize("alias", [
    file_links, one_file_link_among_copies, subfolder_link, folder_link, local_scheme, doubled_slashes
])  # fmt: skip
def test_an_alias_of_bound_data_gets_no_second_budget(world: World, alias: Callable[[Path], str]) -> None:
    assert world.run()[0] == 0
    code, out, err = world.run_as("again", alias(world.folder))
    assert (code, out) == (2, ""), err
    assert "belongs to dataset 'people'" in err
    assert "create a dataset with a new name" in err
    assert SqlLedger(world.config["privacy"]["ledger"]).history("again") == []


@pytest.mark.parametrize("alias", [file_links, one_file_link_among_copies, subfolder_link])
def test_data_that_were_bound_through_links_get_no_second_budget(world: World, alias: Callable[[Path], str]) -> None:
    assert world.run_as("again", alias(world.folder))[0] == 0
    code, out, err = world.run()
    assert (code, out) == (2, ""), err
    assert "belongs to dataset 'again'" in err
    assert "want dataset.name: again" in err
    assert world.run_as("again", "links/**" if alias is subfolder_link else "links")[0] == 0, "its own links stay free"


@pytest.mark.parametrize("url", ["s3a://bucket/data", "s3://bucket//data/part", "s3n://Bucket/x/../data"])
def test_another_spelling_of_a_bound_url_gets_no_second_budget(ledger_url: str, url: str) -> None:
    ledger = SqlLedger(ledger_url)
    for name in ("adult", "again"):
        ledger.create_dataset(name, 1.0, 0.0)
    reserve(ledger, path=bound_path("s3a://bucket/data/*.parquet"))
    with pytest.raises(ConfigError, match="belongs to dataset 'adult'"):
        ledger.plan(planned("b" * 64, dataset="again", path=bound_path(url)))


def test_a_linked_file_is_bound_once(ledger_url: str) -> None:
    ledger = SqlLedger(ledger_url)
    ledger.create_dataset("adult", 1.0, 0.0)
    for _ in range(2):
        ledger.plan(planned(linked_files=("/store/a", "/store/b")))
    places = past_the_ledger(ledger_url, "SELECT path FROM places ORDER BY number")
    assert places == [("/data/adult",), ("/store/a",), ("/store/b",)]
