"""A series of releases, one a day: charged once, each step drawn once and in order, from rows that do not change."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.mechanisms.continual.continual import Continual
from dpcore.mechanisms.continual.series import Series
from dpcore.strategies.continual import candidates, planning
from dpcore.strategies.continual.strategy import ContinualStrategy
from jobs.ledger import SqlLedger
from jobs.planning.job import load_job
from jobs.release.series import with_earlier_steps
from tests.support.releases import LEDGER, World

DAYS = 4
SCHEMA = {
    "version": 1,
    "attributes": [
        {"name": "city", "type": "categorical", "values": ["a", "b", "c"]},
        {"name": "day", "type": "integer", "edges": [1, 2, 3, 4, 5], "null": False},
    ],
}
CONFIG: dict[str, Any] = {
    "dataset": {
        "name": "visits", "snapshot": "day-1", "path": "data/*.parquet", "shape": "table", "unit": "person",
        "max_rows_per_unit": 2, "schema": "visits.schema.yaml",
    },
    "privacy": {"epsilon": 1.0, "delta": 1e-6, "ledger": LEDGER},
    "workload": {"products": [
        {"attributes": {"city": "each", "day": "prefix"}}, {"attributes": {"city": "each", "day": "each"}},
        {"attributes": {"day": {"width": 2}}},
    ]},
    "mechanism": {"name": "continual", "attribute": "day"},
    "series": {"step": 1},
    "output": {"path": "out/{dataset.snapshot}"},
}  # fmt: skip


def visits(day: int, people: int = 60) -> pa.Table:
    """The rows of a day; many people come on several days, and have more rows than are kept."""
    generator = np.random.default_rng(day)
    city = np.array(["a", "b", "c"], dtype=object)[generator.integers(0, 3, people)]
    return pa.table({"person": generator.integers(0, 50, people), "city": city, "day": np.full(people, day)})


@pytest.fixture
def series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "visits.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    world = World(tmp_path, json.loads(json.dumps(CONFIG)), capsys)
    world.save()
    world.budget(epsilon=1.0)  # For one release, and not for two.
    return world


def arrive(world: World, day: int) -> None:
    pq.write_table(visits(day), world.folder / "data" / f"day-{day}.parquet")


def test_units_of_several_columns_have_series(series: World) -> None:
    series.set("dataset.name", "houses")
    series.set("dataset.unit", ["house", "number"])
    series.budget(epsilon=1.0)
    for step in (1, 2, 3):
        rows = visits(step)
        person = rows["person"].to_numpy()
        rows = rows.drop_columns(["person"]).append_column("house", pa.array([f"h{n // 3}" for n in person]))
        rows = rows.append_column("number", pa.array(person % 3))
        pq.write_table(rows, series.folder / "data" / f"day-{step}.parquet")
        code, _, err = run(series, step)
        assert code == 0, err
    assert certificate(series, 3)["public_facts"]["unit"] == '["house", "number"]'
    code, out, err = series.marquee("verify", "out/day-3", "--ledger", LEDGER)
    assert code == 0, out + err


def of_step(step: int, *more: str) -> tuple[str, ...]:
    settings = (f"series.step={step}", f"dataset.snapshot=day-{step}", *more)
    return tuple(part for setting in settings for part in ("--set", setting))


def run(world: World, step: int, *more: str) -> tuple[int, str, str]:
    return world.marquee("run", "release.yaml", *of_step(step, *more))


def certificate(world: World, step: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((world.folder / f"out/day-{step}/certificate.json").read_text())
    return found


def answers(world: World, step: int) -> dict[str, float]:
    table = pq.read_table(world.folder / f"out/day-{step}/answers.parquet").to_pydict()
    return dict(zip(table["query"], table["answer"], strict=True))


def test_a_series_is_charged_once_and_every_step_says_so(series: World) -> None:
    for step in range(1, DAYS + 1):
        arrive(series, step)
        code, out, _ = series.marquee("plan", "release.yaml", *of_step(step))
        assert code == 0
        assert f"step {step} of 4 of series" in out
        assert ("has paid for all steps of this series" in out) == (step > 1)
        code, out, err = run(series, step)
        assert code == 0, err
        assert run(series, step)[1].startswith("already published")
        for arguments in (("--ledger", LEDGER), ()):
            code, out, err = series.marquee("verify", f"out/day-{step}", *arguments)
            assert code == 0, out + err
    charges = SqlLedger(LEDGER).history("visits")
    assert [bool(charge.amount) for charge in charges] == [True, False, False, False]
    made = [certificate(series, step) for step in range(1, DAYS + 1)]
    first = made[0]["release_id"]
    assert [one["series"]["paid_by"] for one in made] == [None, first, first, first]
    assert [one["series"]["step"] for one in made] == [1, 2, 3, 4]
    assert len({one["series"]["id"] for one in made}) == len({one["series"]["strategy"] for one in made}) == 1
    assert all(one["guarantee"]["reserved_in_the_ledger"] == one["used_by_kernel_calls"] for one in made)
    assert len({one["charges"][0]["noise_scale"] for one in made}) == 1
    code, out, _ = series.marquee("budget", "history", "--ledger", LEDGER, "--dataset", "visits")
    assert code == 0, out
    code, out, err = series.marquee("evaluate", "release.yaml", *of_step(3))
    assert code == 0, err


def test_the_answers_are_those_of_the_matrix_mechanism_on_the_kept_rows(series: World) -> None:
    """Every estimate is what least squares gives for the published values of all steps so far."""
    for step in range(1, DAYS + 1):
        arrive(series, step)
        assert run(series, step)[0] == 0
    job = load_job("release.yaml", [f"series.step={DAYS}", f"dataset.snapshot=day-{DAYS}"])
    mechanism = with_earlier_steps(job, SqlLedger(LEDGER))
    assert isinstance(mechanism, Continual)
    assert len(mechanism.earlier) == DAYS - 1
    terms = PrivacyTerms(job.unit, job.budget)
    planned = Series.of(terms, job.stand_in, "day", "best")
    matrix = planned.plan.strategy.matrix / planned.plan.strategy.denominator
    measured = np.stack([part.values for part in mechanism.earlier], axis=1)
    estimates = np.linalg.solve(matrix[: DAYS - 1, : DAYS - 1], measured.T).T
    for step in range(1, DAYS):
        found = answers(series, step)
        for city, name in enumerate("abc"):
            daily = [value for query, value in found.items() if f"city={name}" in query and "day=" in query]
            assert any(np.isclose(value, estimates[city, step - 1], atol=1e-6) for value in daily), (found, estimates)


def test_a_step_out_of_order_is_refused_and_not_charged(series: World) -> None:
    for day in (1, 2, 3):
        arrive(series, day)
    code, _, err = run(series, 2)
    assert (code, "want series.step 1 first" in err) == (2, True)
    assert run(series, 1)[0] == 0
    code, _, err = run(series, 3)
    assert (code, "does not follow step 1; want series.step 2 next" in err) == (2, True)
    code, _, err = run(series, 5)
    assert (code, "step 5 of a series of 4 steps; want 1 to 4" in err) == (2, True)
    assert series.charges() == 1


def test_a_second_draw_of_a_step_is_refused(series: World) -> None:
    arrive(series, 1)
    assert run(series, 1)[0] == 0
    code, _, err = run(series, 1, "dataset.snapshot=again")
    assert (code, "a second draw of a step would reveal more than was charged" in err) == (7, True)
    arrive(series, 2)
    assert run(series, 2)[0] == 0
    code, _, err = run(series, 2, "dataset.snapshot=again")
    assert (code, "a second draw" in err) == (7, True)
    assert series.charges() == 2


@pytest.mark.parametrize("change", ["late", "gone", "moved"])
def test_rows_of_earlier_steps_that_change_stop_the_series_before_it_draws(series: World, change: str) -> None:
    arrive(series, 1)
    assert run(series, 1)[0] == 0
    arrive(series, 2)
    first = visits(1)
    if change == "late":
        late = pa.table({"person": [1000], "city": pa.array(["a"]), "day": [1]})
        pq.write_table(late, series.folder / "data" / "late.parquet")
    elif change == "gone":
        pq.write_table(first.slice(5), series.folder / "data" / "day-1.parquet")
    else:
        moved = ["b" if city == "a" else city for city in first["city"].to_pylist()]  # No choice of rows hides this.
        pq.write_table(first.set_column(1, "city", pa.array(moved)), series.folder / "data" / "day-1.parquet")
    code, _, err = run(series, 2)
    assert (code, "reads other rows of earlier steps" in err) == (7, True)
    assert not (series.folder / "out/day-2").exists()


def test_later_rows_of_a_unit_never_displace_its_earlier_ones(series: World) -> None:
    """Adversarial: every unit comes every day, far more often than its rows are kept."""
    for day in range(1, DAYS + 1):
        rows = pa.table(
            {"person": np.repeat(np.arange(40), 3), "city": pa.array(list("abc") * 40), "day": np.full(120, day)}
        )
        pq.write_table(rows, series.folder / "data" / f"day-{day}.parquet")
        code, _, err = run(series, day)
        assert code == 0, err  # The history of earlier days is the same, although later rows have arrived.


def test_days_that_are_there_already_change_nothing(series: World) -> None:
    """The counts that a step has read are those of the rows up to it, whether or not later rows exist."""
    for day in range(1, DAYS + 1):
        arrive(series, day)
    for day in range(1, DAYS + 1):
        code, _, err = run(series, day)
        assert code == 0, err


def test_a_step_whose_run_died_before_its_draw_goes_on(series: World, monkeypatch: pytest.MonkeyPatch) -> None:
    arrive(series, 1)
    assert run(series, 1)[0] == 0
    arrive(series, 2)

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dpcore.kernel.private_statistics.add_noise", fail)
        assert run(series, 2)[0] != 0
    assert [bool(charge.amount) for charge in SqlLedger(LEDGER).history("visits")] == [True, False]
    arrive(series, 3)
    code, _, err = run(series, 3)
    assert (code, "needs the answers of step 2, whose run has not finished" in err) == (2, True)
    (series.folder / "data/day-3.parquet").unlink()
    code, _, err = run(series, 2)
    assert code == 0, err


def test_the_journal_of_an_earlier_step_is_needed(series: World) -> None:
    arrive(series, 1)
    assert run(series, 1)[0] == 0
    job = load_job("release.yaml", ["dataset.snapshot=day-1"])
    record = SqlLedger(LEDGER).release(job.release_id)
    assert record is not None
    (Path(record.state_folder) / "journal.jsonl").unlink()
    arrive(series, 2)
    code, _, err = run(series, 2)
    assert (code, "lacks answers that were already used" in err) == (7, True)
    assert series.charges() == 1


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM series_steps WHERE step = 2", "no later step of a series was charged nothing"),
        ("DELETE FROM series_steps WHERE step = 1", "a series lacks a step"),
        ("DELETE FROM series_steps", "a series has no steps"),
    ],
)
def test_a_ledger_whose_series_was_changed_by_hand_is_refused(series: World, statement: str, problem: str) -> None:
    for day in (1, 2):
        arrive(series, day)
        assert run(series, day)[0] == 0
    with closing(sqlite3.connect(series.folder / "marquee.db")) as database:
        database.execute("DROP TRIGGER series_steps_refuse_DELETE")
        database.execute(statement)
        database.commit()
    code, out, err = series.marquee("budget", "history", "--ledger", LEDGER, "--dataset", "visits")
    assert (code, problem in out + err) == (7, True), out + err


def test_another_budget_or_workload_is_another_series(series: World) -> None:
    arrive(series, 1)
    assert run(series, 1)[0] == 0
    code, _, err = run(series, 2, "privacy.epsilon=0.5")
    assert (code, "would be its first in the ledger" in err) == (2, True)
    code, _, err = run(series, 1, "mechanism.strategy=tree", "dataset.snapshot=tree")
    assert code == 4, err  # A new series, for which nothing of the budget remains.


def test_a_machine_that_plans_another_strategy_goes_on_with_the_recorded_one(
    series: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other libraries round otherwise: the strategy of the first step stays that of all steps."""
    arrive(series, 1)
    assert run(series, 1)[0] == 0
    arrive(series, 2)
    before = load_job("release.yaml", ["series.step=2"]).series
    planned = candidates.best

    def rounded_otherwise(gram: np.ndarray) -> tuple[ContinualStrategy, float]:
        strategy, bound = planned(gram)
        matrix = strategy.matrix.copy()
        matrix[np.diag_indices(len(matrix))] += 1
        return ContinualStrategy(matrix, strategy.denominator, strategy.step_of_row), bound

    monkeypatch.setattr(candidates, "best", rounded_otherwise)
    planning._planned.cache_clear()
    after = load_job("release.yaml", ["series.step=2"]).series
    assert before is not None
    assert after is not None
    assert before.strategy != after.strategy
    code, _, err = run(series, 2)
    planning._planned.cache_clear()
    assert code == 0, err
    made = [certificate(series, step) for step in (1, 2)]
    assert made[0]["series"]["strategy"] == made[1]["series"]["strategy"] == before.strategy
    code, out, _ = series.marquee("verify", "out/day-2", "--ledger", LEDGER)
    assert code == 0, out


