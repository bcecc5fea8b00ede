"""Posterior means of noisy tables, against a slow sum over the grid of scales for tables of one degree of freedom."""

from __future__ import annotations

import numpy as np

from dpcore.estimation.reconstruction.scale_mixture import SIZES, NoisyTables, centred, posterior_deviations


def tables(signal: float, count: int = 200, stddev: float = 10.0, size: int = 2, seed: int = 0) -> NoisyTables:
    """Centred tables of given spread around equal expected counts, with noise."""
    generator = np.random.default_rng(seed)
    shape = (count, size, size)
    noisy = centred(generator.normal(0, signal, shape)) + centred(generator.normal(0, stddev, shape))
    return NoisyTables(noisy, np.full(shape, 400.0), np.full(count, stddev**2))


def ratio(group: NoisyTables) -> float:
    (means,) = posterior_deviations([group]).means()
    return float(np.linalg.norm(means) / np.linalg.norm(group.deviations))


def test_noise_alone_is_shrunk_away() -> None:
    assert ratio(tables(signal=0.0)) < 0.2


def test_strong_deviations_stay() -> None:
    assert ratio(tables(signal=1000.0)) > 0.99


def test_between_them_the_best_linear_estimate_is_near() -> None:
    """All tables have one spread: the best factor is that of a normal prior with this spread."""
    assert abs(ratio(tables(signal=10.0, count=2_000)) - 0.5) < 0.06


def test_one_strong_table_among_many_without_signal_is_kept() -> None:
    group = tables(signal=0.0)
    deviations = group.deviations.copy()
    deviations[7] = centred(np.array([[[400.0, 0.0], [0.0, 0.0]]]))[0] * 4
    (means,) = posterior_deviations([NoisyTables(deviations, group.expected, group.variances)]).means()
    assert np.abs(means[7] / deviations[7] - 1).max() < 0.05
    assert np.abs(means[8]).max() < 0.5 * np.abs(deviations[8]).max()


def test_means_are_centred_and_groups_share_a_prior() -> None:
    small, large = tables(signal=0.0, size=2), tables(signal=0.0, size=5, seed=1)
    means = list(posterior_deviations([small, large]).means())
    for mean in means:
        assert np.abs(mean.sum(axis=1)).max() < 1e-9
        assert np.abs(mean.sum(axis=2)).max() < 1e-9
    assert float(np.linalg.norm(means[1]) / np.linalg.norm(large.deviations)) < 0.2


def test_the_right_expectation_has_the_larger_likelihood() -> None:
    group = tables(signal=0.0)
    wrong = np.full((2, 2), 40.0) * np.array([[1, -1], [-1, 1]])
    right = posterior_deviations([group]).log_likelihood()
    shifted = posterior_deviations(
        [NoisyTables(group.deviations + wrong, group.expected, group.variances)]
    ).log_likelihood()
    assert right > shifted + 100


def test_no_tables_give_no_means() -> None:
    nothing = posterior_deviations([])
    assert (list(nothing.means()), nothing.log_likelihood(), list(nothing.sizes())) == ([], 0.0, [])


def test_sizes_are_those_of_the_deviations() -> None:
    """Tables without signal are mostly small; strong ones are not; and each distribution sums to 1."""
    generator = np.random.default_rng(3)
    expected, noise = np.full((40, 2, 2), 100.0), 5.0
    signs = np.array([[1.0, -1.0], [-1.0, 1.0]])
    weak, strong = np.zeros((20, 2, 2)), 60.0 * signs * np.ones((20, 1, 1))
    deviations = np.concatenate([weak, strong]) + noise * generator.standard_normal((40, 1, 1)) * signs / 2
    (sizes,) = posterior_deviations([NoisyTables(deviations, expected, np.full(40, noise**2))]).sizes()
    np.testing.assert_allclose(sizes.sum(axis=1), 1.0)
    above_noise = sizes[:, noise**2 < SIZES].sum(axis=1)
    assert np.median(above_noise[:20]) < 0.1
    assert above_noise[20:].min() > 0.95


def test_among_many_tables_without_signal_fewer_are_taken_for_large() -> None:
    generator = np.random.default_rng(4)
    signs, noise = np.array([[1.0, -1.0], [-1.0, 1.0]]), 5.0

    def large(count: int) -> float:
        deviations = noise * generator.standard_normal((count, 1, 1)) * signs / 2
        expected, variances = np.full((count, 2, 2), 100.0), np.full(count, noise**2)
        (sizes,) = posterior_deviations([NoisyTables(deviations, expected, variances)]).sizes()
        return float(np.median(sizes[:, noise**2 < SIZES].sum(axis=1)))

    assert 0 < large(3_000) < large(30) / 10
