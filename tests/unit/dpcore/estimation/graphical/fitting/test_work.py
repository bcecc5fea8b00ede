"""The limit of the work of fits: every step is counted, and a fit that comes to the limit is a model all the same."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.estimation.graphical.fitting import fit as fitting
from dpcore.estimation.graphical.fitting.fit import FitSettings, GraphicalFit, fit_model
from dpcore.estimation.graphical.fitting.work import FitCosts, FitWork, WorkMeter
from dpcore.estimation.graphical.inference.belief_propagation import Inference
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals

DOMAIN = Domain.of({"a": 3, "b": 4, "c": 2, "d": 3})
TOTAL = 1_000.0
PAIRS = tuple(combinations("abcd", 2))
CLOSE = FitSettings(tolerance=1e-9, iterations=500)


def measurements() -> list[Measurement]:
    generator = np.random.default_rng(1)
    table = generator.dirichlet(np.full(72, 0.2)).reshape(3, 4, 2, 3) * TOTAL
    made = []
    for clique in PAIRS:
        others = tuple(axis for axis, name in enumerate("abcd") if name not in clique)
        values = table.sum(axis=others).ravel() + generator.normal(0, 1, DOMAIN.size(clique))
        made.append(Measurement(Marginals(DOMAIN, (clique,)), values, Noise.GAUSSIAN, 1.0))
    return made


def fitted(meter: WorkMeter | None = None, settings: FitSettings = CLOSE) -> GraphicalFit:
    return fit_model(DOMAIN, measurements(), TOTAL, settings, meter=meter)


def answers(fit: GraphicalFit) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return fit.model.answer(Marginals(DOMAIN, PAIRS))


def test_a_part_counts_in_the_whole_as_well() -> None:
    whole = WorkMeter(100.0)
    part = whole.part(0.5)
    part.spend(20.0)
    assert (part.remaining, whole.remaining, whole.spent) == (30.0, 80.0, 20.0)
    whole.spend(70.0)
    assert part.remaining == whole.remaining == 10.0, "a part never has more than the whole"
    assert whole.part(0.5).remaining == 5.0
    part.spend(50.0)
    assert part.remaining == whole.remaining == 0.0
    assert whole.fraction == pytest.approx(1.4)


def test_without_a_limit_nothing_ends() -> None:
    meter = WorkMeter()
    meter.spend(1e30)
    assert meter.remaining == math.inf
    assert meter.part(0.25).remaining == math.inf
    assert meter.fraction == 0.0


def test_every_step_is_watched() -> None:
    seen: list[float] = []
    whole = WorkMeter(10.0, watch=lambda: seen.append(whole.spent))
    whole.part(0.5).spend(2.0)
    whole.spend(3.0)
    assert seen == [2.0, 5.0]


def test_the_meter_counts_the_calls_of_the_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference counts the calls themselves: all but the two that no descent makes, of the base and its counts."""
    monkeypatch.setattr(FitCosts, "of", classmethod(lambda cls, *sizes: cls(1.0, 100.0)))
    calls: list[int] = []
    marginals = Inference.marginals

    def counted(oracle: Inference, potentials: np.ndarray[tuple[int], np.dtype[np.float64]]) -> object:
        calls.append(1)
        return marginals(oracle, potentials)

    monkeypatch.setattr(Inference, "marginals", counted)
    meter = WorkMeter()
    fit = fitted(meter)
    assert meter.spent == fit.evaluations == len(calls) - 1


def test_sweeps_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FitCosts, "of", classmethod(lambda cls, *sizes: cls(1.0, 100.0)))
    monkeypatch.setattr(fitting, "_LARGE", 1)
    meter = WorkMeter()
    fit = fitted(meter)
    sweeps, calls = divmod(meter.spent, 100.0)
    assert sweeps >= 2
    assert calls + 3 * sweeps >= fit.evaluations > calls


@pytest.mark.parametrize("large", [1, 1 << 18], ids=["sweeps", "calls"])
def test_a_limit_that_does_not_bind_changes_nothing(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "_LARGE", large)
    free, meter = fitted(), WorkMeter(1e18)
    limited = fitted(meter)
    assert limited.evaluations == free.evaluations
    assert np.array_equal(answers(limited), answers(free))
    assert meter.spent > 0


@pytest.mark.parametrize("settings", [CLOSE, FitSettings(None, 1e-9, 500)], ids=["fixed prior", "learnt prior"])
@pytest.mark.parametrize("large", [1, 1 << 18], ids=["sweeps", "calls"])
def test_a_fit_at_its_limit_is_a_model_all_the_same(
    large: int, settings: FitSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "_LARGE", large)
    whole = WorkMeter()
    free = fitted(whole, settings)
    for limit in (0.0, whole.spent / 10, whole.spent / 2):
        meter = WorkMeter(limit)
        limited = fitted(meter, settings)
        values = answers(limited)
        assert (values >= 0).all()
        assert values.sum() == pytest.approx(len(PAIRS) * TOTAL)
        assert limited.gap >= free.gap
        assert np.array_equal(values, answers(fitted(WorkMeter(limit), settings))), "equal limits give equal models"
        assert meter.spent <= max(limit, whole.spent / 2) + whole.spent / 4, "at most some calls above the limit"


def test_more_work_brings_the_fit_closer() -> None:
    whole = WorkMeter()
    fitted(whole)
    gaps = [fitted(WorkMeter(whole.spent * part)).gap for part in (0.0, 0.2, 0.5, 1.0)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < gaps[0] / 100


def test_a_fit_stops_before_a_step_that_it_cannot_pay() -> None:
    work = FitWork(FitCosts(call=10.0, sweep=50.0), WorkMeter(109.0))
    assert not work.allows_sweeps(3)
    assert not work.allows_sweeps(2), "the call that checks them must be paid as well"
    assert work.allows_sweeps(1)
    work.swept(1)
    work.called()
    assert not work.is_spent
    work.swept(1)
    assert work.is_spent


def test_costs_grow_with_every_size() -> None:
    sizes = (1_000, 100, 10, 5, 50)
    base = FitCosts.of(*sizes)
    for index in range(3):
        larger = FitCosts.of(*(size * (2 if k == index else 1) for k, size in enumerate(sizes)))
        assert larger.call > base.call
    for index in (0, 3, 4):
        larger = FitCosts.of(*(size * (2 if k == index else 1) for k, size in enumerate(sizes)))
        assert larger.sweep > base.sweep
