"""Gaussian copulas within classes, from noisy counts."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from dpcore.estimation.copula import Copula, class_correlations, class_values, correlation_of, median_split


@pytest.mark.parametrize("correlation", [-0.9, -0.3, 0.0, 0.45, 0.97])
@pytest.mark.parametrize("cuts", [(0.0, 0.0), (0.4, -1.1), (1.5, 1.2)])
def test_correlations_are_those_of_the_bivariate_normal_distribution(
    correlation: float, cuts: tuple[float, float]
) -> None:
    """The slow reference: scipy's distribution function."""
    both = multivariate_normal.cdf(cuts, cov=[[1, correlation], [correlation, 1]])
    solved = correlation_of(np.array([cuts[0]]), np.array([cuts[1]]), np.array([both]))
    # At high cuts a strongly negative correlation moves the chance by less than double precision shows.
    assert solved[0] == pytest.approx(correlation, abs=0.01)


def test_chances_that_no_correlation_has_give_the_nearest() -> None:
    cut = np.zeros(2)
    assert np.abs(correlation_of(cut, cut, np.array([-0.2, 0.9])) - [-0.995, 0.995]).max() < 1e-6


def test_the_split_is_nearest_to_the_median() -> None:
    assert [median_split(np.array(values)) for values in ([3, 3], [9, 1, 1], [1, 1, 9], [20, 30, 40, 10])] == [
        1,
        1,
        2,
        2,
    ]


def test_without_noise_classes_keep_their_values_and_with_much_they_share_them() -> None:
    tables, sizes = np.array([[90.0, 10.0], [20.0, 80.0]]), np.array([100.0, 100.0])
    assert np.allclose(class_values(tables, sizes, 0), tables / 100)
    assert np.allclose(class_values(tables, sizes, 1e4), [[0.55, 0.45], [0.55, 0.45]])


def drawn(rows: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Correlations of two classes, and from rows at zero cuts the chances below and the sums of products."""
    truth = np.stack([np.full((3, 3), 0.5), np.full((3, 3), -0.2)])
    truth[:, range(3), range(3)] = 1
    generator, products = np.random.default_rng(0), []
    for matrix in truth:
        sides = np.sign(generator.multivariate_normal(np.zeros(3), matrix, rows))
        products.append((sides.T @ sides)[np.triu_indices(3, 1)])
    return truth, np.full((2, 3), 0.5), np.array(products)


def test_correlations_of_classes_are_estimated_from_sides() -> None:
    truth, below, products = drawn(40_000)
    estimated = class_correlations(below, products, np.full(2, 40_000.0), 1.0)
    assert np.abs(estimated - truth).max() < 0.03


def test_noise_far_above_the_signal_leaves_no_correlation() -> None:
    _, below, products = drawn(1_000)
    noise = np.random.default_rng(1).normal(0, 1e5, products.shape)
    estimated = class_correlations(below, products + noise, np.full(2, 1_000.0), 1e5)
    assert np.abs(estimated - np.eye(3)).max() < 0.7
    assert np.linalg.eigvalsh(estimated).min() > 0


def test_rows_have_the_classes_values_and_correlations() -> None:
    correlations = np.array([[[1, 0.8], [0.8, 1]], [[1, -0.8], [-0.8, 1]]])
    values = (np.array([[0.2, 0.8], [0.5, 0.5]]), np.array([[0.3, 0.3, 0.4], [0.1, 0.8, 0.1]]))
    classes, codes = Copula(np.array([0.75, 0.25]), values, correlations).rows(40_000, np.random.default_rng(0))
    assert np.bincount(classes).tolist() == [30_000, 10_000]
    for index in (0, 1):
        part = codes[classes == index]
        for axis, chances in enumerate(values):
            assert np.abs(np.bincount(part[:, axis]) / len(part) - chances[index]).max() < 1e-3
        assert np.sign(np.corrcoef(part.T)[0, 1]) == (1 if index == 0 else -1)


def test_few_rows_of_many_classes_add_up() -> None:
    copula = Copula(np.full(7, 1 / 7), (np.ones((7, 1)),), np.ones((7, 1, 1)))
    classes, codes = copula.rows(5, np.random.default_rng(0))
    assert (len(classes), codes.shape) == (5, (5, 1))
