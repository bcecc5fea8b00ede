"""Penalised maximum entropy against its own optimality conditions on the table of the whole domain."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from dpcore.domain import Domain
from dpcore.estimation.graphical.fitting import maximum_entropy
from dpcore.estimation.graphical.fitting.linear_measurements import linear_measurements
from dpcore.estimation.graphical.fitting.maximum_entropy import DualFit, MaximumEntropy
from dpcore.estimation.graphical.fitting.measurement_matrix import MeasurementMatrix
from dpcore.estimation.graphical.inference.belief_propagation import Inference
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals
from tests.support.marginal_oracles import BruteForce

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 2})
CLIQUES = (("a", "b"), ("b", "c"))
TOTAL = 200.0
ROWS = MeasurementMatrix(
    DOMAIN,
    [
        part
        for clique, sigma, seed in zip(CLIQUES, (6.0, 10.0), (1, 2), strict=True)
        for part in linear_measurements(
            Measurement(
                Marginals(DOMAIN, (clique,)),
                np.random.default_rng(seed).exponential(33, 6) * np.array([1, 1, 0, 1, 1, 1]),
                Noise.GAUSSIAN,
                sigma,
            )
        )
    ],
)
TREE = JunctionTree.of(DOMAIN, CLIQUES)
BASE = np.random.default_rng(3).normal(size=12)


class Counted:
    """An oracle with a record of its potentials."""

    def __init__(self, oracle: Inference) -> None:
        self._oracle = oracle
        self.asked: list[NDArray[np.float64]] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._oracle, name)

    def marginals(self, potentials: NDArray[np.float64]) -> NDArray[np.float64]:
        self.asked.append(potentials.copy())
        return self._oracle.marginals(potentials)


def fitted(
    strength: float | NDArray[np.float64], base: NDArray[np.float64] = BASE, start: NDArray[np.float64] | None = None
) -> DualFit:
    first = np.zeros(12) if start is None else start
    estimator = MaximumEntropy(strength, tolerance=1e-11, iterations=3000)
    return estimator.estimate(Inference(TREE, CLIQUES), ROWS, TOTAL, base, first)


def joint(potentials: NDArray[np.float64]) -> NDArray[np.float64]:
    return BruteForce(TREE, CLIQUES).joint(potentials)


def objective(chances: NDArray[np.float64], strength: float, base: NDArray[np.float64]) -> float:
    """1/2 sum (A N p - y)^2 / sigma^2 + strength N KL(p | base), cell by cell."""
    prior = joint(base)
    measured = np.concatenate([chances.sum(axis=2).ravel(), chances.sum(axis=0).ravel()])
    residual = TOTAL * measured - ROWS.values
    some = chances > 0
    entropy = float((chances[some] * np.log(chances[some] / prior[some])).sum())
    return 0.5 * float((ROWS.precisions * residual) @ residual) + strength * TOTAL * entropy


@pytest.mark.parametrize("strength", [0.01, 0.5, 20.0])
def test_the_objective_is_the_smallest_over_all_tables(strength: float) -> None:
    def of_logs(logs: NDArray[np.float64]) -> float:
        weights = np.exp(logs - logs.max())
        return objective((weights / weights.sum()).reshape(2, 3, 2), strength, BASE)

    slow = minimize(of_logs, np.log(joint(BASE)).ravel(), method="BFGS", options={"gtol": 1e-4})
    found = objective(joint(fitted(strength).potentials), strength, BASE)
    assert found <= slow.fun + 1e-6
    assert found >= slow.fun - 1e-3


def test_multipliers_are_the_weighted_residuals() -> None:
    fit = fitted(0.5)
    measured = TOTAL * Inference(TREE, CLIQUES).marginals(fit.potentials)
    np.testing.assert_allclose(fit.multipliers, -ROWS.precisions * (measured - ROWS.values) / 0.5, rtol=0, atol=1e-3)
    np.testing.assert_allclose(fit.potentials, BASE + ROWS.apply_transpose(fit.multipliers), rtol=1e-12)


def test_every_row_may_have_its_own_strength() -> None:
    strengths = np.random.default_rng(5).permutation(np.geomspace(0.05, 5.0, 12))
    fit = fitted(strengths)
    measured = TOTAL * Inference(TREE, CLIQUES).marginals(fit.potentials)
    wanted = -ROWS.precisions * (measured - ROWS.values) / strengths
    np.testing.assert_allclose(fit.multipliers, wanted, rtol=0, atol=1e-3)
    np.testing.assert_allclose(joint(fitted(np.full(12, 0.5)).potentials), joint(fitted(0.5).potentials), atol=1e-9)


@pytest.mark.parametrize("iterations", [1, 2, 5, 10, 20])
def test_the_gap_bounds_how_far_the_objective_is_from_its_minimum(iterations: int) -> None:
    smallest = objective(joint(fitted(0.5).potentials), 0.5, BASE)
    estimator = MaximumEntropy(0.5, tolerance=0.0, iterations=iterations)
    early = estimator.estimate(Inference(TREE, CLIQUES), ROWS, TOTAL, BASE, np.zeros(12))
    excess = objective(joint(early.potentials), 0.5, BASE) - smallest
    assert -1e-6 <= excess <= early.gap + 1e-6
    assert early.evaluations == iterations


def test_the_loss_is_that_of_the_marginals() -> None:
    fit = fitted(0.5)
    residual = TOTAL * Inference(TREE, CLIQUES).marginals(fit.potentials) - ROWS.values
    assert fit.loss == pytest.approx(0.5 * float((ROWS.precisions * residual) @ residual), rel=1e-9)


def test_a_great_strength_leaves_the_base() -> None:
    np.testing.assert_allclose(joint(fitted(1e9).potentials), joint(BASE), atol=1e-6)


def test_the_start_does_not_matter() -> None:
    other = fitted(0.5, start=np.random.default_rng(4).normal(size=12))
    np.testing.assert_allclose(joint(other.potentials), joint(fitted(0.5).potentials), atol=1e-6)


def test_a_solved_problem_takes_one_call() -> None:
    assert fitted(0.5, start=fitted(0.5).multipliers).evaluations == 1


def test_counts_that_are_known_are_not_asked_for() -> None:
    oracle = Counted(Inference(TREE, CLIQUES))
    counts = ROWS.expected_counts(TOTAL * oracle.marginals(BASE))
    estimator = MaximumEntropy(0.5, tolerance=1e-11, iterations=3000)
    fit = estimator.estimate(oracle, ROWS, TOTAL, BASE, np.zeros(12), counts)
    assert len(oracle.asked) == 1 + fit.evaluations
    assert np.array_equal(fit.multipliers, fitted(0.5).multipliers)


@pytest.mark.parametrize("iterations", [1, 4, 3000])
def test_the_last_call_of_the_oracle_is_at_the_fit(iterations: int) -> None:
    """Also where rounding hides all progress, and the last step is taken back."""
    for tolerance in (1e-3, 0.0):
        oracle = Counted(Inference(TREE, CLIQUES))
        fit = MaximumEntropy(0.5, tolerance, iterations).estimate(oracle, ROWS, TOTAL, BASE, np.zeros(12))
        assert np.array_equal(oracle.asked[-1], fit.potentials)


def test_structural_zeros_of_the_base_stay() -> None:
    base = BASE.copy()
    base[[1, 7]] = -np.inf
    fit = fitted(0.5, base)
    chances = joint(fit.potentials)
    assert chances[0, 1].tolist() == [0, 0]
    assert chances[:, 0, 1].tolist() == [0, 0]
    assert np.isfinite(fit.loss)
    assert np.isfinite(fit.multipliers).all()
    # What is left is again the smallest: no move between two possible records lowers the objective.
    smallest = objective(chances, 0.5, base)
    possible = np.argwhere(chances > 1e-4)
    for one in possible:
        for other in possible:
            moved = chances.copy()
            moved[tuple(one)] -= 1e-5
            moved[tuple(other)] += 1e-5
            assert objective(moved, 0.5, base) >= smallest - 1e-6


def test_a_fit_whose_calls_run_out_is_about_the_closest_of_its_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dual falls at every step, but the gap jumps: the last point alone is many times as far as an earlier one."""

    def gaps() -> list[float]:
        strengths = np.geomspace(1e-5, 1e-3, 12)
        runs = (MaximumEntropy(strengths, tolerance=0.0, iterations=calls) for calls in range(3, 60))
        return [run.estimate(Inference(TREE, CLIQUES), ROWS, TOTAL, BASE, np.zeros(12)).gap for run in runs]

    def worst(found: list[float]) -> float:
        return max(gap / least for gap, least in zip(found, np.minimum.accumulate(found), strict=True))

    assert worst(gaps()) <= 2 + 1e-9
    monkeypatch.setattr(maximum_entropy, "_WORTH_A_CALL", 0.0)
    assert worst(gaps()) > 4


@pytest.mark.parametrize("calls", [1, 2, 5, 30])
def test_a_fit_makes_about_as_many_calls_as_it_may_and_ends_at_its_point(calls: int) -> None:
    oracle = Counted(Inference(TREE, CLIQUES))
    fit = MaximumEntropy(1e-4, tolerance=0.0, iterations=calls).estimate(
        cast(Inference, oracle), ROWS, TOTAL, BASE, np.zeros(12), np.ones(12)
    )
    assert fit.evaluations == len(oracle.asked) <= calls + 2  # A failed line search, and the closest point.
    np.testing.assert_array_equal(oracle.asked[-1], fit.potentials)
