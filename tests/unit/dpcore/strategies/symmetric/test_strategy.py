"""Integer strategies of blocks against the dense matrices that they stand for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.queries import Products
from dpcore.strategies.symmetric.optimum import symmetric_optimum
from dpcore.strategies.symmetric.strategy import SymmetricStrategy, symmetric_strategy
from dpcore.strategies.symmetric.symmetry import SymmetricGram
from dpcore.strategies.symmetric.variances import answer_variances
from tests.benchmarks.matrix import sf1
from tests.support import symmetric_cases
from tests.unit.dpcore.strategies.small_unions import DOMAIN, SIGMA, dense, dense_gram, union

SEEDS = range(5)


def strategy_of(seed: int, bits: int = 24, weights: np.ndarray | None = None) -> SymmetricStrategy:
    queries = union(seed)
    return symmetric_strategy(queries, symmetric_optimum(SymmetricGram.of(queries, weights)), bits)


def dense_matrix(strategy: SymmetricStrategy) -> NDArray[np.float64]:
    """A, written out entry by entry from its definition."""
    return symmetric_cases.dense(strategy.queries).astype(np.float64)


@pytest.mark.parametrize("bits", [12, 24])
@pytest.mark.parametrize("seed", SEEDS)
def test_sensitivity_and_error_are_those_of_the_dense_matrix(seed: int, bits: int) -> None:
    result = strategy_of(seed, bits)
    matrix = dense_matrix(result)
    assert np.array_equal(matrix, np.rint(matrix))
    assert np.allclose(result.matrix.column_norms(1), np.abs(matrix).sum(axis=0))
    assert result.matrix.sensitivity(2) == pytest.approx(np.linalg.norm(matrix, axis=0).max())
    inverse = np.linalg.pinv(matrix, rcond=1e-9)
    variance = sum(float(((each @ inverse) ** 2).sum()) for each in dense(union(seed)))
    assert result.variance == pytest.approx(variance, rel=1e-6)
    assert result.bound <= result.error
    if bits == 24:
        assert result.gap < 1e-5


@pytest.mark.parametrize("seed", SEEDS)
def test_every_answer_of_the_workload_is_in_reach(seed: int) -> None:
    """Also after coarse rounding."""
    result = strategy_of(seed, 8)
    matrix = dense_matrix(result)
    counts = np.random.default_rng(seed).integers(0, 30, DOMAIN.size())
    answers = result.queries.of_table(counts, int(counts.sum()))
    assert np.array_equal(answers, matrix.astype(np.int64) @ counts)
    table = result.estimate(answers.astype(np.float64))
    assert np.allclose(table, np.linalg.pinv(matrix, rcond=1e-9) @ answers, atol=1e-6)
    for each in dense(union(seed)):
        assert np.allclose(each @ table, each @ counts, atol=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_read_backwards_are_the_transposed_matrix(seed: int) -> None:
    result = strategy_of(seed)
    matrix = dense_matrix(result)
    answers = np.random.default_rng(seed).normal(size=len(matrix))
    pairs = zip(result.queries.blocks, result.matrix.parts(answers), strict=True)
    table = result.matrix.transposed_read([block.matrix.T @ part for block, part in pairs])
    assert np.allclose(table, matrix.T @ answers, rtol=1e-9, atol=1e-3)


def test_least_squares_is_the_one_of_the_noise() -> None:
    """Of answers out of reach too, those of the nearest table."""
    result = strategy_of(1)
    matrix = dense_matrix(result)
    y = np.random.default_rng(0).normal(size=len(matrix)) * 1e6
    assert np.allclose(result.estimate(y), np.linalg.pinv(matrix, rcond=1e-9) @ y, rtol=1e-6, atol=1e-6)


def test_weights_of_terms_count() -> None:
    weights = np.array([0.5, 2.0, 0.0, 3.0, 1.0])
    result = strategy_of(2, weights=weights)
    inverse = np.linalg.pinv(dense_matrix(result), rcond=1e-9)
    assert result.variance == pytest.approx(np.trace(inverse.T @ dense_gram(union(2), weights) @ inverse), rel=1e-6)


def test_too_few_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="bits makes a weight 0; want more bits"):
        strategy_of(0, 0)


def test_too_many_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="want fewer bits"):
        strategy_of(0, 40)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_variances_are_those_of_the_dense_inverse(seed: int, weighted: bool) -> None:
    weights = np.array([0.5, 2.0, 0.0, 3.0, 1.0]) if weighted else None
    result, queries = strategy_of(seed, weights=weights), union(seed)
    kept = Products(queries.domain, queries.terms if weights is None else (*queries.terms[:2], *queries.terms[3:]), 2)
    inverse = np.linalg.pinv(dense_matrix(result), rcond=1e-9)
    expected = np.concatenate([((each @ inverse) ** 2).sum(axis=1) for each in dense(kept)])
    assert np.allclose(4 * answer_variances(result, kept), expected, rtol=1e-6)


def test_the_census_variances_add_up() -> None:
    queries = sf1.sf1()
    result = symmetric_strategy(queries, symmetric_optimum(SymmetricGram.of(queries), gap=1e-2))
    variances = answer_variances(result, queries)
    assert variances.shape == (sf1.ANSWERS,)
    assert variances.sum() == pytest.approx(result.variance, rel=1e-6)


@pytest.mark.full
def test_the_census_strategy_of_integers_is_optimal() -> None:
    """Thesis, Table 3.5: 9.80 for SF1. Fewer values are measured than the 4,151 answers asked."""
    queries = sf1.sf1()
    result = symmetric_strategy(queries, symmetric_optimum(SymmetricGram.of(queries), gap=1e-4))
    assert 8.0444 < SIGMA * math.sqrt(result.error / sf1.ANSWERS) < 8.046
    assert result.queries.size < sf1.ANSWERS
    counts = np.random.default_rng(0).integers(0, 1000, queries.domain.size())
    answers = result.queries.of_table(counts, int(counts.sum())).astype(np.float64)
    table = result.estimate(answers).reshape(queries.domain.sizes)
    exact = counts.reshape(queries.domain.sizes)
    for term in queries.terms:
        axes = tuple(axis for axis, name in enumerate(queries.domain.names) if name not in term.clique)
        told, asked = table.sum(axis=axes), exact.sum(axis=axes)
        for matrix in term.matrices:  # Each goes to the back, so that the next is in front.
            told, asked = np.tensordot(told, matrix, axes=(0, 1)), np.tensordot(asked, matrix, axes=(0, 1))
        assert np.allclose(told, asked, rtol=1e-8)
