"""Empirical-Bayes estimates: against the exact posterior, and on made data of several kinds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.estimation.clipping.discoveries import q_values
from dpcore.estimation.clipping.estimates import MIN_QUERIES, Estimates, Prediction, estimated
from dpcore.estimation.clipping.loss_curve import LossCurve, Satisfied
from dpcore.estimation.clipping.noise_law import NoiseLaw
from dpcore.estimation.clipping.posterior import Caps, posterior, prior_summary
from dpcore.estimation.clipping.prior import Components, Prior, evaluation_points, learnt_prior
from dpcore.estimation.clipping.support import Support

NOBODY = Satisfied(np.array([1.0]), np.array([10.0]), np.zeros(1))
SUPPORT = Support.up_to(2000.0)
IDENTITY = LossCurve(SUPPORT.points, SUPPORT.points)
HALF = LossCurve(SUPPORT.points, SUPPORT.points / 2)


def gaussian(scale: float) -> NoiseLaw:
    return NoiseLaw(laplace=False, scale=scale, step=1e-6)


def prior_of(weights: dict[int, float], prediction: float) -> Prior:
    components = Components.of(6.0, narrow=True)
    row = np.zeros(components.widths.size)
    for index, weight in weights.items():
        row[index] = weight
    densities = row @ components.densities(prediction, SUPPORT)
    return Prior(components, row[None], np.array([prediction]), densities[None], 0.0)


def test_a_component_is_a_negative_binomial_law() -> None:
    components = Components.of(6.0, narrow=True)
    densities = components.densities(4.0, SUPPORT)[:, :65]
    for index in (0, 3, 10, 20):
        assert densities[index].sum() == pytest.approx(1.0, abs=0.02)
        mean = densities[index] @ np.arange(65)
        assert mean == pytest.approx(4.0 * 2.0 ** components.log_ratios[index] if index else 0.0, rel=0.05, abs=1e-9)
    assert components.start.sum() == pytest.approx(1.0)
    assert components.smoothing().sum(axis=0) == pytest.approx(np.ones(components.widths.size))


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("curve", [IDENTITY, HALF], ids=["no loss", "half"])
def test_the_posterior_is_that_of_the_definition(laplace: bool, curve: LossCurve) -> None:
    """Summed over all whole counts, slowly."""
    noise = NoiseLaw(laplace, 2.5, 1e-6)
    prior = prior_of({0: 0.4, 8: 0.3, 20: 0.3}, 5.0)
    values = np.array([-3.0, 0.5, 4.0, 11.0, 20.0])
    result = posterior(values, noise, prior, np.full(5, 5.0), curve, None, 0.05)
    counts = np.arange(65.0)
    for row, value in enumerate(values):
        distance = np.abs(value - curve.clipped_of(counts)) / 2.5
        weights = np.exp(-distance if laplace else -(distance**2) / 2) * prior.densities[0, :65]
        cumulated = np.cumsum(weights) / weights.sum()
        quantiles = [int(np.searchsorted(cumulated, level)) for level in (0.05, 0.5, 0.95)]
        got = [result.lower[row], result.median[row], result.upper[row]]
        assert np.abs(np.array(got) - quantiles).max() <= (1 if laplace else 0)
        assert result.mean[row] == pytest.approx(weights @ counts / weights.sum(), rel=1e-3, abs=1e-3)


def test_a_cap_keeps_the_posterior_below_it() -> None:
    prior = prior_of({20: 1.0}, 20.0)
    free = posterior(np.array([30.0]), gaussian(8.0), prior, np.array([20.0]), IDENTITY, None, 0.01)
    capped = posterior(
        np.array([30.0]), gaussian(8.0), prior, np.array([20.0]), IDENTITY, Caps(np.array([5.0]), 1.0), 0.01
    )
    assert free.median[0] > 15
    assert capped.upper[0] <= 15


def test_evaluation_points_cover_the_noise_and_are_spaced() -> None:
    points = evaluation_points(500.0, SUPPORT.points, SUPPORT.points, 100.0, 4.0)
    assert points[0] <= 401
    assert points[-1] >= 595
    assert set(np.diff(points)) == {4.0}
    points = evaluation_points(60.0, SUPPORT.points, SUPPORT.points, 20.0, 4.0)
    assert set(np.diff(points[points <= 64])) == {1.0}
    assert len(evaluation_points(1e9, SUPPORT.points, SUPPORT.points, 1.0, 4.0)) >= 1


def made(kind: str, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Exact answers, predictions and the scale of the noise."""
    generator = np.random.default_rng(seed)
    if kind == "sparse":  # Nearly all answers are 0, and a few are large without a warning.
        prediction = np.exp(generator.normal(-3.0, 1.5, 20_000))
        exact = generator.poisson(prediction).astype(float)
        exact[generator.random(20_000) < 0.002] += 60.0
        return exact, prediction, 5.0
    if kind == "dense":  # Predictions are good to 20 %.
        prediction = np.exp(generator.normal(4.0, 1.0, 5_000))
        return generator.poisson(prediction * np.exp(generator.normal(0, 0.2, 5_000))).astype(float), prediction, 30.0
    if kind == "misleading":  # Predictions say nothing.
        return generator.poisson(20.0, 3_000).astype(float), np.exp(generator.normal(2.0, 1.0, 3_000)), 10.0
    prediction = np.exp(generator.normal(1.0, 1.5, 300))
    return generator.poisson(prediction).astype(float), prediction, 8.0


