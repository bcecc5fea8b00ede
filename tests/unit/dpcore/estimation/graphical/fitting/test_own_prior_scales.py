"""A prior for each pair of attributes, learnt from its own noisy values."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.fit import FitSettings, GraphicalFit, fit_model
from dpcore.estimation.graphical.fitting.linear_measurements import LinearMeasurement
from dpcore.estimation.graphical.fitting.prior import own_prior_scales
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals

DOMAIN = Domain.of({"a": 12, "b": 10, "c": 11, "d": 2, "e": 2})
PAIRS = list(combinations("abcde", 2))
ROWS = 20_000.0
OWN, FIXED = FitSettings(tolerance=1e-4, empirical_bayes=True), FitSettings(tolerance=1e-4)
Vector = NDArray[np.float64]


def component(
    clique: Clique, spread: float, stddev: float, seed: int, count: float = 40.0
) -> tuple[LinearMeasurement, Vector]:
    """What is measured of a pair whose cells are all expected to hold ``count``, and these expected counts."""
    drawn = np.random.default_rng(seed).normal(
        0, math.hypot((spread * count**1.5) ** 0.5, stddev), DOMAIN.shape(clique)
    )
    drawn = drawn - drawn.mean(axis=0) - drawn.mean(axis=1, keepdims=True) + drawn.mean()
    return LinearMeasurement(clique, drawn.ravel(), stddev**-2, centred=True), np.full(drawn.size, count)


def learnt(*made: tuple[LinearMeasurement, Vector]) -> Vector:
    parts = [part for part, _ in made]
    return own_prior_scales(DOMAIN, parts, [part.values for part in parts], [counts for _, counts in made])


@pytest.mark.parametrize("spread", [4.0, 10.0, 25.0])
def test_a_spread_is_found_from_one_marginal_of_many_cells(spread: float) -> None:
    found = learnt(component(("a", "b"), spread, 10.0, 1), component(("a", "c"), spread, 10.0, 2))
    assert found == pytest.approx([spread] * 2, rel=0.5)


def test_marginals_differ_and_stay_between_the_ends() -> None:
    found = learnt(
        component(("a", "b"), 0.01, 10.0, 1), component(("a", "c"), 8.0, 10.0, 2), component(("b", "c"), 1e4, 10.0, 3)
    )
    assert found[0] == 3.0
    assert found[1] == pytest.approx(8.0, rel=0.5)
    assert found[2] == 30.0


def test_a_marginal_that_tells_little_is_taken_as_the_others_are() -> None:
    strong = [component(clique, 20.0, 10.0, seed) for seed, clique in enumerate([("a", "b"), ("a", "c"), ("b", "c")])]
    part, counts = component(("d", "e"), 0.0, 1e6, 5)
    assert learnt((part, counts)) == pytest.approx([5.0], rel=0.2)
    assert learnt(*strong, (part, counts))[-1] > 12
    assert learnt().size == 0


def test_it_is_the_most_probable_of_a_dense_grid() -> None:
    """Against the density written out, for one marginal of unequal counts."""
    part, _ = component(("a", "b"), 6.0, 30.0, 4)
    counts = np.random.default_rng(0).uniform(5, 90, 120)

    def density(spread: float, around: float) -> float:
        variances = spread * counts**1.5 + 900
        normal = -(11 * 9 / 120 * np.log(variances) + part.values**2 / variances).sum() / 2
        return float(normal - math.log(spread / around) ** 2 / (2 * 1.5**2))

    grid = np.exp(np.linspace(math.log(1 / 16), math.log(200), 20_000))
    around = max(grid, key=lambda spread: density(spread, 5.0))
    wanted = max(grid, key=lambda spread: density(spread, around))
    assert learnt((part, counts)) == pytest.approx([wanted], rel=2**0.25)


def planted(strength: float, seed: int) -> tuple[Vector, list[Measurement]]:
    """Counts of all cells, and noisy one- and two-way marginals: a and b hang together by ``strength``, no others."""
    generator = np.random.default_rng(seed)
    joint = np.ones(())
    for size in DOMAIN.sizes:
        joint = np.multiply.outer(joint, generator.dirichlet(np.full(size, 20.0)))
    joint = joint * np.exp(strength * generator.normal(size=DOMAIN.sizes[:2]))[:, :, None, None, None]
    joint *= ROWS / joint.sum()
    found = []
    for clique in [*((name,) for name in "abcde"), *PAIRS]:
        table = joint.sum(axis=tuple(axis for axis, name in enumerate("abcde") if name not in clique))
        noisy = table.ravel() + generator.normal(0, 60.0, table.size)
        found.append(Measurement(Marginals(DOMAIN, (clique,)), noisy, Noise.GAUSSIAN, 60.0))
    return joint, found


def error(fit: GraphicalFit, joint: Vector) -> float:
    tables = fit.model.answer(Marginals(DOMAIN, (("a", "b"),)))
    return float(np.abs(tables - joint.sum(axis=(2, 3, 4)).ravel()).sum())


def test_a_pair_that_hangs_together_is_followed_and_one_that_does_not_is_held() -> None:
    joint, seen = planted(2.0, 7)
    own, fixed = (fit_model(DOMAIN, seen, ROWS, fitting) for fitting in (OWN, FIXED))
    assert error(own, joint) < 0.95 * error(fixed, joint)
    joint, seen = planted(0.0, 7)
    own, fixed = (fit_model(DOMAIN, seen, ROWS, fitting) for fitting in (OWN, FIXED))
    assert error(own, joint) < error(fixed, joint)
    assert own.prior_scales == fixed.prior_scales