def test_the_charge_is_that_of_one_release(series: World) -> None:
    arrive(series, 1)
    assert run(series, 1)[0] == 0
    job = load_job("release.yaml", ["dataset.snapshot=day-1"])
    (charge,) = SqlLedger(LEDGER).history("visits")
    assert charge.amount == job.budget.amount > Fraction(0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["mechanism={name: hdmm}"], "series needs mechanism: continual, not hdmm"),
        (["dataset.clustered_by_unit=true"], "series excludes dataset.clustered_by_unit"),
        (["series.step=0"], "series.step"),
        (["mechanism.attribute=hour"], "'hour'"),
    ],
)
def test_a_config_that_is_no_series_is_refused(series: World, settings: list[str], message: str) -> None:
    arrive(series, 1)
    code, _, err = run(series, 1, *settings)
    assert (code, message in err) == (2, True), err
    assert series.charges() == 0


def test_a_step_that_was_refused_goes_on_with_the_right_rows(series: World) -> None:
    """Nothing was drawn, so that the step is not bound to the files that were refused."""
    arrive(series, 1)
    assert run(series, 1)[0] == 0
    arrive(series, 2)
    late = series.folder / "data" / "late.parquet"
    names = visits(1).schema.names
    person = pa.array([10**6], visits(1).schema.field("person").type)  # Of whom no other row takes the place.
    row = visits(1).slice(0, 1).set_column(names.index("person"), "person", person)
    pq.write_table(row, late)
    code, _, err = run(series, 2)
    assert code == 7
    assert "other rows of earlier steps" in err
    pq.write_table(row.set_column(names.index("day"), "day", pa.array([2], row.schema.field("day").type)), late)
    code, _, err = run(series, 2)
    assert code == 0, err
    assert len(SqlLedger(LEDGER).history("visits")) == 2
