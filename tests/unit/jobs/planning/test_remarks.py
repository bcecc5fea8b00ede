"""What a config leaves open is said in the plan, in the log of the run, and in the certificate."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from jobs.planning.remarks import remarks
from tests.support.releases import World, baskets_world, table_world

LARGE = "dataset.max_items_per_unit is not set, so a unit may have all 40 items: no basket is truncated"
COUNT = "workload.conjunctions.count is 1,000; only 780 different conjunctions exist, and all are asked"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    return baskets_world(tmp_path, capsys)


def test_a_config_that_leaves_nothing_open_has_no_remarks(world: World) -> None:
    assert remarks(world.job()) == ()


def test_a_table_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert remarks(table_world(tmp_path, capsys).job()) == ()


def test_what_is_assumed_is_said_everywhere(world: World) -> None:
    world.config["dataset"].pop("max_items_per_unit")
    world.config["workload"] = {"conjunctions": {"count": 1000, "order": 2}}
    world.save()
    world.budget(20.0)
    noted = remarks(world.job())
    assert len(noted) == 2
    assert noted[0].startswith(LARGE)
    assert noted[1] == COUNT
    _, out, _ = world.marquee("plan", "release.yaml", "--json")
    assert json.loads(out)["notes"][-2:] == list(noted)
    code, _, err = world.marquee("run", "release.yaml", "--log-format", "json")
    assert code == 0, err
    events = [json.loads(line) for line in err.splitlines()]
    assert [event["note"] for event in events if event["event"] == "noted"] == list(noted)
    assert json.loads((Path("out/shop") / "certificate.json").read_text())["notes"][-2:] == list(noted)
    asked = pq.read_table(Path("out/shop") / "answers.parquet")["items"].to_pylist()
    assert sorted(map(tuple, asked)) == list(combinations(range(40), 2))
    code, _, err = world.marquee("verify", "out/shop")
    assert code == 0, err
