"""Exact figures carry their mark; an evaluation compares with the truncated data and with the whole data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.evaluation import exact_answers
from jobs.planning.job import load_job
from jobs.release.evaluation import Comparison, comparison_json, evaluate
from jobs.release.run import build_workload, open_statistics
from pipelines.engines.local import LocalEngine
from pipelines.inspect import inspect_source
from pipelines.source import SALT_BYTES, open_source
from tests.support.releases import World, baskets_world, people, table_world
from tests.support.small_release import COLOURS, write_release

RULE = "for the operator only; never publish it, and keep it out of shared logs"
PEOPLE = sum(COLOURS.values())


@pytest.fixture
def paint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> World:
    """A published release of two equal rows a person, of which the bound keeps one; its noise is 0."""
    write_release(tmp_path, clustered=False)
    world = World(tmp_path, {}, capsys)
    assert world.marquee("run", str(tmp_path / "paint.yaml"))[0] == 0
    return world


def compared(world: World, config: str = "release.yaml") -> dict[str, Any]:
    code, out, _ = world.marquee("evaluate", str(world.folder / config), "--json")
    assert code == 0
    found: dict[str, Any] = json.loads(out)
    return found


def test_exact_errors_carry_the_mark_inside_and_on_stderr(paint: World) -> None:
    config = str(paint.folder / "paint.yaml")
    for options in ([], ["--json"], ["--json", "--log-format=json"]):
        code, out, err = paint.marquee("evaluate", config, *options)
        assert code == 0
        said = "SENSITIVE: stdout contains exact errors of a release of dataset 'paint', " + RULE
        assert err.count("\n") == 1
        assert (json.loads(err)["event"] == said) if len(options) == 2 else said in err
        if options:
            assert next(iter(json.loads(out).items())) == (
                "sensitive",
                f"SENSITIVE: exact errors of a release of dataset 'paint', {RULE}",
            )
        else:
            assert out.startswith(f"SENSITIVE: exact errors of a release of dataset 'paint', {RULE} (5 queries)\n")


def test_exact_counts_carry_it_too(paint: World) -> None:
    code, out, err = paint.marquee("validate", str(paint.folder / "paint.yaml"))
    assert code == 0
    assert out.startswith(f"SENSITIVE: exact counts of dataset 'paint', {RULE}\nrows ")
    assert f"SENSITIVE: stdout contains exact counts of dataset 'paint', {RULE}\n" in err
    assert err.count("\n") == 1


def test_what_python_gets_shows_its_mark(paint: World) -> None:
    job = load_job(paint.folder / "paint.yaml")
    comparison = evaluate(job)
    assert repr(comparison).startswith('Comparison(sensitive="SENSITIVE: exact errors')
    findings = inspect_source(open_source(job.config.dataset.path, job.layout, bytes(SALT_BYTES)))
    assert repr(findings).startswith("Findings(sensitive='SENSITIVE: exact counts, for the operator only', rows=")


def test_a_truncated_truth_is_named_and_the_whole_one_stands_beside_it(paint: World) -> None:
    found = compared(paint, "paint.yaml")
    assert found["truth"] == (
        f"the release measures truncated data: max_rows_per_unit 1 keeps {PEOPLE:,} of {2 * PEOPLE:,} rows"
    )
    assert found["truncation"] == {"setting": "max_rows_per_unit", "bound": 1, "kept": PEOPLE, "all": 2 * PEOPLE}
    assert found["rows"]["release"]["max"] == 0
    assert found["rows"]["zeros"]["max"] == max(COLOURS.values()) / PEOPLE
    # Of each colour the release has counted half of the rows.
    assert found["whole"]["rows"]["release"]["max"] == max(COLOURS.values()) / (2 * PEOPLE)
    assert found["whole"]["rows"]["zeros"]["max"] == max(COLOURS.values()) / PEOPLE
    assert found["whole"]["error"]["mean"] == pytest.approx(0.5)
    assert list(found["whole"]["rows"]) == list(found["rows"])
    code, out, _ = paint.marquee("evaluate", str(paint.folder / "paint.yaml"))
    lines = out.splitlines()
    assert (code, lines[1]) == (0, found["truth"])
    assert lines[2] == "against the truncated data, which the release measures:"
    second = lines.index("against the whole data:")
    assert [line.split()[0] for line in lines[4:second]] == [line.split()[0] for line in lines[second + 2 :]]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    """A published release of baskets of up to six items, of which the bound keeps three."""
    monkeypatch.chdir(tmp_path)
    world = baskets_world(tmp_path, capsys)
    world.set("dataset.max_items_per_unit", 3)
    world.budget(epsilon=20.0)
    assert world.run()[0] == 0
    return world


def test_pairs_of_baskets_are_counted_before_and_after_truncation(shop: World) -> None:
    found = compared(shop)
    frame = pq.read_table(shop.folder / "data").to_pandas().drop_duplicates()
    held = [set(items) for _, items in frame.groupby("user")["item"]]
    kept = sum(min(3, len(items)) for items in held)
    assert found["truncation"] == {
        "setting": "max_items_per_unit", "bound": 3, "kept": kept, "all": len(frame)
    }  # fmt: skip
    assert kept < len(frame)
    answers = pq.read_table(shop.folder / "out/shop/answers.parquet").to_pandas()
    whole = [sum({int(item) for item in text.split(" & ")} <= one for one in held) for text in answers["query"]]
    assert found["whole"]["rows"]["zeros"]["max"] == pytest.approx(max(whole) / 200)
    assert found["whole"]["rows"]["release"]["max"] == pytest.approx(np.abs(answers.answer - whole).max() / 200)
    job = shop.job()
    statistics = open_statistics(job)
    exact = exact_answers(statistics, build_workload(job, np.ones(40)).queries)
    assert exact.max() <= 200
    assert found["rows"]["zeros"]["max"] < found["whole"]["rows"]["zeros"]["max"]


def test_every_engine_gives_both(paint: World) -> None:
    job = load_job(paint.folder / "paint.yaml")
    texts = {comparison_json(evaluate(job, LocalEngine(threads, rows))) for threads, rows in ((1, 10**9), (2, 700))}
    assert len(texts) == 1


@pytest.fixture
def census(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    world.budget()
    return world


def test_nothing_stands_beside_a_truth_that_is_whole(census: World) -> None:
    assert census.run()[0] == 0
    found = compared(census)
    assert found["truth"] == "the contribution bound drops nothing, so the release measures the whole data"
    assert (found["truncation"], found["whole"]) == (None, None)


def test_synthetic_rows_are_scaled_to_either_number_of_rows(census: World) -> None:
    more = pa.concat_tables([people(0, 100, np.random.default_rng(9))] * 3)
    pq.write_table(more, census.folder / "data" / "part-3.parquet")
    assert census.run()[0] == 0
    comparison: Comparison = evaluate(census.job())
    assert comparison.truncation is not None
    assert (comparison.truncation.kept, comparison.truncation.all) == (300, 600)
    assert comparison.whole is not None
    assert comparison.whole.rows["synthetic"].mean < comparison.whole.rows["zeros"].mean
    assert comparison.truncated.rows["synthetic"] != comparison.whole.rows["synthetic"]
