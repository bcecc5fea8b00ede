"""The option --time-budget: minutes become a setting, which is part of the release id and of the certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from dpcore.errors import ConfigError
from dpcore.estimation.graphical.fitting.work import SECONDS_PER_UNIT
from jobs.mechanisms import settings_of
from jobs.outputs.plan_report import LedgerFacts, plan_facts, plan_lines
from jobs.planning.job import Job, load_job
from jobs.planning.time_budget import with_time_budget
from tests.support.releases import SCHEMA, TABLE

NO_LEDGER = LedgerFacts("sqlite:///marquee.db", None, "refused now: there is no ledger")


def job(folder: Path, minutes: float | None, name: str = "aim", *settings: str, **sections: Any) -> Job:
    (folder / "people.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    config = folder / "release.yaml"
    config.write_text(yaml.safe_dump(TABLE | {"mechanism": {"name": name}} | sections))
    return load_job(config, with_time_budget(settings, minutes))


def test_minutes_become_units_of_work() -> None:
    assert with_time_budget(["privacy.epsilon=1"], None) == ["privacy.epsilon=1"]
    assert with_time_budget(["privacy.epsilon=1"], 10.0) == [
        "privacy.epsilon=1",
        f"mechanism.max_work={round(600 / SECONDS_PER_UNIT, 1)}",
    ]
    assert with_time_budget([], 1e-9) == ["mechanism.max_work=0.1"]


@pytest.mark.parametrize("minutes", [0.0, -1.0, float("nan"), float("inf")])
def test_a_budget_of_no_time_is_refused(minutes: float) -> None:
    with pytest.raises(ConfigError, match=r"--time-budget is .*; want a number of minutes > 0"):
        with_time_budget([], minutes)


def test_two_limits_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"--time-budget sets mechanism.max_work, which --set sets as well"):
        with_time_budget(["mechanism.max_work = 3"], 1.0)


def test_it_changes_the_release_id_and_the_settings_in_the_certificate(tmp_path: Path) -> None:
    usual, short = job(tmp_path, None), job(tmp_path, 0.5)
    assert usual.release_id != short.release_id
    assert settings_of(short.mechanism)["max_work"] == pytest.approx(30 / SECONDS_PER_UNIT)
    assert short.release_id == job(tmp_path, None, "aim", f"mechanism.max_work={30 / SECONDS_PER_UNIT}").release_id


def test_the_recommended_mechanism_takes_it(tmp_path: Path) -> None:
    recommended = job(tmp_path, 0.5, "recommended")
    assert settings_of(recommended.mechanism)["max_work"] == pytest.approx(30 / SECONDS_PER_UNIT)
    with pytest.raises(ConfigError, match="recommended has no settings but max_work; want no max_model_mb"):
        job(tmp_path, 0.5, "recommended", "mechanism.max_model_mb=3")


def test_a_recommended_mechanism_without_fits_ignores_it(tmp_path: Path) -> None:
    few = {"conjunctions": {"count": 30, "order": 2, "negations": "none"}}
    made = job(tmp_path, 0.5, "recommended", workload=few)
    assert "max_work" not in settings_of(made.mechanism)


def test_a_mechanism_without_fits_refuses_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="laplace has no max_work, which --time-budget sets; want it with .*aim"):
        job(tmp_path, 0.5, "laplace", "privacy.delta=0")


def test_the_plan_says_the_predicted_time(tmp_path: Path) -> None:
    made = job(tmp_path, 0.5)
    (line,) = [line for line in plan_lines(made, NO_LEDGER) if line.startswith("time ")]
    assert line.endswith(
        "of CPU time on the driver, predicted within a factor of 2 in most cases, without reading the data"
    )
    facts = plan_facts(made, NO_LEDGER)
    assert facts["seconds_predicted"] == made.work.predicted
    assert made.work.predicted is not None
    assert made.work.predicted > 0
    assert "cpu_seconds" not in facts, "seconds of the whole run are shown instead"
