"""The work limit of mechanisms: the setting, the stages that are told, and releases that end at the limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.errors import ConfigError
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.fitting.work import UNIT
from dpcore.kernel.budget import Budget
from dpcore.mechanisms.aim.aim import Aim
from dpcore.mechanisms.clique_tree import CliqueTree
from dpcore.mechanisms.gaussian_pgm import GaussianPgm
from dpcore.mechanisms.hdmm.hdmm import Hdmm
from dpcore.mechanisms.mst import Mst
from dpcore.mechanisms.mwem.mwem_pgm import MwemPgm
from dpcore.mechanisms.shared.bounded_work import BoundedWork, check_max_work
from dpcore.testing.doubles import private_statistics
from dpcore.testing.memory import MemoryJournal
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import all_k_way

DOMAIN = Domain.of({"a": 3, "b": 4, "c": 2, "d": 3})
TABLE = TinyTable(DOMAIN, np.random.default_rng(0).integers(0, DOMAIN.sizes, (400, 4)))
WORKLOAD = all_k_way(DOMAIN, 2)
LIMITED: tuple[Any, ...] = (
    Aim(),
    CliqueTree(),
    GaussianPgm(),
    Hdmm(reconstruction="graphical"),
    Mst(),
    MwemPgm(),
)
every_mechanism = pytest.mark.parametrize("mechanism", LIMITED, ids=lambda mechanism: mechanism.traits.name)


class Told:
    """A progress that records the stages."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    def __call__(self, done: int, total: int) -> None:
        assert 0 <= done <= total

    def stage(self, text: str) -> None:
        self.stages.append(text)


@every_mechanism
def test_a_release_at_the_limit_is_valid_and_repeatable(mechanism: Any) -> None:
    """With no work at all the fits stop at once: the measurements are released all the same, and the answers exist."""
    journal = MemoryJournal()
    limited = replace(mechanism, max_work=0.0)
    releases = [
        limited.run(
            private_statistics(TABLE, Budget.zcdp(1), journal=journal), WORKLOAD, generator=np.random.default_rng(0)
        )
        for _ in range(2)
    ]
    values = [release.answers.values for release in releases]
    assert np.array_equal(*values)
    assert np.isfinite(values[0]).all()
    assert (values[0] >= 0).all()
    assert isinstance(releases[0].model, GraphicalModel)
    assert releases[0].model.total > 0


@every_mechanism
def test_it_tells_the_stages_of_a_run(mechanism: Any) -> None:
    told = Told()
    private = private_statistics(TABLE, Budget.zcdp(1))
    mechanism.run(private, WORKLOAD, generator=np.random.default_rng(0), progress=told)
    assert any("fit" in stage or "rounds" in stage for stage in told.stages)
    assert all(stage.endswith(" % of mechanism.max_work used") for stage in told.stages)


@every_mechanism
@pytest.mark.parametrize("max_work", [-1.0, float("nan"), float("inf")])
def test_a_limit_that_is_no_number_of_units_is_refused(mechanism: Any, max_work: float) -> None:
    private = private_statistics(TABLE, Budget.zcdp(1))
    with pytest.raises(ConfigError, match=r"mechanism\.max_work is .*; want a finite number >= 0"):
        replace(mechanism, max_work=max_work).plan(private.terms, WORKLOAD)


@every_mechanism
def test_the_plan_predicts_seconds_that_the_limit_bounds(mechanism: Any) -> None:
    terms = private_statistics(TABLE, Budget.zcdp(1)).terms
    plan = mechanism.plan(terms, WORKLOAD)
    none = replace(mechanism, max_work=0.0).plan(terms, WORKLOAD)
    assert 0 < none.cpu_seconds < plan.cpu_seconds
    assert [note for note in none.notes if "mechanism.max_work ends them at 0" in note]
    assert not [note for note in plan.notes if "max_work" in note]


def test_stages_say_how_much_of_the_limit_is_used() -> None:
    told = Told()
    work = BoundedWork(2.0, told)
    meter = work.enter("rounds", "3 of at most 16 done")
    meter.part(0.5).spend(UNIT / 2)
    work.enter("last fit").spend(10 * UNIT)
    assert told.stages == [
        "rounds: 3 of at most 16 done, 0 % of mechanism.max_work used",
        "rounds: 3 of at most 16 done, 25 % of mechanism.max_work used",
        "last fit: 25 % of mechanism.max_work used",
        "last fit: 100 % of mechanism.max_work used",
    ]


def test_a_progress_that_shows_no_stages_is_fine() -> None:
    BoundedWork(1.0, lambda done, total: None).enter("last fit").spend(UNIT)


def test_no_work_and_very_much_work_are_limits() -> None:
    check_max_work(0.0)
    check_max_work(1e300)


def test_progress_grows_with_the_work_of_a_fit_and_never_goes_back() -> None:
    reported: list[tuple[int, int]] = []
    work = BoundedWork(4.0, lambda done, total: reported.append((done, total)))
    work.report(0.5)
    work.report(0.4)
    work.meter.spend(UNIT)
    assert reported == [(500, 1000)], "without an end, work is no progress"
    meter = work.enter("last fit", until=0.8)
    meter.spend(1.5 * UNIT)
    meter.spend(0.0)
    meter.spend(9 * UNIT)
    work.report(1.0)
    assert reported == [(500, 1000), (650, 1000), (800, 1000), (1000, 1000)]
