"""Counts of single attributes from noisy ones."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, gamma, norm

from dpcore.domain import Domain
from dpcore.estimation.graphical.fitting import empirical_bayes_counts as one_way
from dpcore.estimation.graphical.fitting.empirical_bayes_counts import (
    _EVEN,
    _OPEN,
    _PSEUDO_ATTRIBUTES,
    _SHAPES,
    NoisyCounts,
    _Posteriors,
    _shape_probabilities,
    posterior_counts,
    with_posterior_counts,
)
from dpcore.estimation.graphical.fitting.fit import FitSettings, fit_model
from dpcore.estimation.graphical.fitting.linear_measurements import LinearMeasurement
from dpcore.estimation.independent import to_simplex
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals

Vector = NDArray[np.float64]
SPARSE = np.array([900.0, 60.0, 40.0, *np.zeros(27)])
EVEN = np.full(8, 125.0)
ONE_LARGE = np.array([44_000.0, *np.full(41, 100.0)])


def noisy(counts: Vector, stddev: float, seed: int) -> Vector:
    """With the sum of the counts."""
    noise = np.random.default_rng(seed).normal(0, stddev, counts.size)
    return np.asarray(counts + noise - noise.mean())


def alone(values: Vector, stddev: float, total: float) -> Vector:
    """The counts of the only attribute."""
    return posterior_counts([NoisyCounts(values, stddev)], total)[0]


def reference(values: Vector, stddev: float, mean: float, freedom: float) -> Vector:
    """Medians by sums over a dense grid of counts, of posteriors averaged over the shapes; for values close to 0.

    freedom: As many counts as the noisy ones tell.
    """
    grid = np.linspace(0, 3 * values.max() + 30 * stddev, 40_001)
    cuts = np.array([0.0, *(grid[1:] - grid[1] / 2), grid[-1]])
    joint, logarithms = [], []
    for shape in _SHAPES:
        below, above = gamma.cdf(cuts, shape, scale=mean / shape), gamma.sf(cuts, shape, scale=mean / shape)
        prior = np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))
        joint.append(prior * norm.pdf(values[:, None], grid, stddev))
        logarithms.append(freedom * np.log(joint[-1].sum(axis=1)).mean())
    likelihoods = np.exp(np.array(logarithms) - max(logarithms))
    chances = likelihoods * learnt([likelihoods])
    chances /= chances.sum()
    mixed = sum(chance * part / part.sum(axis=1, keepdims=True) for chance, part in zip(chances, joint, strict=True))
    passed = np.cumsum(mixed, axis=1)
    return np.asarray(grid[np.argmax(passed >= 0.5, axis=1)])


def learnt(likelihoods: list[Vector]) -> Vector:
    """How common each shape is, by many small steps."""
    chances = np.full(len(_SHAPES), 1 / len(_SHAPES))
    for _ in range(1_000):
        sums = np.sum([chances * row / (chances * row).sum() for row in likelihoods], axis=0)
        chances = (sums + _PSEUDO_ATTRIBUTES / len(_SHAPES)) / (len(likelihoods) + _PSEUDO_ATTRIBUTES)
    return np.asarray((1 - _OPEN) * chances + _OPEN / len(_SHAPES))


@pytest.mark.parametrize("counts", [SPARSE[:9], EVEN], ids=["sparse", "even"])
@pytest.mark.parametrize("stddev", [100.0, 300.0])
def test_counts_are_posterior_medians(counts: Vector, stddev: float) -> None:
    values = noisy(counts, stddev, 1)
    wanted = reference(values, stddev, values.mean(), values.size - 1)
    wanted *= values.sum() / wanted.sum()
    np.testing.assert_allclose(alone(values, stddev, values.sum()), wanted, atol=0.02 * stddev)


@pytest.mark.parametrize("first", [-40.0, 15.0, 480.0, 985.0, 1_020.0])
@pytest.mark.parametrize("stddev", [20.0, 200.0, 3_000.0])
def test_counts_of_two_values_are_posterior_medians(first: float, stddev: float) -> None:
    """By sums over quantiles of the prior, of posteriors averaged over the shapes."""
    posteriors, likelihoods = [], []
    chances = (np.arange(100_000) + 0.5) / 100_000
    for shape in _SHAPES:
        counts = 1_000.0 * beta.ppf(chances, shape, shape)
        weights = norm.pdf(first, counts, stddev) + 1e-300
        posteriors.append((counts, weights / weights.sum()))
        likelihoods.append(weights.mean())
    mixed = np.array(likelihoods) * learnt([np.array(likelihoods)])
    counts = np.concatenate([counts for counts, _ in posteriors])
    weights = np.concatenate(
        [part * weights for part, (_, weights) in zip(mixed / mixed.sum(), posteriors, strict=True)]
    )
    ascending = np.argsort(counts)
    median = counts[ascending][np.searchsorted(np.cumsum(weights[ascending]), 0.5)]
    found = alone(np.array([first, 1_000.0 - first]), stddev, 1_000.0)
    np.testing.assert_allclose(found, [median, 1_000.0 - median], atol=0.03 * min(stddev, 500.0))


def test_how_common_each_shape_is_follows_from_all_attributes() -> None:
    evidence = np.random.default_rng(11).normal(0, 3, (20, len(_SHAPES)))
    np.testing.assert_allclose(_shape_probabilities(evidence), learnt(list(np.exp(evidence))), atol=2e-3)
    np.testing.assert_allclose(_shape_probabilities(evidence[:0]), _EVEN)


def test_attributes_teach_each_other() -> None:
    """Where nearly all rows have one of two values in each attribute, noise says less of another attribute."""
    values = np.array([930.0, 70.0])
    others = [NoisyCounts(np.array([1_000.0 + shift, -shift]), 100.0) for shift in np.linspace(-90, 90, 30)]
    together = posterior_counts([NoisyCounts(values, 100.0), *others], 1_000.0)[0]
    assert together[1] < 0.3 * alone(values, 100.0, 1_000.0)[1]


@pytest.mark.smoke(2)
@pytest.mark.parametrize("large", [990.0, 1_900.0])
@pytest.mark.parametrize("mean", [1.0, 10.0, 40.0])
def test_a_count_that_neither_noise_nor_prior_explains_is_a_posterior_median(mean: float, large: float) -> None:
    values = np.array([large, 700.0, *noisy(np.zeros(60), 100.0, 7)])
    values += mean - values.mean()
    attribute = NoisyCounts(np.array([*values, 1e6]), 100.0)  # The last one is known.
    posteriors = _Posteriors.of(attribute, attribute.values.sum())
    found = posteriors.medians(_shape_probabilities(posteriors.evidence[None]))
    np.testing.assert_allclose(found, reference(values, 100.0, mean, values.size - 1), atol=6.0)


@pytest.mark.parametrize("size", [1, 2, 30, 5_000])
@pytest.mark.parametrize("stddev", [1e-6, 1.0, 1e5])
def test_counts_are_positive_and_sum_to_the_total(size: int, stddev: float) -> None:
    values = noisy(np.random.default_rng(0).gamma(0.3, 1_000.0, size), stddev, 2)
    found = alone(values, stddev, 1_234.5)
    assert (found > 0).all()
    assert found.sum() == pytest.approx(1_234.5)


@pytest.mark.parametrize("zeros", [100, 2_000])
def test_many_counts_are_as_if_each_had_a_posterior_of_its_own(zeros: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there is a gap between the largest and the others."""
    counts = np.array([900.0, *np.zeros(zeros)])
    values = counts + np.random.default_rng(8).normal(0, 100.0, counts.size)
    found = alone(values, 100.0, 900.0)
    monkeypatch.setattr(one_way, "_KNOTS", counts.size)
    assert np.abs(found - alone(values, 100.0, 900.0)).sum() < 0.03 * 900.0