def estimate(
    kind: str, seed: int, *, laplace: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64], Estimates]:
    exact, prediction, scale = made(kind, seed)
    generator = np.random.default_rng([seed, 1])
    noise = generator.laplace(0, scale, exact.size) if laplace else generator.normal(0, scale, exact.size)
    values = exact + noise
    law = NoiseLaw(laplace, scale, 1e-6)
    result, _ = estimated(values, law, [Prediction(prediction, np.empty(0))], NOBODY, None, np.inf)
    return exact, values, result


@pytest.mark.parametrize("laplace", [False, True], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("kind", ["sparse", "dense", "misleading", "small"])
def test_estimates_beat_zeros_values_and_predictions(kind: str, laplace: bool) -> None:
    exact, values, result = estimate(kind, 0, laplace=laplace)
    error = np.abs(result.values - exact).mean()
    _, prediction, _ = made(kind, 0)
    trivial = [np.abs(guess - exact).mean() for guess in (0.0, np.maximum(values, 0), prediction)]
    # Where a few predictions are exact rates, a prior that is learnt from 300 values cannot be as good.
    assert error < (1.3 if kind == "small" else 1.03) * min(trivial)
    assert np.mean((result.lower <= exact) & (exact <= result.upper)) > 0.95
    assert ((result.lower >= 0) & (result.lower <= result.values) & (result.values <= result.upper)).all()


def test_sparse_answers_are_mostly_exact_zeros_and_large_ones_are_kept() -> None:
    exact, _, result = estimate("sparse", 1)
    assert np.mean(result.values[exact == 0] == 0) > 0.97
    assert np.abs(result.values - exact)[exact > 50].mean() < 10


def with_one_value(value: float) -> float:
    """The estimate of a rare query with this value, in standard deviations, among 20,000 queries."""
    exact, prediction, scale = made("sparse", 9)
    values = np.minimum(exact, 2.0) + np.random.default_rng(10).normal(0, scale, exact.size)
    prediction[0], values[0] = 0.05, value * scale
    result, _ = estimated(values, gaussian(scale), [Prediction(prediction, np.empty(0))], NOBODY, None, np.inf)
    return float(result.values[0]) / scale


def test_a_surprising_discovery_is_moved_by_the_largest_change_and_no_further() -> None:
    assert with_one_value(6.0) == pytest.approx(6.0 - 2.05)
    assert with_one_value(7.5) == pytest.approx(7.5 - 2.05)


def test_a_rare_answer_of_a_size_that_noise_explains_stays_small() -> None:
    """All answers are 0. Three queries have a larger prediction, so that hardly anything is learnt for them."""
    values = np.random.default_rng(10).normal(0, 5.0, 20_000)
    prediction = np.full(20_000, 0.02)
    prediction[:3], values[0] = 0.3, 3.6 * 5.0
    result, _ = estimated(values, gaussian(5.0), [Prediction(prediction, np.empty(0))], NOBODY, None, np.inf)
    assert q_values(values, gaussian(5.0))[0] > 0.5
    assert 0 < result.values[0] <= 2.5
    assert result.upper[0] > 10


@pytest.mark.parametrize(("level", "furthest"), [(200.0, 1.25), (0.0, 5.0)], ids=["dense", "nearly all 0"])
def test_exchangeable_estimates_stay_near_their_values_where_that_costs_little(level: float, furthest: float) -> None:
    """The largest change is 1.25 deviations where answers are large, and free where a change costs more than it saves.

    Among answers of 200 with 3 % deviation, a value far off would be drawn to the others altogether.
    """
    generator = np.random.default_rng(11)
    exact = generator.poisson(level, 4_000) + np.where(np.arange(4_000) < 8, 300, 0)
    values = exact + generator.normal(0, 40.0, 4_000)
    result, _ = estimated(values, gaussian(40.0), [], NOBODY, None, np.inf)
    changes = np.abs(result.values - np.maximum(values, 0.0)) / 40.0
    assert changes.max() <= furthest + 1e-9
    if level == 0.0:
        assert changes.max() > 2.5
        assert np.mean(result.values[8:]) < 2.0


def test_the_likeliest_prediction_is_chosen() -> None:
    exact, good, scale = made("dense", 3)
    generator = np.random.default_rng(4)
    values = exact + generator.normal(0, scale, exact.size)
    bad = generator.permutation(good)
    pair = [Prediction(bad, np.empty(0)), Prediction(good, np.empty(0))]
    both, _ = estimated(values, gaussian(scale), pair, NOBODY, None, np.inf)
    alone, _ = estimated(values, gaussian(scale), pair[1:], NOBODY, None, np.inf)
    assert both.values.tolist() == alone.values.tolist()


def test_queries_that_were_not_measured_follow_their_predictions() -> None:
    exact, prediction, scale = made("dense", 5)
    values = exact[:4000] + np.random.default_rng(6).normal(0, scale, 4000)
    _, others = estimated(
        values, gaussian(scale), [Prediction(prediction[:4000], prediction[4000:])], NOBODY, None, np.inf
    )
    assert np.abs(others.values - exact[4000:]).mean() < 1.1 * np.abs(prediction[4000:] - exact[4000:]).mean()
    assert np.mean((others.lower <= exact[4000:]) & (exact[4000:] <= others.upper)) > 0.95


def test_a_prior_extends_to_smaller_predictions() -> None:
    prior = prior_of({18: 1.0}, 40.0)
    summary = prior_summary(prior, np.array([40.0, 4.0]), SUPPORT, 0.01)
    assert summary.mean[0] / summary.mean[1] == pytest.approx(10.0, rel=0.1)


def test_few_values_and_values_without_noise_are_kept() -> None:
    few = np.array([5.0, -2.0, 30.0])
    result, others = estimated(few, gaussian(3.0), [], NOBODY, None, 25.0)
    assert result.values.tolist() == [5.0, 0.0, 25.0]
    assert others.values.size == 0
    assert result.upper[0] == pytest.approx(5 + 1.96 * 3, abs=0.01)
    many = np.arange(MIN_QUERIES, dtype=float)
    exact, _ = estimated(many, gaussian(1e-9), [], NOBODY, None, np.inf)
    assert exact.values == pytest.approx(many)
    assert (exact.upper - exact.lower).max() < 1e-3


def test_losses_are_given_back() -> None:
    """All units lose half of what they add."""
    generator = np.random.default_rng(7)
    prediction = np.exp(generator.normal(3.0, 1.0, 2000))
    exact = generator.poisson(prediction).astype(float)
    values = exact / 2 + generator.normal(0, 4.0, 2000)
    units = Satisfied(np.array([exact.sum() / 10_000]), np.array([10_000.0]), np.array([0.5]))
    result, _ = estimated(values, gaussian(4.0), [Prediction(prediction / 2, np.empty(0))], units, None, np.inf)
    assert result.values.mean() == pytest.approx(exact.mean(), rel=0.05)


def test_the_prior_finds_the_share_of_zeros_and_of_larger_answers() -> None:
    """The noise is a third of the prediction, so that answers of 0 and of 4 times it are seen apart."""
    generator = np.random.default_rng(8)
    ratio = generator.choice([0.0, 1.0, 4.0], p=[0.5, 0.4, 0.1], size=20_000)
    exact = generator.poisson(30.0 * ratio).astype(float)
    prior = learnt_prior(
        exact + generator.normal(0, 10.0, 20_000), gaussian(10.0), np.full(20_000, 30.0), IDENTITY, SUPPORT
    )
    spacing = np.gradient(SUPPORT.points)
    mass = prior.densities[0] * spacing
    points = SUPPORT.points
    assert mass[points < 8].sum() == pytest.approx(0.5, abs=0.08)
    assert mass[(points > 15) & (points < 55)].sum() == pytest.approx(0.4, abs=0.05)
    assert mass[points > 70].sum() == pytest.approx(0.1, abs=0.03)
    assert math.isfinite(prior.log_likelihood)
