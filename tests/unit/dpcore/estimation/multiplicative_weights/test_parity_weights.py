"""Multiplicative weights on parities against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.estimation.multiplicative_weights.parity_weights import follow_parities, parity_indices, walsh_hadamard

DOMAIN = Domain.of({"a": 2, "b": 2, "c": 2, "d": 2})
CELLS = np.stack(np.unravel_index(np.arange(16), DOMAIN.sizes), axis=1)
TRUTH = np.random.default_rng(0).dirichlet(np.full(16, 2.0))
UNIFORM = np.full(16, 1 / 16)
CLIQUES = [("a",), ("b",), ("c",), ("d",), ("a", "b"), ("b", "d"), ("a", "c", "d")]
MATRIX = np.array([(-1.0) ** CELLS[:, list(DOMAIN.axes(clique))].sum(axis=1) for clique in CLIQUES])


def test_the_transform_is_the_matrix_of_parities() -> None:
    assert np.allclose(walsh_hadamard(TRUTH)[parity_indices(DOMAIN, CLIQUES)], MATRIX @ TRUTH)
    assert np.allclose(walsh_hadamard(walsh_hadamard(TRUTH)), 16 * TRUTH)
    assert walsh_hadamard(np.array([3.0])).tolist() == [3.0]


@pytest.mark.parametrize("size", [0, 3, 12])
def test_a_length_that_is_no_power_of_two_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="want a vector of 2\\^d cells"):
        walsh_hadamard(np.ones(size))


def test_it_ends_where_the_parities_are_the_measured_ones() -> None:
    result = follow_parities(UNIFORM, parity_indices(DOMAIN, CLIQUES), MATRIX @ TRUTH, within=1e-9, iterations=5000)
    assert np.allclose(MATRIX @ result, MATRIX @ TRUTH, atol=1e-8)
    assert result.sum() == pytest.approx(1)
    # Of largest entropy among them: its logarithm is a sum of the measured parities.
    weights = np.linalg.lstsq(np.vstack([np.ones(16), MATRIX]).T, np.log(result), rcond=None)[0]
    assert np.allclose(np.vstack([np.ones(16), MATRIX]).T @ weights, np.log(result), atol=1e-9)


def test_the_first_step_is_that_of_multiplicative_weights() -> None:
    values = 0.1 * (MATRIX @ TRUTH)
    result = follow_parities(UNIFORM, parity_indices(DOMAIN, CLIQUES), values, within=0, iterations=1)
    expected = UNIFORM * np.exp(MATRIX.T @ (values - MATRIX @ UNIFORM) / len(CLIQUES))
    assert np.allclose(result, expected / expected.sum())


def test_it_stops_as_soon_as_it_is_near_enough() -> None:
    places, values = parity_indices(DOMAIN, CLIQUES), MATRIX @ TRUTH
    far = float(np.sqrt(np.mean(values**2)))
    assert np.array_equal(follow_parities(UNIFORM, places, values, within=1.01 * far, iterations=50), UNIFORM)
    near = follow_parities(UNIFORM, places, values, within=0.5 * far, iterations=50)
    assert 0 < np.sqrt(np.mean((values - MATRIX @ near) ** 2)) <= 0.5 * far


def test_values_of_no_distribution_end_in_a_positive_one() -> None:
    values = 40 * (MATRIX @ TRUTH) + 3
    result = follow_parities(UNIFORM, parity_indices(DOMAIN, CLIQUES), values, within=0, iterations=200)
    assert np.isfinite(result).all()
    assert result.min() >= 0
    assert result.sum() == pytest.approx(1)
