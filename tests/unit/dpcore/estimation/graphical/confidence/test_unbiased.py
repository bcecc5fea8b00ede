"""Unbiased estimates of marginals: their values, and how often their bounds hold, adaptive runs included."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from dpcore.domain import BinaryView, Clique, Domain
from dpcore.estimation.graphical.confidence.noise_tails import l1_of_gaussians, l1_of_sub_gaussians
from dpcore.estimation.graphical.confidence.unbiased import GROWTH, Estimate, Estimates
from dpcore.estimation.graphical.fitting.consistency import LeastSquares
from dpcore.estimation.least_squares import kronecker_times
from dpcore.measurement import Measurement, Noise, noise_stddev
from dpcore.queries import Conjunctions, Marginals, Product, Products
from dpcore.queries.residual_matrices import residual_matrix
from tests.support.drawn_noise import drawn, measured

DOMAIN = Domain.of({"a": 3, "b": 4, "c": 2})
TAIL = 0.1
DRAWS = 1500
ALLOWED = TAIL + 4 * math.sqrt(TAIL / DRAWS)
JOINT = np.random.default_rng(1).integers(0, 40, DOMAIN.sizes).astype(np.float64)


def marginals(*cliques: str) -> Marginals:
    return Marginals(DOMAIN, tuple(tuple(clique) for clique in cliques))


def exact(clique: Clique) -> NDArray[np.float64]:
    return np.asarray(
        JOINT.sum(axis=tuple(axis for axis, name in enumerate(DOMAIN.names) if name not in clique))
    ).ravel()


def measurement(word: str, noise: Noise, scale: float, generator: np.random.Generator) -> Measurement:
    return measured(marginals(word), exact(tuple(word)), noise, scale, generator)


def test_the_average_is_weighted_by_what_is_left_of_each_measurement() -> None:
    generator = np.random.default_rng(2)
    found = [measurement(word, Noise.ROUNDED_GAUSSIAN, scale, generator) for word, scale in [("ab", 2.0), ("abc", 5.0)]]
    first, average = Estimates(DOMAIN, found).of(("b",))
    tables = [found[0].values.reshape(3, 4).sum(axis=0), found[1].values.reshape(3, 4, 2).sum(axis=(0, 2))]
    weights = [1 / (4.0 * 3), 1 / (25.0 * 6)]
    np.testing.assert_allclose(first.values, tables[0])
    np.testing.assert_allclose(average.values, np.average(tables, axis=0, weights=weights))
    least = sum(weights) ** -0.5
    assert least <= average.deviation <= least * math.sqrt(GROWTH) * (1 + 1e-12)
    assert first.deviation == pytest.approx(2 * math.sqrt(3))


def test_unsupported_marginals_have_no_estimate_and_conjunctions_support_none() -> None:
    one_hot = Conjunctions(BinaryView(9), np.array([[0, 4]]), np.array([[False, False]]))
    other = Measurement(one_hot, np.array([5.0]), Noise.GAUSSIAN, 1.0)
    found = Estimates(DOMAIN, [other, measurement("ab", Noise.GAUSSIAN, 2.0, np.random.default_rng(3))])
    assert found.supports(("b", "a"))
    assert not found.supports(("b", "c"))
    assert found.of(("b", "c")) == []
    assert found.sharpest(("c",), 0.1) is None
    assert len(found.of(())) == 1


def test_measurements_may_name_more_attributes_and_in_another_order() -> None:
    found = [measurement("ab", Noise.GAUSSIAN, 2.0, np.random.default_rng(3))]
    (estimate,) = Estimates(Domain.of({"b": 4, "a": 3}), found).of(("a", "b"))
    np.testing.assert_array_equal(estimate.values.reshape(4, 3).T.ravel(), found[0].values)


def test_measurements_of_another_domain_are_refused() -> None:
    other = Domain.of({"a": 3, "b": 5})
    with pytest.raises(ValueError, match="want"):
        Estimates(other, [measurement("ab", Noise.GAUSSIAN, 2.0, np.random.default_rng(3))])


@pytest.mark.parametrize("noise", list(Noise))
@pytest.mark.parametrize("words", [("ab",), ("abc",), ("ab", "abc", "ab"), ("abc", "a", "ab", "ac")])
@pytest.mark.parametrize("scale", [0.6, 6.0])
def test_bounds_hold_as_often_as_asked(noise: Noise, words: tuple[str, ...], scale: float) -> None:
    generator, missed, cell_missed = np.random.default_rng(4), 0, 0
    truth, draws = exact(("a",)), DRAWS // 10
    for _ in range(draws):
        found = Estimates(DOMAIN, [measurement(word, noise, scale, generator) for word in words]).of(("a",))
        missed += any(np.abs(one.values - truth).sum() > one.l1_of_noise(TAIL) for one in found)
        cell_missed += any(abs(one.values[1] - truth[1]) > one.half_width(TAIL) for one in found)
    allowed = draws * (TAIL + 4 * math.sqrt(TAIL / draws))
    assert missed <= allowed
    assert cell_missed <= allowed


@pytest.mark.parametrize("noise", [Noise.GAUSSIAN, Noise.ROUNDED_GAUSSIAN])
def test_stopping_when_the_average_looks_high_breaks_the_plain_interval_but_not_this_one(noise: Noise) -> None:
    """The plain interval takes the number of measurements as given; here it depends on their noise."""
    generator, longest, scale = np.random.default_rng(5), 30, 8.0
    queries, truth = marginals("c"), exact(("c",))
    plain = ours = ours_l1 = 0
    draws = 250
    for _ in range(draws):
        z = drawn(noise, scale, (longest, 2), generator)
        means = np.cumsum(z, axis=0) / np.arange(1, longest + 1)[:, None]
        heights = means[:, 0] * np.sqrt(np.arange(1, longest + 1))
        stop = int(np.argmax(heights > 1.645 * scale)) if (heights > 1.645 * scale).any() else longest - 1
        kept = [Measurement(queries, truth + one, noise, scale) for one in z[: stop + 1]]
        estimate = Estimates(DOMAIN, kept).of(("c",))[-1]
        np.testing.assert_allclose(estimate.values, truth + means[stop])
        plain += abs(means[stop, 0]) > 1.645 * scale / math.sqrt(stop + 1)
        ours += abs(means[stop, 0]) > estimate.half_width(TAIL)
        ours_l1 += np.abs(means[stop]).sum() > estimate.l1_of_noise(TAIL)
    allowed = draws * (TAIL + 4 * math.sqrt(TAIL / draws))
    assert plain > allowed  # So the test can tell.
    assert ours <= allowed
    assert ours_l1 <= allowed


def test_bounds_grow_with_confidence_and_shrink_with_measurements() -> None:
    generator = np.random.default_rng(6)
    few = Estimates(DOMAIN, [measurement("ab", Noise.GAUSSIAN, 6.0, generator) for _ in range(1)])
    many = Estimates(DOMAIN, [measurement("ab", Noise.GAUSSIAN, 6.0, generator) for _ in range(9)])
    one, most = few.sharpest(("a",), TAIL), many.sharpest(("a",), TAIL)
    assert one is not None
    assert most is not None
    for bound in ("half_width", "l1_of_noise"):
        assert getattr(one, bound)(0.01) > getattr(one, bound)(0.1) > getattr(most, bound)(0.1)


def test_the_narrowest_laplace_is_taken_without_averaging() -> None:
    generator = np.random.default_rng(7)
    found = [measurement(word, Noise.LAPLACE, 4.0, generator) for word in ("abc", "ab", "ac")]
    estimates = Estimates(DOMAIN, found).of(("a",))
    assert [one.summands for one in estimates] == [8, 2]
    np.testing.assert_allclose(estimates[1].values, found[2].values.reshape(3, 2).sum(axis=1))
    assert estimates[1].half_width(TAIL) > 1.645 * noise_stddev(Noise.LAPLACE, 4.0)


def residuals(noise: Noise, scale: float, generator: np.random.Generator) -> Measurement:
    """Of all parts of (a, b), with weights that least squares would not choose."""
    cliques: tuple[Clique, ...] = ((), ("a",), ("b",), ("a", "b"))
    found = [
        Product(clique, tuple(map(residual_matrix, DOMAIN.shape(clique))), weight)
        for clique, weight in zip(cliques, (20, 3, 9, 4), strict=True)
    ]
    values = [
        kronecker_times([term.weight * term.matrices[0], *term.matrices[1:]], exact(term.clique))
        if term.clique
        else 20 * exact(())
        for term in found
    ]
    return measured(Products(DOMAIN, tuple(found)), np.concatenate(values), noise, scale, generator)


@pytest.mark.parametrize("noise", [Noise.GAUSSIAN, Noise.ROUNDED_GAUSSIAN])
@pytest.mark.parametrize("scale", [0.6, 30.0])
def test_bounds_of_a_batch_of_residuals_hold_as_often_as_asked(noise: Noise, scale: float) -> None:
    """Alone, and beside a marginal; of what the residuals tell together, and of a part."""
    generator, draws = np.random.default_rng(10), 200
    cliques: tuple[Clique, ...] = (("a", "b"), ("b",))
    missed = np.zeros((2, len(cliques), 2))
    for _ in range(draws):
        one, other = residuals(noise, scale, generator), measurement("ab", noise, scale, generator)
        for beside, found in enumerate(([one], [one, other])):
            estimates = Estimates(DOMAIN, found, (0, len(found)))
            for place, clique in enumerate(cliques):
                assert estimates.supports(clique)
                (estimate,) = estimates.of(clique)
                away = np.abs(estimate.values - exact(clique))
                missed[beside, place] += away.sum() > estimate.l1_of_noise(TAIL), away[1] > estimate.half_width(TAIL)
    assert (missed <= draws * (TAIL + 4 * math.sqrt(TAIL / draws))).all()
    # Not by being far too wide, but where a step of the grid is more than the noise.
    assert missed[..., 1].mean() > draws * TAIL / 3 or (noise, scale) == (Noise.GAUSSIAN, 0.6)
    assert not estimates.supports(("a", "c"))


@pytest.mark.parametrize("noise", [Noise.GAUSSIAN, Noise.ROUNDED_GAUSSIAN])
@pytest.mark.parametrize("scale", [0.6, 6.0])
def test_bounds_of_a_batch_hold_as_often_as_asked(noise: Noise, scale: float) -> None:
    """Of a batch alone, and of one between other measurements."""
    generator, draws, missed = np.random.default_rng(8), 200, np.zeros((2, 2))
    words, truth = ("ab", "ac", "bc", "abc"), exact(("a", "b"))
    for _ in range(draws):
        found = [measurement(word, noise, scale, generator) for word in words]
        later = [measurement("ab", noise, scale, generator)]
        for place, estimates in enumerate(
            (Estimates(DOMAIN, found, (0, 4)), Estimates(DOMAIN, [*later, *found, *later], (1, 5)))
        ):
            noise_of = [one.values - truth for one in estimates.of(("a", "b"))]
            missed[place, 0] += any(
                np.abs(z).sum() > one.l1_of_noise(TAIL)
                for z, one in zip(noise_of, estimates.of(("a", "b")), strict=True)
            )
            missed[place, 1] += any(
                abs(z[5]) > one.half_width(TAIL) for z, one in zip(noise_of, estimates.of(("a", "b")), strict=True)
            )
    assert (missed <= draws * (TAIL + 4 * math.sqrt(TAIL / draws))).all()


def test_a_batch_is_the_least_squares_estimate_and_sharper_than_its_parts() -> None:
    generator = np.random.default_rng(9)
    found = [measurement(word, Noise.ROUNDED_GAUSSIAN, 5.0, generator) for word in ("ab", "ac", "bc") * 4]
    (batch,) = Estimates(DOMAIN, found, (0, 12)).of(("b", "a"))
    table = LeastSquares(DOMAIN, found).marginal(("a", "b"))
    np.testing.assert_allclose(batch.values, table.ravel())
    assert batch.deviation**2 == pytest.approx(LeastSquares(DOMAIN, found).variance(("a", "b")))
    apart = Estimates(DOMAIN, found).sharpest(("a", "b"), TAIL)
    assert apart is not None
    assert batch.half_width(TAIL) < 0.9 * apart.half_width(TAIL)
    half = Estimates(DOMAIN, [*found, *found], (0, 12)).of(("b", "a"))
    assert [one.share for one in half][:2] == [0.25, 0.375]
    assert half[0].half_width(TAIL) > batch.half_width(TAIL)


def test_laplaces_and_products_are_not_batched() -> None:
    found = [measurement(word, Noise.LAPLACE, 4.0, np.random.default_rng(7)) for word in ("ab", "ac")]
    assert [one.share for one in Estimates(DOMAIN, found, (0, 2)).of(("a",))] == [0.75, 0.125]
    assert Estimates(DOMAIN, found, (0, 0)).supports(("a",))


PART = 1 / 20  # Of a tail that rounding gets, as the module says.


def estimate(noise: Noise, summands: int, largest: float = 0.0, cells: int = 6) -> Estimate:
    return Estimate(np.zeros(cells), noise, 2.0, summands, 0.3, 0.9, 0.5, 0.25, largest)


@pytest.mark.parametrize("rounding", [0.3, 30.0])
@pytest.mark.parametrize(("summands", "largest", "sides"), [(0, 0.0, 4), (3, 0.0, 2), (0, 1.5, 2)])
def test_a_cell_of_gaussian_noise_is_as_wide_as_its_part_of_the_tail_says(
    summands: int, largest: float, sides: int, rounding: float
) -> None:
    """Both sides of a cell; for an average the maximum over times too, which the reflection principle doubles."""
    one = replace(estimate(Noise.ROUNDED_GAUSSIAN, summands, largest), rounding=rounding)
    normal = 2.0 * norm.isf(TAIL * 0.5 * (1 - PART) / sides)
    rounded = min(rounding * math.sqrt(2 * math.log(2 / (TAIL * 0.25 * PART))), 0.9)
    assert one.half_width(TAIL) == pytest.approx(normal + rounded, rel=1e-12)


@pytest.mark.parametrize("rounding", [0.01, 30.0])
def test_a_table_of_gaussian_noise_is_as_far_as_its_part_of_the_tail_says(rounding: float) -> None:
    one = replace(estimate(Noise.ROUNDED_GAUSSIAN, 0), rounding=rounding)
    noise = 2.0 * l1_of_gaussians(6, TAIL * 0.5 * (1 - 2 * PART))
    rounded = min(rounding * l1_of_sub_gaussians(6, TAIL * 0.25 * PART), 6 * 0.9)
    assert one.l1_of_noise(TAIL) == pytest.approx(noise + rounded, rel=1e-12)


def test_the_discrete_gaussian_may_use_a_union_over_signs_for_its_part_of_the_tail() -> None:
    one = replace(estimate(Noise.GAUSSIAN, 0), rounding=1e6, sum_of_rounding=1e6)
    assert one.l1_of_noise(TAIL) == pytest.approx(2.0 * l1_of_sub_gaussians(6, TAIL * 0.5 * PART), rel=1e-12)


def test_a_single_measurement_has_the_rounding_of_all_cells_that_it_sums() -> None:
    found = measurement("abc", Noise.GAUSSIAN, 3.0, np.random.default_rng(4))
    (single,) = Estimates(DOMAIN, [found]).of(("b",))
    assert single.summands == 6
    assert single.sum_of_rounding == 6.0
    assert single.rounding == pytest.approx(math.sqrt(6))
    assert single.deviation == pytest.approx(3 * math.sqrt(6))


def test_the_grid_point_of_an_average_is_never_below_the_sum() -> None:
    generator = np.random.default_rng(5)
    for scale in (1.0, 1.9, 3.3, 20.0):
        found = [measurement("ab", Noise.GAUSSIAN, size, generator) for size in (2.0, scale)]
        _, average = Estimates(DOMAIN, found).of(("a",))
        weights = [1 / (size**2 * 4) for size in (2.0, scale)]
        assert average.deviation >= sum(weights) ** -0.5 * (1 - 1e-12)
        points = math.log(average.deviation**2 * sum(weights) ** 2 / weights[0]) / math.log(GROWTH)
        assert points == pytest.approx(round(points), abs=1e-9), "a point of the grid"
        number = round(points)
        assert average.share == pytest.approx(0.75 if number == 0 else 1 / (4 * number * (number + 1)))
