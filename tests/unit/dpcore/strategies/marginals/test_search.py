"""Errors of shares against loops and finite differences, and what the search promises."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from dpcore.measurement import Noise
from dpcore.strategies.marginals import search as module
from dpcore.strategies.marginals.problem import MarginalProblem
from dpcore.strategies.marginals.search import best_shares
from dpcore.strategies.marginals.subset_sums import subset_products

noises = pytest.mark.parametrize("noise", [Noise.LAPLACE, Noise.GAUSSIAN])


def problem(noise: Noise, seed: int = 0, max_cells: float = np.inf) -> MarginalProblem:
    generator = np.random.default_rng(seed)
    sizes = generator.integers(2, 9, 4)
    workload = generator.choice(16, 5, replace=False)
    inside = np.array([any(a & b == a for b in workload.tolist()) for a in range(16)])
    energies = inside * generator.random(16) * 10
    cells = subset_products(sizes, np.ones(4))
    return MarginalProblem(energies, generator.random(4), cells, workload, max_cells, noise)


@noises
@pytest.mark.parametrize("dense", [True, False])
def test_the_error_and_its_gradient(noise: Noise, dense: bool) -> None:
    given = problem(noise)
    subsets = np.arange(16)
    shares = np.random.default_rng(1).random(16)
    matrix = given.columns(subsets) if dense else None

    def slow(values: np.ndarray) -> float:
        total = 0.0
        for a in range(16):
            lam = 0.0
            for b in range(16):
                if a & b == a:
                    outside = [given.alphas[i] for i in range(4) if (b & ~a) >> (3 - i) & 1]
                    lam += values[b] * np.prod(outside)
            total += given.energies[a] / lam
        return total

    error, pulls = given.evaluated(subsets, shares, matrix)
    powers = shares**given.power
    assert error == pytest.approx(slow(powers))
    assert np.allclose(pulls, -approx_fprime(powers, slow, 1e-7), rtol=1e-4)


@noises
def test_too_few_subsets_have_infinite_error(noise: Noise) -> None:
    given = problem(noise)
    error, pulls = given.evaluated(np.array([0]), np.ones(1), given.columns(np.array([0])))
    assert error == np.inf
    assert not pulls.any()


@noises
@pytest.mark.parametrize("seed", range(6))
def test_nothing_near_is_better(noise: Noise, seed: int) -> None:
    given = problem(noise, seed)
    result, bound = best_shares(given, 1e7)
    assert result.shares.sum() == pytest.approx(1)
    assert result.shares.min() > 0
    assert bound <= result.error * (1 + 1e-12)
    generator = np.random.default_rng(seed)
    whole = np.zeros(16)
    whole[result.subsets] = result.shares
    for size in (1e-1, 1e-3):
        for _ in range(200):
            other = np.maximum(whole * np.exp(size * generator.normal(size=16)), 0)
            other[generator.integers(16)] += size * generator.random()
            error, _ = given.evaluated(np.arange(16), other / other.sum(), None)
            assert error > result.error * (1 - 2e-6)


@pytest.mark.parametrize("seed", range(6))
def test_under_the_gaussians_it_is_the_optimum(seed: int) -> None:
    given = problem(Noise.GAUSSIAN, seed)
    result, bound = best_shares(given, 1e9)
    assert result.error <= bound * (1 + 3e-6)
    assert bound >= given.closed_form()[0] * (1 - 1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_a_descent_never_climbs(seed: int) -> None:
    given = problem(Noise.LAPLACE, seed)
    search = module._Search(given, 1e6, 0)
    shares = np.random.default_rng(seed).random(16)
    errors = [search._descended(np.arange(16), shares, None, steps=steps)[0].error for steps in range(1, 60)]
    assert errors[0] <= given.evaluated(np.arange(16), shares / shares.sum(), None)[0]
    assert all(later <= earlier for earlier, later in pairwise(errors))


@noises
def test_large_marginals_are_left_out_unless_asked_for(noise: Noise) -> None:
    for seed in range(4):
        given = problem(noise, seed, max_cells=10)
        result, _ = best_shares(given, 1e6)
        assert np.isfinite(result.error)
        assert all(given.cells[b] <= 10 or b in given.workload for b in result.subsets)


def test_the_same_seed_makes_the_same_choice() -> None:
    one, other = (best_shares(problem(Noise.LAPLACE, 3), 1e7, 5)[0] for _ in range(2))
    assert np.array_equal(one.subsets, other.subsets)
    assert np.array_equal(one.shares, other.shares)


def test_its_numbers_are_scattered_evenly() -> None:
    """SplitMix64 of Steele, Lea and Flood (2014): its first outputs from the state 0, as published."""
    draws = module._Draws(0)
    first = draws.many(3)
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert first.tolist() == pytest.approx([number / 2**64 for number in published], abs=2.0**-50)
    many = draws.many(100_000)
    assert many.min() > 0
    assert many.max() < 1
    assert np.histogram(many, 10, (0, 1))[0] == pytest.approx(np.full(10, 10_000), abs=400)
    assert abs(np.corrcoef(many[:-1], many[1:])[0, 1]) < 0.01
