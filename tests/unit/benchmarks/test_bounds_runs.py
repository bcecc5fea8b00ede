"""Runs of AIM with confidence bounds: what is counted, and what is not computed again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.evaluation import exact_answers
from dpcore.mechanisms.aim.aim import Aim
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import all_k_way
from tests.benchmarks import bounds_adult
from tests.benchmarks.figures import datasets
from tests.benchmarks.graphical import bounds_runs
from tests.benchmarks.graphical.bounds_runs import Coverage, covered, read

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4, "d": 2})
UNITS = 300
TABLE = datasets.Table(TinyTable(DOMAIN, np.random.default_rng(1).integers(0, DOMAIN.sizes, (UNITS, 4))), DOMAIN, UNITS)
WORKLOAD = all_k_way(DOMAIN, 3)
AIM = Aim(rounds_per_attribute=2, max_model_mb=3e-4)


def coverage(seed: int, supported_covered: int = 4, others_covered: int = 6) -> Coverage:
    return Coverage(
        seed, 4, supported_covered, 2.0 + seed, 6, others_covered, 3.0 + seed, 0.99, 0.1, 9, 1.0, 0.5, "abc"
    )


def test_a_run_counts_the_bounds_that_hold() -> None:
    exact = exact_answers(TABLE.statistics, WORKLOAD.queries)
    found = covered(TABLE, WORKLOAD, exact, AIM, seed=1)
    assert found.supported + found.others == 4
    assert found.supported_covered + found.others_covered >= 2
    assert found.others_ratio > 1
    assert found.cells_covered > 0.5
    elsewhere = covered(TABLE, WORKLOAD, exact + 1000, AIM, seed=1)
    assert elsewhere.supported_covered + elsewhere.others_covered == 0
    assert elsewhere.cells_covered < 0.5


def test_what_is_stored_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def one(*arguments: object, **named: object) -> Coverage:
        seed = arguments[-1]
        assert isinstance(seed, int)
        asked.append(seed)
        return coverage(seed)

    monkeypatch.setattr(bounds_runs, "covered", one)
    monkeypatch.setattr(bounds_runs, "RUNS", 3)
    monkeypatch.setattr(datasets, "tabular", lambda inputs: TABLE)
    path = tmp_path / "deep" / "adult.json"
    assert [run.seed for run in bounds_runs.compute(path, tmp_path, 2)] == [1, 2]
    assert bounds_runs.compute(path, tmp_path, 5) == [coverage(seed) for seed in (1, 2, 3)] == read(path)
    assert bounds_runs.compute(path, tmp_path, 5) == read(path)
    assert asked == [1, 2, 3]


def test_the_case_adds_up_all_runs() -> None:
    runs = [coverage(1), coverage(2, supported_covered=3), coverage(3, others_covered=0)]
    facts = bounds_adult.judge(Path(), runs).facts
    assert facts["coverage"] == pytest.approx(23 / 30)
    assert facts["coverage, worst run"] == pytest.approx(0.4)
    assert facts["coverage, supported"] == pytest.approx(11 / 12)
    assert facts["coverage, others"] == pytest.approx(12 / 18)
    assert (facts["bound over error, supported"], facts["bound over error, others"]) == (4.0, 5.0)
