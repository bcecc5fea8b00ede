from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from dpcore.measurement import Noise
from dpcore.strategies.allocation import weighted_shares

# The variance is proportional to share^-POWER.
POWER = {Noise.GAUSSIAN: 1, Noise.ROUNDED_GAUSSIAN: 1, Noise.LAPLACE: 2}


def loss(shares: NDArray[np.float64], cells: NDArray[np.int64], weights: NDArray[np.float64], noise: Noise) -> float:
    return float((weights**2 * cells / shares ** POWER[noise]).sum())


@pytest.mark.parametrize("noise", list(Noise))
@pytest.mark.parametrize("seed", range(4))
def test_no_other_split_has_a_smaller_error(noise: Noise, seed: int) -> None:
    generator = np.random.default_rng(seed)
    cells, weights = generator.integers(1, 500, 5), generator.exponential(size=5) + 0.05
    shares = np.array([float(share) for share in weighted_shares(cells, weights, noise)])
    best = minimize(
        lambda free: loss(np.exp(free) / np.exp(free).sum(), cells, weights, noise), np.zeros(5), tol=1e-12
    ).fun
    assert loss(shares, cells, weights, noise) == pytest.approx(best, rel=1e-6)


def test_shares_by_hand() -> None:
    cells, weights = np.array([1, 4]), np.array([1.0, 1.0])
    assert float(weighted_shares(cells, weights, Noise.GAUSSIAN)[1]) == pytest.approx(2 / 3, rel=1e-9)
    assert float(weighted_shares(cells, weights, Noise.LAPLACE)[1]) == pytest.approx(4 ** (1 / 3) / (1 + 4 ** (1 / 3)))


@given(
    cells=st.lists(st.integers(1, 10**9), min_size=1, max_size=30),
    exponents=st.lists(st.floats(-300, 300), min_size=30, max_size=30),
    noise=st.sampled_from(list(Noise)),
)
def test_shares_are_positive_and_never_pass_the_budget(cells: list[int], exponents: list[float], noise: Noise) -> None:
    weights = 10.0 ** np.array(exponents[: len(cells)])
    shares = weighted_shares(np.array(cells), weights, noise)
    assert all(share > 0 for share in shares)
    assert 1 - Fraction(len(cells) + 1, 2**39) <= sum(shares) <= 1
