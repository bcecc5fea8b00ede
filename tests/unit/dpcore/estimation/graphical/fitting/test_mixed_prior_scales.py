"""A prior for each component of one order, with a distribution of scales that is learnt from all of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.graphical.fitting.fit import FitSettings, GraphicalFit, fit_model
from dpcore.estimation.graphical.fitting.linear_measurements import LinearMeasurement
from dpcore.estimation.graphical.fitting.prior import mixed_prior_scales, prior_variances
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals

Vector = NDArray[np.float64]
DOMAIN = Domain.of({"a": 9, "b": 8})
CLIQUE = ("a", "b")
STDDEV, COUNT = 10.0, 40.0


def drawn(scales: Sequence[float], seed: int, stddev: float = STDDEV) -> list[Vector]:
    """Centred deviations of one pair after another, each with a scale of its own, and with noise."""
    generator = np.random.default_rng(seed)
    tables = []
    for scale in scales:
        spread = float(prior_variances(np.array([COUNT]), scale)[0]) ** 0.5
        table = generator.normal(0, spread, DOMAIN.sizes) + generator.normal(0, stddev, DOMAIN.sizes)
        table = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
        tables.append(table.ravel())
    return tables


def learnt(deviations: Sequence[Vector], of_order: float = 1e-9, stddev: float = STDDEV) -> Vector:
    parts = [LinearMeasurement(CLIQUE, np.zeros(72), stddev**-2, centred=True) for _ in deviations]
    counts = [np.full(72, COUNT) for _ in deviations]
    return mixed_prior_scales(DOMAIN, parts, deviations, counts, of_order)


def test_each_component_is_near_the_scale_that_it_was_drawn_with() -> None:
    planted = [0.5] * 10 + [8.0] * 10
    found = learnt(drawn(planted, 1))
    assert found == pytest.approx(planted, rel=0.7)
    assert found[:10].max() < 0.2 * found[10:].min()


def test_components_that_tell_little_are_taken_as_the_others_are() -> None:
    small, large = drawn([0.02] * 20, 2), drawn([8.0] * 20, 2)
    unclear = drawn([0.5], 3)
    assert learnt([*small, *unclear])[-1] < learnt([*large, *unclear])[-1]


def test_it_is_what_a_plain_search_for_the_likeliest_distribution_finds() -> None:
    """Against the densities written out, and many more steps towards the maximum."""
    deviations = drawn([0.1, 0.1, 0.3, 1.0, 1.0, 4.0, 9.0], 4)
    grid = [2.0**power for power in range(-10, 5)]
    unit = COUNT**1.5
    densities = np.array(
        [
            [
                np.exp(
                    -0.5 * (56 / 72) * 72 * np.log((scale * unit + STDDEV**2) / STDDEV**2)
                    - 0.5 * float(deviation @ deviation) * (1 / (scale * unit + STDDEV**2) - 1 / STDDEV**2)
                    - 0.5 * float(deviation @ deviation) / STDDEV**2
                    + 0.5 * 56
                )
                for scale in grid
            ]
            for deviation in deviations
        ]
    )
    common = np.full(len(grid), 1 / len(grid))
    for _ in range(5_000):
        shares = densities * common
        shares /= shares.sum(axis=1, keepdims=True)
        common = (shares.sum(axis=0) + 1 / len(grid)) / (len(deviations) + 1)
    posteriors = densities * common
    posteriors /= posteriors.sum(axis=1, keepdims=True)
    kept = posteriors @ np.array([scale * unit / (scale * unit + STDDEV**2) for scale in grid])
    wanted = kept / (1 - kept) * STDDEV**2 / unit  # The scale at which a cell keeps this part.
    assert learnt(deviations) == pytest.approx(wanted, rel=0.15)


def test_none_is_below_a_quarter_of_its_order_nor_above_sixteen() -> None:
    deviations = [*drawn([0.0] * 5, 5), *drawn([1e4], 5)]
    assert learnt(deviations, of_order=2.0) == pytest.approx([0.5] * 5 + [16.0], rel=1e-9)


def test_without_components_there_are_no_scales() -> None:
    assert learnt([]).size == 0


# Fits

TABLE = Domain.of({"a": 6, "b": 5, "c": 6, "d": 5, "e": 6, "f": 5})
PAIRS = list(combinations("abcdef", 2))
ROWS = 20_000.0
OF_ORDERS, OWN = (FitSettings(None, tolerance=1e-4, empirical_bayes=own) for own in (False, True))


def measured(joint: Vector, stddev: float, seed: int) -> list[Measurement]:
    generator, found = np.random.default_rng(seed), []
    names = TABLE.names
    for clique in [*((name,) for name in names), *PAIRS]:
        exact = joint.sum(axis=tuple(axis for axis, name in enumerate(names) if name not in clique)).ravel()
        noisy = exact + generator.normal(0, stddev, exact.size)
        found.append(Measurement(Marginals(TABLE, (clique,)), noisy, Noise.GAUSSIAN, stddev))
    return found


def error(fit: GraphicalFit, joint: Vector) -> float:
    asked = Marginals(TABLE, tuple(PAIRS))
    names = TABLE.names
    exact = [joint.sum(axis=tuple(axis for axis, name in enumerate(names) if name not in pair)) for pair in PAIRS]
    return float(np.abs(fit.model.answer(asked) - np.concatenate([table.ravel() for table in exact])).sum())


@pytest.mark.parametrize("seed", range(3))
def test_one_strong_pair_among_many_that_are_independent_is_followed(seed: int) -> None:
    generator = np.random.default_rng(seed)
    joint = np.exp(2.0 * generator.normal(size=(6, 5)))
    for size in TABLE.sizes[2:]:
        joint = np.multiply.outer(joint, generator.dirichlet(np.full(size, 20.0)))
    joint *= ROWS / joint.sum()
    noisy = measured(joint, 60.0, seed)
    of_orders, own = (fit_model(TABLE, noisy, ROWS, settings) for settings in (OF_ORDERS, OWN))
    assert error(own, joint) < 0.9 * error(of_orders, joint)


def test_a_later_fit_learns_its_own_scales_again() -> None:
    """Scales of the orders may be those of an earlier fit; scales of components are not stored in it."""
    joint = np.full(TABLE.sizes, ROWS / 27_000)
    noisy = measured(joint, 60.0, 1)
    first = fit_model(TABLE, noisy, ROWS, OF_ORDERS)
    again, anew = (fit_model(TABLE, noisy, ROWS, OWN, warm) for warm in (first, None))
    asked = Marginals(TABLE, tuple(PAIRS))
    np.testing.assert_allclose(again.model.answer(asked), anew.model.answer(asked), atol=2.0)
