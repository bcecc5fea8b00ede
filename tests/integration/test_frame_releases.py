"""Releases of frames that a program gives: what they equal, what the ledger binds, what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.errors import ConfigError, InputError, IntegrityError
from jobs import sensitive
from jobs.ledger import SqlLedger
from jobs.ledger.records import State
from jobs.release.evaluation import evaluate
from jobs.release.run import release
from tests.support.releases import LEDGER, World, table_world


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    """A config of a frame, so precise that noise is a count or two at most."""
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    del world.config["dataset"]["path"]
    world.config["mechanism"] = {"name": "laplace"}
    world.config["privacy"] |= {"epsilon": 100.0, "delta": 0.0}
    world.set("dataset.frame", "people of the shop")
    world.budget(epsilon=1000.0, delta=0.0)
    return world


def people(world: World) -> pa.Table:
    return pq.read_table(world.folder / "data")


def answers(world: World) -> dict[str, float]:
    rows = pq.read_table(world.folder / "out/people/answers.parquet").to_pylist()
    return {row["query"]: row["answer"] for row in rows}


class Changing:
    """A frame that gives one row more each time it is read, as ``sample`` and ``limit`` may."""

    def __init__(self, rows: pa.Table, start: int) -> None:
        self._rows, self._count = rows, start

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        self._count += 1
        return self._rows.slice(0, self._count).__arrow_c_stream__(requested_schema)


class Once:
    """A frame that gives its rows once (its schema is asked for before), or some times more, and then none."""

    def __init__(self, rows: pa.Table, times: int = 2) -> None:
        self._left: Iterator[pa.Table] = iter([rows] * times)
        self._none = rows.slice(0, 0)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return next(self._left, self._none).__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("kind", [lambda rows: rows, lambda rows: rows.to_pandas()], ids=["pyarrow", "pandas"])
def test_a_release_of_a_frame_has_the_answers_of_its_rows(world: World, kind: Any) -> None:
    frame = kind(people(world).slice(0, 250))
    outcome = release(world.job(), frame=frame)
    assert (outcome.already, world.charges()) == (False, 1)
    women = sum(sex == "female" for sex in people(world).slice(0, 250)["sex"].to_pylist())
    counted = sum(answer for query, answer in answers(world).items() if query.startswith("sex=female & work="))
    assert abs(counted - women) < 10
    certificate = json.loads((outcome.output / "certificate.json").read_text())
    assert certificate["dataset"]["table"] == "frame 'people of the shop' of a program"
    assert world.marquee("verify", "out/people", "--ledger", LEDGER)[0] == 0
    # The same rows, in another order and another kind of frame, are the same release.
    assert release(world.job(), frame=people(world).slice(0, 250).take(list(range(249, -1, -1)))).already
    assert world.charges() == 1
    comparison = evaluate(world.job(), frame=frame)
    assert comparison.truncation is None
    assert comparison.truncated.error["mean"] < 0.1


def test_other_rows_are_another_snapshot(world: World) -> None:
    release(world.job(), frame=people(world))
    with pytest.raises(IntegrityError, match=r"was planned with other rows; want the same rows, or a new label"):
        release(world.job(), frame=people(world).slice(1))
    world.config["output"]["path"] = "out/later"
    world.set("dataset.snapshot", "later")
    assert not release(world.job(), frame=people(world).slice(1)).already
    assert world.charges() == 2


@pytest.mark.parametrize("frame", [lambda rows: Changing(rows, 290), Once], ids=["changing", "once"])
def test_a_frame_that_changes_while_it_is_read_is_refused_before_any_draw(world: World, frame: Any) -> None:
    with pytest.raises(IntegrityError, match="frame 'people of the shop' gave other rows when it was read again"):
        release(world.job(), frame=frame(people(world)))
    assert (world.charges(), (world.folder / "out").exists()) == (0, False)


def test_a_frame_that_changes_after_the_charge_is_refused_before_any_draw(world: World) -> None:
    """The third reading is the first aggregation."""
    with pytest.raises(IntegrityError, match="gave other rows when it was read again, and nothing was drawn from them"):
        release(world.job(), frame=Once(people(world), 3))
    assert (world.charges(), world.state()) == (1, State.RESERVED)
    # The frame that was there is still the one that is released, at no further charge.
    assert not release(world.job(), frame=people(world)).already
    assert world.charges() == 1


def test_the_same_rows_under_another_name_are_recognised(world: World) -> None:
    release(world.job(), frame=people(world))
    SqlLedger(LEDGER).create_dataset("others", 1000.0, 0.0)
    world.config["output"]["path"] = "out/others"
    world.config["dataset"]["frame"] = "people again"
    world.set("dataset.name", "others")
    with pytest.raises(ConfigError, match=r"frame 'people again' .* dataset 'people' in this ledger"):
        release(world.job(), frame=people(world))
    world.set("dataset.frame", "people of the shop")
    with pytest.raises(ConfigError, match="path frame:people of the shop belongs to dataset 'people'"):
        release(world.job(), frame=people(world).slice(100))
    world.set("dataset.frame", "people again")
    assert not release(world.job(), frame=people(world).slice(100)).already  # Not recognised: other rows.


def test_a_frame_name_is_bound_as_a_path_is(world: World) -> None:
    release(world.job(), frame=people(world))
    world.config["output"]["path"] = "out/later"
    world.config["dataset"]["snapshot"] = "later"
    world.set("dataset.frame", "something else")
    with pytest.raises(ConfigError, match="dataset 'people' is bound to frame:people of the shop"):
        release(world.job(), frame=people(world))
    code, _, err = world.marquee(
        "budget", "move", "--dataset", "people", "--path", "frame:something else", "--reason", "renamed"
    )
    assert (code, "which only a program can give" in err) == (2, True), err
    moved = ["budget", "move", "--dataset", "people", "--path", "frame:something else", "--reason", "renamed"]
    assert world.marquee(*moved, "--new-content")[0] == 0
    assert not release(world.job(), frame=people(world)).already


def test_a_column_that_is_missing_is_named(world: World) -> None:
    with pytest.raises(InputError, match="frame 'people of the shop' has no column 'age'"):
        release(world.job(), frame=people(world).drop(["age"]))
    with pytest.raises(ConfigError, match="the frame is a list; want a Spark DataFrame"):
        release(world.job(), frame=[1])
    assert world.charges() == 0


@pytest.mark.parametrize("command", [["run"], ["validate"], ["evaluate"]], ids=lambda command: command[0])
def test_the_command_line_has_no_frame(world: World, command: list[str]) -> None:
    code, _, err = world.marquee(*command, "release.yaml")
    assert (code, "dataset.frame is 'people of the shop', which a program has to give" in err) == (2, True), err


def test_plan_needs_no_frame_and_names_it(world: World) -> None:
    code, out, err = world.marquee("plan", "release.yaml")
    assert (code, "table      frame 'people of the shop' of a program" in out) == (0, True), err


def test_a_frame_and_a_path_are_one_too_many(world: World) -> None:
    del world.config["dataset"]["frame"]
    world.set("dataset.path", "data")
    with pytest.raises(ConfigError, match="a frame is given, and the config names other data"):
        release(world.job(), frame=people(world))


def test_the_operators_log_has_the_rows(world: World) -> None:
    log = world.folder / "sizes.jsonl"
    with sensitive.logged_to(log, "sizes"):
        release(world.job(), frame=people(world).to_pandas())
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (entry,) = [line for line in lines if line.get("event") == "input"]
    assert (entry["rows"], entry["files"], entry["bytes"]) == (300, 0, None)
    assert isinstance(people(world).to_pandas(), pd.DataFrame)
