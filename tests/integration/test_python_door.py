"""Releases from Python: what they share with the command line, and what a published release gives."""

from __future__ import annotations

import gc
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml

import marquee
from jobs.planning.job import load_job
from tests.support.checks import ROOT
from tests.support.object_stores import s3
from tests.support.recorded_randomness import recorded
from tests.support.releases import LEDGER, SCHEMA, World, baskets_world, table_world

WORKLOAD = {"marginals": {"up_to_order": 2, "attributes": ["sex", "work", "age"]}}
HELLO_WORLD = """\
from pathlib import Path
import marquee
from pipelines.generate.table import write_table
write_table("people", rows=20_000, files=2, seed=1)
marquee.Ledger("marquee.db").create("people", epsilon=4, delta=1e-6)
release = marquee.release("people", schema="people.schema.yaml", unit="person_id", epsilon=1.0, delta=1e-6,
                          workload={"marginals": {"order": 2, "attributes": ["sex", "region", "owns_home"]}})
print(release.table("sex", "owns_home"))
release.plot("sex", "region").figure.savefig("chart.png")
"""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    world.budget(epsilon=9.0)
    return world


def people(**arguments: Any) -> marquee.Release:
    """The release of the files."""
    defaults = {"schema": "people.schema.yaml", "name": "people", "mechanism": "gaussian_pgm", "progress": False}
    chosen = {"unit": "person", "epsilon": 1.0, "delta": 1e-6, "workload": WORKLOAD, **defaults, **arguments}
    return marquee.release(chosen.pop("data", "data"), **chosen)


