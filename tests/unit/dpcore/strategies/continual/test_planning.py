"""The planned strategy is the best of its class, and its bound is one."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.measurement import Noise
from dpcore.strategies.continual import candidates
from dpcore.strategies.continual.planning import continual_plan
from dpcore.strategies.one_attribute.gaussian_optimum import gaussian_optimum

STEPS = 40
PREFIXES, DAYS = np.tril(np.ones((STEPS, STEPS))), np.eye(STEPS)
WEEKS = np.array([[float(end - 7 < step <= end) for step in range(STEPS)] for end in range(6, STEPS)])
WORKLOADS = {
    "totals": PREFIXES,
    "days": DAYS,
    "weeks": WEEKS,
    "all": np.concatenate([PREFIXES, DAYS, WEEKS]),
    "the last step": PREFIXES[-1:],
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_best_is_the_certified_optimum_and_beats_the_others(name: str) -> None:
    queries = WORKLOADS[name]
    weights = np.ones(len(queries))
    best = continual_plan(queries, weights, Noise.GAUSSIAN)
    assert best.bound == gaussian_optimum(queries.T @ queries).bound
    assert -1e-9 < best.gap < (1e-3 if name != "the last step" else 0.05)
    for choice in ("daily", "tree", "square_root"):
        other = continual_plan(queries, weights, Noise.GAUSSIAN, choice)
        assert other.name == choice
        assert best.error <= other.error * (1 + 2e-4)
        assert other.error >= other.bound * (1 - 1e-9)


def test_errors_are_those_of_the_closed_forms() -> None:
    ones = np.ones(STEPS)
    daily = continual_plan(PREFIXES, ones, Noise.GAUSSIAN, "daily")
    assert daily.error == pytest.approx(STEPS * (STEPS + 1) / 2)
    coefficients = np.cumprod([1.0, *(1 - 1 / (2 * k) for k in range(1, STEPS))])
    sums = np.cumsum(coefficients**2)
    root = continual_plan(PREFIXES, ones, Noise.GAUSSIAN, "square_root")
    assert root.error == pytest.approx(sums[-1] * sums.sum(), rel=1e-6)


def test_weights_count() -> None:
    queries = np.concatenate([PREFIXES, DAYS])
    mostly_days = continual_plan(queries, np.repeat([1e-3, 1.0], STEPS), Noise.GAUSSIAN)
    mostly_totals = continual_plan(queries, np.repeat([1.0, 1e-3], STEPS), Noise.GAUSSIAN)

    def on(plan, rows):  # type: ignore[no-untyped-def]
        return plan.strategy.squared_sensitivity(Noise.GAUSSIAN) * (plan.reconstruction[rows] ** 2).sum()

    assert on(mostly_days, slice(STEPS, None)) < on(mostly_totals, slice(STEPS, None))
    assert on(mostly_totals, slice(STEPS)) < on(mostly_days, slice(STEPS))


def test_under_laplace_noise_the_best_of_the_fixed_strategies_is_taken() -> None:
    weights = np.ones(STEPS)
    best = continual_plan(PREFIXES, weights, Noise.LAPLACE)
    errors = {
        choice: continual_plan(PREFIXES, weights, Noise.LAPLACE, choice).error
        for choice in ("daily", "tree", "square_root")
    }
    assert best.error == min(errors.values()) == errors[best.name]  # type: ignore[index]
    assert best.error >= best.bound


def test_a_factor_of_the_optimum_has_its_gram() -> None:
    optimum = gaussian_optimum(PREFIXES.T @ PREFIXES)
    strategy, bound = candidates.best(PREFIXES.T @ PREFIXES)
    real = strategy.matrix / strategy.denominator
    np.testing.assert_allclose(real.T @ real / (real**2).sum(axis=0).max(), optimum.gram, atol=1e-4)
    assert bound == optimum.bound
    assert not np.triu(strategy.matrix, 1).any()


@pytest.mark.parametrize("steps", [0, 1025])
def test_the_number_of_steps_is_bounded(steps: int) -> None:
    for make in (candidates.daily, candidates.tree, candidates.square_root):
        with pytest.raises(ValueError, match="want 1 to 1,024"):
            make(steps)


def test_queries_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="read no step"):
        continual_plan(np.zeros((2, 3)), np.ones(2), Noise.GAUSSIAN)
