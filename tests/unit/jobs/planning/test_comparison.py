"""Plans side by side: the figures are those of the plans, and what takes too long is skipped."""

from __future__ import annotations

import copy
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpcore.errors import ConfigError
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.mechanisms import recommendation
from dpcore.mechanisms.api import Plan
from dpcore.mechanisms.hdmm.hdmm import Hdmm
from dpcore.mechanisms.registry import MECHANISMS
from dpcore.workload import Workload
from jobs.config import parse_config
from jobs.mechanisms import settings_of
from jobs.outputs.plan_comparison import error_lines, option_facts, option_rows, reason_rows
from jobs.planning.comparison import FACTORS, ErrorAt, compared, errors_at, recommended_for
from jobs.planning.job import Job, job_of
from jobs.planning.time_limit import OutOfTimeError, within
from tests.support.releases import SCHEMA, TABLE

LONG = 600.0


def job(folder: Path, mechanism: str = "hdmm", **sections: dict[str, Any]) -> Job:
    (folder / "people.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    document = {**copy.deepcopy(TABLE), "mechanism": {"name": mechanism}}
    for name, section in sections.items():
        document[name] = document[name] | section
    return job_of(parse_config(document), folder)


def test_every_figure_is_that_of_the_mechanisms_own_plan(tmp_path: Path) -> None:
    options = {option.name: option for option in compared(job(tmp_path), LONG)}
    assert set(options) == set(MECHANISMS)
    for name in ("gaussian", "hdmm", "aim", "mwem"):
        made, option = job(tmp_path, name), options[name]
        assert (option.reason, option.error) == ("", made.plan.predicted_error)
        assert (option.memory_bytes, option.rounds) == (made.plan.memory_bytes, made.plan.rounds)
        assert (option.seconds, option.currency) == (made.work.seconds, made.budget.currency)
    assert "want privacy.delta: 0, or mechanism: gaussian" in options["laplace"].reason


def test_rows_that_are_wanted_rule_out_what_has_none(tmp_path: Path) -> None:
    made = job(tmp_path, "independent", output={"synthetic_rows": 10})
    options = {option.name: option for option in compared(made, LONG)}
    assert "fits no model" in options["gaussian"].reason
    assert options["independent"].reason == ""


def test_known_errors_come_first_and_reasons_apart(tmp_path: Path) -> None:
    options = list(compared(job(tmp_path), LONG))
    rows = option_rows(options, "hdmm", "aim")
    known = [float(row[1]) for row in rows if row[1] != "-"]
    assert known == sorted(known)
    assert [row[1] == "-" for row in rows] == sorted(row[1] == "-" for row in rows)
    marks = {row[0]: row[-1] for row in rows}
    assert (marks["hdmm"], marks["aim"], marks["mwem"]) == ("in the config", "recommended", "")
    assert {row[0] for row in rows}.isdisjoint(row[0] for row in reason_rows(options))
    assert {fact["name"] for fact in option_facts(options)} == set(MECHANISMS)


def test_a_plan_that_takes_too_long_is_skipped_and_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forever(self: Hdmm, terms: PrivacyTerms, workload: Workload) -> Plan:
        while True:
            try:
                threading.Event().wait(10)
            except Exception:  # noqa: BLE001 - as code that swallows every ordinary error
                continue

    made = job(tmp_path, "gaussian")
    monkeypatch.setattr(Hdmm, "plan", forever)
    options = {option.name: option for option in compared(made, 0.2)}
    assert options["hdmm"].skipped
    assert ["hdmm", "skipped: its plan takes longer than 0.2 seconds"] in reason_rows([options["hdmm"]])
    assert option_facts([options["hdmm"]])[0]["applicable"] is None


def test_a_limit_leaves_results_and_errors_alone() -> None:
    assert within(LONG, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        within(LONG, lambda: 1 // 0)
    with pytest.raises(OutOfTimeError):
        within(0.05, lambda: threading.Event().wait(LONG))


def test_errors_fall_as_epsilon_grows_and_are_those_of_plans(tmp_path: Path) -> None:
    made = job(tmp_path)
    points = list(errors_at(made, LONG))
    assert [point.epsilon for point in points] == list(FACTORS)
    known = [point.error for point in points]
    assert None not in known
    assert known == sorted(known, key=lambda error: -(error or 0))
    assert points[3].error == made.plan.predicted_error
    lines = error_lines(points, "hdmm", "the end")
    assert lines[-1] == "the end"
    bars = [line.count("#") for line in lines[1:-1]]
    assert bars == sorted(bars, reverse=True)
    assert (bars[0], bars[-1]) == (40, 1)


def test_no_epsilon_is_larger_than_a_config_accepts(tmp_path: Path) -> None:
    points = list(errors_at(job(tmp_path, privacy={"epsilon": 50.0}), LONG))
    assert [point.epsilon for point in points] == [6.25, 12.5, 25.0, 50.0, 100.0]


def test_without_a_formula_it_says_so() -> None:
    lines = error_lines([ErrorAt(1.0, None), ErrorAt(2.0, None)], "mst", "the end")
    assert len(lines) == 1
    assert "mechanism mst has no formula for its error" in lines[0]


def test_the_recommended_mechanism_has_the_settings_that_give_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recommendation, "_MAX_MODEL_CELLS", 1)
    made = job(tmp_path, "aim", output={"synthetic_rows": 10})
    assert recommended_for(made).choice == "adaptive_residuals (model: graphical)"
    options = {option.name: option for option in compared(made, LONG)}
    assert (options["adaptive_residuals"].reason, options["adaptive_residuals"].rows) == ("", True)
    chosen = job(tmp_path, "recommended", output={"synthetic_rows": 10})
    assert settings_of(chosen.mechanism)["model"] == "graphical"
    with pytest.raises(ConfigError, match="want auto or 0, or another mechanism.model than none"):
        job(tmp_path, "adaptive_residuals", output={"synthetic_rows": 10})
