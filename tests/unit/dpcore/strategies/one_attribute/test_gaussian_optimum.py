"""The certified optimum against published figures, dense formulas and a general optimiser."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from dpcore.queries.ranges import all_ranges, prefix
from dpcore.strategies.one_attribute.gaussian_optimum import gaussian_optimum

SIGMA = 4.2246788893268326  # Of the published figures: the analytic Gaussian mechanism at epsilon 1, delta 1e-6.
WIDTH_32 = np.array([[start <= cell < start + 32 for cell in range(64)] for start in range(33)], dtype=np.int64)


def gram_of(workload: NDArray[np.int64]) -> NDArray[np.float64]:
    return workload.T.astype(np.float64) @ workload


def error_of(gram: NDArray[np.float64], strategy: NDArray[np.float64]) -> float:
    return float(np.trace(gram @ np.linalg.pinv(strategy, rcond=1e-10)) * strategy.diagonal().max())


@pytest.mark.parametrize(("workload", "published"), [(prefix(64), 8.87), (all_ranges(64), 9.73), (prefix(256), 10.66)])
def test_it_is_the_published_optimum(workload: NDArray[np.int64], published: float) -> None:
    """Thesis, Table 3.3."""
    result = gaussian_optimum(gram_of(workload))
    assert SIGMA * math.sqrt(result.error / len(workload)) == pytest.approx(published, abs=0.006)


def test_queries_of_less_than_full_rank_beat_the_published_figure() -> None:
    """Thesis, Table 3.3: 8.74, where its optimiser stops short."""
    result = gaussian_optimum(gram_of(WIDTH_32))
    assert 8.6962 < SIGMA * math.sqrt(result.bound / 33) <= SIGMA * math.sqrt(result.error / 33) < 8.697


@pytest.mark.parametrize("workload", [prefix(64), all_ranges(20), WIDTH_32, prefix(7, 5)])
def test_the_certificate_holds(workload: NDArray[np.int64]) -> None:
    """The gap is tiny, the error is that of the matrix, and the bound is never below the SVD bound."""
    gram = gram_of(workload)
    result = gaussian_optimum(gram)
    assert 0 <= result.gap <= 1e-6
    assert result.gram.diagonal().max() == pytest.approx(1.0, abs=1e-9)
    assert np.linalg.eigvalsh(result.gram)[0] >= -1e-9
    assert error_of(gram, result.gram) == pytest.approx(result.error, rel=1e-5)
    singular = np.linalg.svd(workload, compute_uv=False)
    assert result.bound >= singular.sum() ** 2 / gram.shape[0] * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_a_general_optimiser_finds_nothing_better(seed: int) -> None:
    generator = np.random.default_rng(seed)
    workload = generator.integers(0, 2, (6, 4))
    workload[0, :] = 1
    gram = gram_of(workload)

    def error(entries: NDArray[np.float64]) -> float:
        factor = np.zeros((4, 4))
        factor[np.triu_indices(4)] = entries
        strategy = factor.T @ factor + 1e-9 * np.eye(4)
        return float(np.trace(gram @ np.linalg.inv(strategy)) * strategy.diagonal().max())

    options = {"maxiter": 20_000, "maxfev": 20_000, "xatol": 1e-9, "fatol": 1e-9}
    start = np.eye(4)[np.triu_indices(4)] + 0.1 * generator.random(10)
    other = minimize(error, start, method="Nelder-Mead", options=options).fun
    result = gaussian_optimum(gram)
    assert other >= result.bound * (1 - 1e-6)
    assert result.error <= other * (1 + 1e-6)


@pytest.mark.parametrize("size", [2, 5, 6, 17, 40])
def test_halves_give_the_optimum_of_the_whole(size: int) -> None:
    """Ranges stay the same when the values are turned round; after a swap of two values they do not."""
    gram = gram_of(all_ranges(size))
    order = np.arange(size)
    order[[0, size // 2]] = order[[size // 2, 0]]
    swapped = gram[np.ix_(order, order)]
    if size > 2:
        assert not np.array_equal(swapped, swapped[::-1, ::-1])
    halves, whole = gaussian_optimum(gram, gap=1e-10), gaussian_optimum(swapped, gap=1e-10)
    assert halves.error == pytest.approx(whole.error, rel=1e-8)
    assert np.allclose(halves.gram[np.ix_(order, order)], whole.gram, atol=1e-5)
    assert np.array_equal(halves.gram, halves.gram.T)
    assert error_of(gram, halves.gram) == pytest.approx(halves.error, rel=1e-8)


@pytest.mark.parametrize(("workload", "steps"), [(prefix(64), 30), (all_ranges(64), 12), (WIDTH_32, 150)])
def test_it_takes_few_decompositions(workload: NDArray[np.int64], steps: int) -> None:
    """Without extrapolation 42, 9 and 548."""
    assert gaussian_optimum(gram_of(workload)).steps <= steps


def test_values_that_no_query_reads_get_nothing() -> None:
    workload = np.array([[1, 0, 1, 0], [0, 0, 1, 0]])
    result = gaussian_optimum(gram_of(workload))
    assert not result.gram[:, [1, 3]].any()
    assert result.error == pytest.approx(gaussian_optimum(gram_of(workload[:, [0, 2]])).error)


def test_one_query_is_measured_as_it_stands() -> None:
    result = gaussian_optimum(np.ones((5, 5)))
    assert np.allclose(result.gram, 1.0)
    assert result.error == pytest.approx(1.0)


def test_a_workload_of_zeros_is_refused() -> None:
    with pytest.raises(ValueError, match="a workload of zeros; want"):
        gaussian_optimum(np.zeros((3, 3)))


def test_the_gap_of_an_early_stop_is_told() -> None:
    early, late = (gaussian_optimum(gram_of(prefix(64)), steps=steps) for steps in (2, 500))
    assert early.steps == 2
    assert early.gap > 1e-3
    assert early.error > late.error > late.bound > early.bound