def test_ten_lines_from_a_clean_folder(tmp_path: Path) -> None:
    assert len(HELLO_WORLD.splitlines()) <= 10
    printed = subprocess.run(
        [sys.executable, "-c", HELLO_WORLD], cwd=tmp_path, check=True, capture_output=True, text=True,
        env={"PYTHONPATH": str(ROOT), "MPLBACKEND": "agg", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert "owns_home=true" in printed.stdout
    assert (tmp_path / "chart.png").stat().st_size > 1000
    assert len(list((tmp_path / "marquee-releases" / "people").glob("1-*/answers.parquet"))) == 1


def test_python_and_the_command_line_make_one_release(world: World) -> None:
    release = people(mechanism={"name": "mwem", "rounds": 3}, workload={"marginals": {"order": 2}}, snapshot="2026-11")
    assert (release.id, release.already) == (load_job("release.yaml").release_id, False)
    code, out, _ = world.run()
    assert (code, out.startswith("already published: ")) == (0, True)
    assert f"release {release.id}" in out
    assert world.charges() == 1
    assert people(
        mechanism={"name": "mwem", "rounds": 3}, workload={"marginals": {"order": 2}}, snapshot="2026-11"
    ).already


def test_the_command_line_and_python_make_one_release(world: World) -> None:
    assert world.run()[0] == 0
    before = world.files("out")
    release = people(
        mechanism={"name": "mwem", "rounds": 3}, workload={"marginals": {"order": 2}}, snapshot="2026-11",
        schema=SCHEMA, data="data/*.parquet", output="elsewhere",
    )  # fmt: skip
    assert (release.already, release.folder) == (True, world.folder / "out/people")
    assert world.files("out") == before
    assert world.charges() == 1


def test_the_draws_of_the_command_line_give_its_bytes_and_its_journal(world: World) -> None:
    def written() -> dict[str, bytes]:
        folders = (f"out/people/{name}" for name in ("answers.parquet", "model.npz", "synthetic/part-00000.parquet"))
        kept = {*folders, f"out/.marquee/{world.job().release_id}/journal.jsonl"}
        return {name: content for name, content in world.files("out").items() if name in kept}

    world.set("mechanism", {"name": "mst"})
    with recorded("draws"):
        assert world.run()[0] == 0
    of_command_line = written()
    assert len(of_command_line) == 4
    shutil.rmtree("out")
    Path("marquee.db").unlink()
    world.budget()
    with recorded("draws"):
        release = people(mechanism="mst", workload={"marginals": {"order": 2}}, snapshot="2026-11", output="out/people")
    assert not release.already
    assert written() == of_command_line


def test_the_recommended_mechanism_of_yaml_is_that_of_python(world: World) -> None:
    release = people(mechanism="recommended")
    world.config["workload"] = WORKLOAD
    world.config["dataset"]["snapshot"] = "1"
    world.set("mechanism", {"name": "recommended"})
    assert world.run()[1].startswith("already published")
    world.set("mechanism", {"name": release.mechanism, "model": "graphical"})
    assert world.job().release_id == release.id


def test_a_config_runs_from_python(world: World) -> None:
    plan = marquee.plan_from_config("release.yaml", ["privacy.epsilon=0.5"])
    release = marquee.from_config("release.yaml", ["privacy.epsilon=0.5"], progress=False)
    assert (release.id, release.already) == (plan.release_id, False)
    assert marquee.from_config("release.yaml", ["privacy.epsilon=0.5"], progress=False).already


def test_a_plan_says_what_the_command_line_says(world: World) -> None:
    plan = marquee.plan(
        "data", name="people", snapshot="2026-11", unit="person", schema=SCHEMA, epsilon=1.0, delta=1e-6,
        workload={"marginals": {"order": 2}}, mechanism={"name": "mwem", "rounds": 3},
    )  # fmt: skip
    assert str(plan) == world.marquee("plan", "release.yaml")[1].rstrip("\n")
    assert plan.facts["release_id"] == plan.release_id == load_job("release.yaml").release_id
    assert plan.answers == plan.facts["answers"]
    assert plan.recommended in plan._repr_html_()
    assert world.charges() == 0


def test_a_missing_budget_is_created_by_the_call_that_the_error_names(world: World) -> None:
    with pytest.raises(marquee.NoBudgetError, match="dataset 'adults' has no budget in sqlite:") as refused:
        people(name="adults", ledger=LEDGER)
    call = str(refused.value).partition("create one with: ")[2]
    assert call == f"marquee.Ledger('sqlite:///{world.folder}/marquee.db').create('adults', epsilon=1, delta=1e-06)"
    eval(call, {"marquee": marquee})
    people()
    with pytest.raises(marquee.ConfigError, match="belongs to dataset 'people'|dataset 'people' in this ledger"):
        people(name="adults")
    with pytest.raises(marquee.NoBudgetError, match=r"there is no ledger at .*nowhere.db.* marquee.Ledger\("):
        people(ledger="nowhere.db")


def test_a_refused_charge_is_the_exception_of_the_command_line(world: World) -> None:
    people()
    with pytest.raises(marquee.BudgetExceededError, match="refused: only"):
        people(epsilon=50.0)
    budget = marquee.Ledger(LEDGER).dataset("people")
    assert len(budget.history) == 1
    assert budget.spent.epsilon == pytest.approx(1.0, rel=1e-6)
    assert budget.remaining.amount == (budget.total.amount or 0) - (budget.spent.amount or 0)


def test_answers_have_a_column_for_each_attribute(world: World) -> None:
    release = people()
    answers = release.answers()
    assert answers.equals(pq.read_table(Path(str(release.folder)) / "answers.parquet"))
    row = next(row for row in answers.to_pylist() if row["query"] == "sex=female & work=private")
    assert (row["sex"], row["work"], row["age"]) == ("female", "private", None)
    assert release.answers("pandas").equals(answers.to_pandas())
    assert release.answers("polars").equals(pl.from_arrow(answers))
    with pytest.raises(marquee.ConfigError, match="as_ is 'csv'; want one of arrow, pandas, polars"):
        release.answers("csv")  # type: ignore[arg-type]


def test_a_table_holds_the_published_answers_in_any_order(world: World) -> None:
    release = people()
    rows = {row["query"]: row for row in release.answers().to_pylist()}
    table = release.table("work", "sex")
    frame, upper = table.to_pandas(), table.to_pandas("upper")
    assert frame.loc["public", "male"] == rows["sex=male & work=public"]["answer"]
    assert upper.loc["public", "male"] == rows["sex=male & work=public"]["upper"]
    assert frame.loc["__other__", "(all)"] == rows["work=__other__"]["answer"]
    assert frame.loc["(all)", "(all)"] == rows["all"]["answer"]
    single = release.table("work").to_pandas()
    assert single.loc["public"].tolist()[2:] == [rows["work=public"]["lower"], rows["work=public"]["upper"]]
    assert release.table("age", "work", "sex").to_pandas().loc[("[18, 40)", "none"), "male"] == pytest.approx(
        release.interval("work=none & sex=male & age=[18, 40)").answer
    )
    with pytest.raises(marquee.ConfigError, match=r"no query of the release names 'home'.* \['sex', 'work', 'age'\]"):
        release.table("home")
    with pytest.raises(marquee.ConfigError, match="no attribute 'wrok'; did you mean 'work'?"):
        release.table("wrok")
    with pytest.raises(marquee.ConfigError, match="values is 'mean'; want one of answer, stddev, lower, upper"):
        table.to_pandas("mean")


def test_a_table_is_shown_and_written(world: World) -> None:
    table = people().table("work", "sex")
    assert str(table) == world.marquee("table", str(people().folder), "work", "sex")[1].rstrip("\n")
    assert "<td>" in table._repr_html_()
    arrow = table.to_arrow()
    assert (len(arrow), arrow.column_names) == (6 * 3, ["work", "sex", "answer", "stddev", "lower", "upper"])
    assert table.to_csv("table.csv") == Path("table.csv").read_text()
    assert len(Path("table.csv").read_text().splitlines()) == 1 + len(arrow)


def test_the_interval_of_any_query(world: World) -> None:
    release = people()
    rows = {row["query"]: row for row in release.answers().to_pylist()}
    for query, stored in (("work=private & sex=male", "sex=male & work=private"), ("sex!=male", "sex=female"),
                          ("all", "all")):  # fmt: skip
        interval = release.interval(query)
        assert (interval.answer, interval.lower, interval.upper) == tuple(
            rows[stored][name] for name in ("answer", "lower", "upper")
        )
        assert interval.known
    modelled = release.interval("sex=male & work=private & age=[18, 40)")
    assert not modelled.known
    assert "no interval, because it is an answer of the model" in str(modelled)
    summed = release.interval("work!=private & sex=male")
    assert not summed.known
    assert "it is a sum of published answers" in str(summed)
    assert summed.answer == pytest.approx(rows["sex=male"]["answer"] - rows["sex=male & work=private"]["answer"])
    for query, problem in (("sex=mael", "did you mean 'male'"), ("nothing", "is not a literal"),
                           ("home=true", "no query of the release names 'home'")):  # fmt: skip
        with pytest.raises(marquee.ConfigError, match=problem):
            release.interval(query)


def test_rows_are_drawn_under_a_condition_and_cost_nothing(world: World) -> None:
    release = people()
    rows = release.sample(200, {"sex": "female", "age": ["[18, 40)", 50]})
    assert (len(rows), set(rows["sex"].to_pylist())) == (200, {"female"})
    assert set(rows["age"].to_pylist()) == {29, 52}  # The middles of [18, 40) and [40, 65).
    assert rows.equals(release.sample(200, {"sex": "female", "age": ["[18, 40)", 50]}))
    assert not rows.equals(release.sample(200, {"sex": "female", "age": ["[18, 40)", 50]}, seed=1))
    share = pc.mean(pc.equal(release.sample(20_000)["sex"], "female")).as_py()
    wanted = release.interval("sex=female").answer / release.interval("all").answer
    assert share == pytest.approx(wanted, abs=0.02)
    assert world.charges() == 1
    for where, problem in (({"sxe": 1}, "unknown attribute 'sxe'"), ({"sex": "x"}, "where has 'x' for attribute 'sex'"),
                           ({"home": True}, "no query of the release names 'home'")):  # fmt: skip
        with pytest.raises(marquee.ConfigError, match=problem):
            release.sample(5, where)


def test_rows_of_another_model_are_chosen_among_those_published(world: World) -> None:
    """The seed of the records follows from the version: of a few records, all may be of one sex."""
    release = people(mechanism={"name": "fem", "rounds": 2, "records": 30}, workload={"marginals": {"order": 2}},
                     synthetic_rows=60)  # fmt: skip
    published = pq.read_table(Path(str(release.folder)) / "synthetic").to_pylist()
    women = [row for row in published if row["sex"] == "female"]
    assert 0 < len(women) < 60
    chosen = release.sample(len(women), {"sex": "female"}).to_pylist()
    assert sorted(map(str, chosen)) == sorted(map(str, women))
    with pytest.raises(marquee.ConfigError, match=r"synthetic rows of the release satisfy the condition; want at most"):
        release.sample(len(women) + 1, {"sex": "female"})


def test_a_release_without_a_model_says_so(world: World) -> None:
    release = people(mechanism="gaussian", workload=[("sex", "work")])
    assert np.isnan(release.table("sex", "work").to_pandas("upper").loc["(all)", "(all)"])
    assert release.interval("sex=male & work=public").known
    with pytest.raises(marquee.ConfigError, match="mechanism gaussian gives no synthetic rows"):
        release.sample(5)
    with pytest.raises(marquee.ConfigError, match="no query of the release names 'age'"):
        release.interval("age=[18, 40)")


def test_charts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    release = people()
    bars = release.plot("work")
    assert [round(bar.get_height(), 6) for bar in bars.patches] == [
        round(value, 6) for value in release.table("work").to_pandas()["answer"][:-1]
    ]
    heat = release.plot("sex", "work")
    assert heat.images[0].get_array().shape == (2, 5)
    with pytest.raises(marquee.ConfigError, match="a chart has 3 attributes"):
        release.plot("sex", "work", "age")


def test_a_release_is_opened_and_verified(world: World) -> None:
    made = people()
    release = marquee.open(made.folder, ledger=LEDGER)
    assert release.certificate["release_id"] == release.id == made.id
    assert release.verify().failures == ()
    assert str(release).splitlines()[0] == f"release    {made.id}"
    assert made.id in release._repr_html_()
    path = Path(str(made.folder)) / "answers.parquet"
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(marquee.IntegrityError, match="is not the release that was published"):
        release.verify()
    with pytest.raises(marquee.ConfigError, match=r"is not a complete release: it has no _SUCCESS"):
        marquee.open(world.folder)


def test_a_release_in_a_store_is_read_from_a_copy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (world.folder / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(world.folder / "temporary"))
    with s3() as store:
        release = people(output=store.url("people"))
        assert str(release.folder) == "s3://bucket/people"
        opened = marquee.open(store.url("people"), ledger=LEDGER)
        assert opened.answers().equals(release.answers())
        assert opened.sample(5).equals(release.sample(5))
        assert opened.verify().failures == ()
        with pytest.raises(marquee.ConfigError, match="s3://bucket/nothing holds no objects"):
            marquee.open(store.url("nothing"))
    assert len(list((world.folder / "temporary").iterdir())) == 2
    del release, opened
    gc.collect()
    assert list((world.folder / "temporary").iterdir()) == []


def test_a_csv_file_gives_the_answers_of_its_rows(world: World) -> None:
    rows = pq.read_table("data")
    pyarrow.csv.write_csv(rows, "people.csv", pyarrow.csv.WriteOptions(delimiter=";"))
    marquee.Ledger(LEDGER).create("listed", 900.0, 0.0)
    release = people(data="people.csv", name="listed", csv={"delimiter": ";"}, epsilon=100.0, delta=0.0,
                     mechanism="laplace", workload=[("sex",)])  # fmt: skip
    women = sum(sex == "female" for sex in rows["sex"].to_pylist())
    assert abs(release.interval("sex=female").answer - women) < 5


def test_a_progress_function_is_told_of_the_mechanism(world: World) -> None:
    from collections.abc import Iterator
    from contextlib import contextmanager

    shown: list[str] = []

    @contextmanager
    def progress(label: str) -> Iterator[Any]:
        shown.append(label)
        yield lambda done, total: None

    people(progress=progress)
    assert shown == ["gaussian_pgm", "synthetic rows"]


def test_baskets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    world = baskets_world(tmp_path, capsys)
    world.budget(epsilon=50.0)
    release = marquee.release(
        "data", name="shop", snapshot="2026-11", shape="baskets", unit="user", item="item", items=40,
        max_items_per_unit=10, epsilon=20.0, delta=1e-6, mechanism="gaussian", workload=world.config["workload"],
        progress=False,
    )  # fmt: skip
    assert world.run()[1].startswith("already published")
    assert yaml.safe_load((tmp_path / "release.yaml").read_text())["dataset"]["shape"] == "baskets"
    row = release.answers().to_pylist()[0]
    assert release.interval(row["query"]).answer == row["answer"]
    with pytest.raises(marquee.ConfigError, match="is a release of baskets, which have no attributes"):
        release.table("item")
    with pytest.raises(marquee.ConfigError, match="is about baskets and does not answer"):
        release.interval("nothing")