@pytest.mark.parametrize(
    ("large", "small", "stddev"), [(1e7, 5_000, 300.0), (2e5, 1_000, 300.0), (44_000.0, 41, 150.0)]
)
def test_a_known_count_moves_no_further_than_its_noise(large: float, small: int, stddev: float) -> None:
    rest = np.random.default_rng(9).gamma(0.1, 1_000.0, small)
    values = noisy(np.array([large, *rest]), stddev, 10)
    total = large + rest.sum()
    assert abs(alone(values, stddev, total)[0] - values[0]) < 2.5 * stddev


def test_counts_far_above_the_noise_stay() -> None:
    values = noisy(np.array([500.0, 30_000.0, 2_000.0]), 10.0, 3)
    np.testing.assert_allclose(alone(values, 10.0, values.sum()), values)


@pytest.mark.parametrize(
    ("counts", "stddev", "factor"),
    [(SPARSE, 60.0, 0.9), (EVEN, 60.0, 0.9), (ONE_LARGE, 150.0, 0.8)],
    ids=["sparse", "even", "one large"],
)
def test_they_are_closer_than_the_projection_on_the_simplex(counts: Vector, stddev: float, factor: float) -> None:
    total, likely, projected = counts.sum(), 0.0, 0.0
    for seed in range(40):
        values = noisy(counts, stddev, seed)
        likely += np.abs(alone(values, stddev, total) - counts).sum()
        projected += np.abs(total * to_simplex(values / total) - counts).sum()
    assert likely < factor * projected


def test_only_centred_terms_of_one_attribute_change() -> None:
    values = noisy(SPARSE, 60.0, 4)
    single = LinearMeasurement(("a",), values - values.mean(), 60.0**-2, centred=True)
    whole = LinearMeasurement(("a",), values, 60.0**-2)
    pair = LinearMeasurement(("a", "b"), np.arange(60.0) - 29.5, 60.0**-2, centred=True)
    changed, *others = with_posterior_counts([single, whole, pair], 1_000.0)
    assert others == [whole, pair]
    assert changed.precision == single.precision
    stddev = 60.0 * (29 / 30) ** 0.5
    np.testing.assert_allclose(changed.values + 1_000.0 / 30, alone(values, stddev, 1_000.0))


def test_a_fit_with_learnt_priors_gives_these_counts() -> None:
    values, domain = noisy(SPARSE, 60.0, 5), Domain.of({"a": 30})
    asked = Marginals(domain, (("a",),))
    seen = [Measurement(asked, values, Noise.GAUSSIAN, 60.0)]
    own, fixed = (
        fit_model(domain, seen, 1_000.0, FitSettings(empirical_bayes=own)).model.answer(asked) for own in (True, False)
    )
    wanted = alone(values, 60.0 * (29 / 30) ** 0.5, 1_000.0)
    assert np.abs(own - wanted).sum() < 60.0 * 0.1 * 30
    assert np.abs(own - SPARSE).sum() < np.abs(fixed - SPARSE).sum()
