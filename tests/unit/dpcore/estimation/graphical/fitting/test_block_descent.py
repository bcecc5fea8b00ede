"""Sweeps over the cliques of a tree against the dual that they lower."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting import fit
from dpcore.estimation.graphical.fitting.block_descent import BlockDescent, _solve, _tour
from dpcore.estimation.graphical.fitting.components import component_measurements
from dpcore.estimation.graphical.fitting.fit import FitSettings, fit_model
from dpcore.estimation.graphical.fitting.linear_measurements import linear_measurements
from dpcore.estimation.graphical.fitting.maximum_entropy import MaximumEntropy
from dpcore.estimation.graphical.fitting.measurement_matrix import MeasurementMatrix
from dpcore.estimation.graphical.inference.belief_propagation import Inference
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals

DOMAIN = Domain.of({"a": 3, "b": 4, "c": 2, "d": 5, "e": 3})
TOTAL = 500.0
SHAPES: dict[str, tuple[Clique, ...]] = {
    "chain": (("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")),
    "cycle": (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")),
    "triples": (("a", "b", "c"), ("b", "c", "d"), ("c", "d", "e")),
    "star": (("d", "a"), ("d", "b"), ("d", "c"), ("d", "e")),
    "apart": (("a", "b"), ("d", "e")),
    "alone": (("b",),),
    "backwards": (("d", "b"), ("c", "b", "a")),
    "all pairs": tuple(combinations("abcde", 2)),
    "all triples": tuple(combinations("abcde", 3)),
}
Vector = NDArray[np.float64]


def measured(cliques: Sequence[Clique], stddev: float, seed: int = 0) -> list[Measurement]:
    """Marginals of a skewed table with structure, with noise."""
    generator = np.random.default_rng(seed)
    joint = generator.dirichlet(np.full(DOMAIN.size(DOMAIN.names), 0.1)).reshape(DOMAIN.sizes) * TOTAL
    found = []
    for clique in map(DOMAIN.canonical, cliques):
        table = joint.sum(axis=tuple(axis for axis, name in enumerate(DOMAIN.names) if name not in clique)).ravel()
        noisy = table + generator.normal(0, stddev, table.size)
        found.append(Measurement(Marginals(DOMAIN, (clique,)), noisy, Noise.GAUSSIAN, stddev))
    return found


class Problem:
    """A dual, written out; strengths differ from row to row."""

    def __init__(self, measurements: Sequence[Measurement], components: bool = True) -> None:
        measurement_parts = [
            measurement_part for measurement in measurements for measurement_part in linear_measurements(measurement)
        ]
        self.rows = MeasurementMatrix(
            DOMAIN, component_measurements(DOMAIN, measurement_parts) if components else measurement_parts, merge=False
        )
        self.tree = JunctionTree.of(DOMAIN, self.rows.queries.cliques)
        self.oracle = Inference(self.tree, self.rows.queries.cliques)
        generator = np.random.default_rng(1)
        self.base = generator.normal(size=self.rows.queries.size)
        self.strengths = 10.0 ** generator.uniform(-3, 0, self.rows.values.size)
        self.start = generator.normal(0, 0.3, self.rows.values.size)

    @property
    def kappa(self) -> Vector:
        return self.strengths / self.rows.precisions

    def dual(self, multipliers: Vector) -> float:
        self.oracle.marginals(self.base + self.rows.apply_transpose(multipliers))
        fitted = TOTAL * self.oracle.log_partition - self.rows.values @ multipliers
        return float(fitted + self.kappa @ multipliers**2 / 2)

    def sweep(self, start: Vector, times: int) -> Vector:
        return BlockDescent(self.tree, self.rows, TOTAL, self.kappa).sweep(self.oracle, self.base, start, times)


@pytest.mark.parametrize("stddev", [0.5, 10.0])
@pytest.mark.parametrize("cliques", SHAPES.values(), ids=SHAPES)
def test_no_sweep_raises_the_dual(cliques: tuple[Clique, ...], stddev: float) -> None:
    problem = Problem(measured(cliques, stddev))
    values, found = [problem.dual(problem.start)], problem.start
    for _ in range(6):
        found = problem.sweep(found, 1)
        values.append(problem.dual(found))
    assert np.diff(values).max() < 1e-9 * abs(values[0])
    assert values[-1] < values[0]


@pytest.mark.parametrize("cliques", SHAPES.values(), ids=SHAPES)
def test_sweeps_go_on_as_if_they_were_one_call(cliques: tuple[Clique, ...]) -> None:
    """Tables that are kept calibrated are those that the marginal oracle finds afresh."""
    problem = Problem(measured(cliques, 2.0))
    twice = problem.sweep(problem.sweep(problem.start, 1), 1)
    np.testing.assert_allclose(problem.sweep(problem.start, 2), twice, rtol=1e-9, atol=1e-12)


@pytest.mark.smoke(1)
@pytest.mark.parametrize("cliques", SHAPES.values(), ids=SHAPES)
def test_sweeps_end_at_the_optimum(cliques: tuple[Clique, ...]) -> None:
    problem = Problem(measured(cliques, 10.0))
    problem.strengths[:] = 1.0
    estimator = MaximumEntropy(problem.strengths, 1e-10, 5_000)
    best = estimator.estimate(problem.oracle, problem.rows, TOTAL, problem.base, problem.start)
    swept = problem.dual(problem.sweep(problem.start, 3_000))
    lowest, first = problem.dual(best.multipliers), problem.dual(problem.start)
    assert abs(swept - lowest) < 1e-6 * (first - lowest)


def test_a_sweep_is_worth_many_steps_where_noise_is_small() -> None:
    problem = Problem(measured(SHAPES["triples"], 0.5))
    estimator = MaximumEntropy(problem.strengths, 0.0, 10)
    stepped = estimator.estimate(problem.oracle, problem.rows, TOTAL, problem.base, np.zeros(problem.start.size))
    assert problem.dual(problem.sweep(np.zeros(problem.start.size), 2)) < problem.dual(stepped.multipliers)


def test_only_cliques_whose_components_were_all_measured_are_swept() -> None:
    """Whole marginals as they are, not cut into components, are left alone; so is a pair without its parts."""
    whole = Problem(measured(SHAPES["chain"], 1.0), components=False)
    assert not BlockDescent(whole.tree, whole.rows, TOTAL, whole.kappa).has_blocks
    np.testing.assert_array_equal(whole.sweep(whole.start, 3), whole.start)
    mixed = Problem(measured([("a", "b"), ("d", "e")], 1.0))
    kept = [measurement_part for measurement_part in mixed.rows.measurements if measurement_part.clique != ("d",)]
    mixed.rows = MeasurementMatrix(DOMAIN, kept, merge=False)
    start = mixed.start[: mixed.rows.values.size]
    mixed.strengths = mixed.strengths[: start.size]
    moved = mixed.sweep(start, 2) != start
    for measurement_part, begin, end in zip(kept, mixed.rows.starts[:-1], mixed.rows.starts[1:], strict=True):
        assert moved[begin:end].all() == (not set(measurement_part.clique) & {"d", "e"})


def test_each_cell_is_solved() -> None:
    generator = np.random.default_rng(0)
    counts, stiffness = 10.0 ** generator.uniform(-8, 5, (40, 30)), 10.0 ** generator.uniform(-2, 3, (40, 30))
    counts[0] = 0.0
    change = generator.uniform(-4, 4, counts.shape)
    goal = counts * np.exp(change) + stiffness * change
    np.testing.assert_allclose(_solve(counts, goal, stiffness), change, rtol=1e-6, atol=1e-6)


def test_a_chain_of_thousands_of_nodes_is_walked() -> None:
    """Without a call of Python a node."""
    names = [f"a{place}" for place in range(3_000)]
    domain = Domain(tuple(names), (2,) * 3_000)
    tour = list(_tour(JunctionTree.of(domain, list(pairwise(names)))))
    assert len(tour) == 2 * 2_998 + 1
    assert {node for _, node in tour} == set(range(2_999))
    assert all(before[1] == after[0] for before, after in pairwise(tour))


def test_a_cell_that_vanished_stays_finite() -> None:
    counts, goal = np.array([0.0, 0.0, 1e-320, 5.0]), np.array([1e6, -1e6, 1e6, -1e9])
    change = _solve(counts, goal, np.full(4, 1e-3))
    assert np.isfinite(change).all()
    assert np.isfinite(counts * np.exp(change)).all()
    assert (np.sign(change) == np.sign(goal)).all()


def test_a_large_model_starts_with_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimum is the same; a fit that is cut short comes closer to it."""
    seen = measured(SHAPES["triples"], 0.5)

    def fitted(large: int, calls: int) -> Vector:
        monkeypatch.setattr(fit, "_LARGE", large)
        model = fit_model(DOMAIN, seen, TOTAL, FitSettings(tolerance=1e-9, iterations=calls)).model
        return model.answer(Marginals(DOMAIN, SHAPES["triples"]))

    best = fitted(1 << 18, 20_000)
    np.testing.assert_allclose(fitted(1, 20_000), best, atol=1e-2)
    assert np.abs(fitted(1, 20) - best).sum() < np.abs(fitted(1 << 18, 20) - best).sum()


def test_sweeps_double_as_long_as_they_halve_the_gap() -> None:
    problem, made = Problem(measured(SHAPES["triples"], 0.5)), list[int]()

    def swept(point: Vector, times: int) -> Vector:
        made.append(times)
        return problem.sweep(point, times)

    def stuck(point: Vector, times: int) -> Vector:
        made.append(times)
        return point

    def evaluations(sweeps: Callable[[Vector, int], Vector], most: int, tolerance: float = 1e-9) -> int:
        estimator = MaximumEntropy(problem.strengths, tolerance, most)
        start = np.zeros(problem.start.size)
        return estimator.estimate(
            problem.oracle, problem.rows, TOTAL, problem.base, start, sweeps=sweeps
        ).evaluations  # fmt: skip

    assert evaluations(stuck, 100) <= 101
    assert made == [2, 4]
    made.clear()
    assert evaluations(swept, 30) <= 31
    assert made == [2, 4]
    made.clear()
    assert evaluations(swept, 10_000, tolerance=1e9) == 7
    assert made == [2]
