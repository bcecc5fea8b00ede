"""OPT_0: the best integer strategy for the queries about one attribute."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcore.measurement import Noise
from dpcore.queries import rounded_rows
from dpcore.queries.ranges import LARGEST_MATRIX
from dpcore.strategies.one_attribute.gaussian_optimum import gaussian_optimum
from dpcore.strategies.one_attribute.p_identity import best_p_identity
from dpcore.strategies.one_attribute.toeplitz import PrefixStrategy, prefix_svd_bound

LARGEST_SIZE = 1 << 10  # Largest attribute for which a strategy is optimised; more values would take minutes.
_MIN_GAIN = 1e-6  # The simpler of two strategies is preferred if the relative gain is below this.


@dataclass(frozen=True, eq=False)
class AttributeStrategy:
    """An integer strategy A = matrix / denominator for the queries W about one attribute.

    matrix: int64 [p, n]. Its rows span those of W exactly.
    denominator: The common denominator of the strategy's entries, >= 1.
    reconstruction: W A^+, float64 [m, p], with W x = reconstruction (A x) for every x.
    error: |A|^2 |W A^+|_F^2 of the rounded matrix: the squared error of all answers together at unit noise. |A| is the
        largest column norm, L1 under Laplace noise and L2 under Gaussian noise.
    bound: A lower bound on the error of every strategy: the dual value under Gaussian noise, or the SVD bound under
        Laplace noise and for prefixes of more than LARGEST_SIZE values.
    """

    matrix: NDArray[np.int64]
    denominator: int
    reconstruction: NDArray[np.float64]
    error: float
    bound: float


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A candidate strategy, weights @ basis.

    Rounding the weights keeps the strategy within the span of the basis, so the measured values still answer the
    workload without bias.

    weights: float64 [p, r].
    basis: int64 [r, n], rows that span the rows of the workload.
    """

    weights: NDArray[np.float64]
    basis: NDArray[np.int64]


def attribute_strategy(workload: NDArray[np.int64], noise: Noise, bits: int) -> AttributeStrategy:
    """The best integer strategy found for the queries W about one attribute: OPT_0.

    workload: W, int64 [m, n], one query per row.
    noise: The law of the noise, which determines the norm of the sensitivity.
    bits: Entries of the strategy are rounded to multiples of 2^-bits of its largest weight.

    Under Gaussian noise the strategy is the optimum up to rounding; under Laplace noise it is the best p-Identity
    strategy found. If W itself, or the single values of the attribute, have the same error, these are preferred. For
    prefixes of more than LARGEST_SIZE values under Gaussian noise the strategy is the square-root Toeplitz strategy,
    whose root-mean-square error is about 6 % above the optimum; its matrix has at most LARGEST_MATRIX entries. The same
    inputs give the same strategy.

    Raises ValueError for an attribute of more than LARGEST_SIZE values, unless each query reads one value or the
    queries are such prefixes.

    Source: thesis of McKenna (2022), section 3.3, OPT_0.
    """
    if (np.count_nonzero(workload, axis=1) <= 1).all():
        return _single_values(workload, noise)
    if workload.shape[1] > LARGEST_SIZE:
        prefixes = _count_prefixes(workload) if noise is not Noise.LAPLACE else 0
        if prefixes:
            return _prefix_strategy(workload.shape[1], prefixes, bits)
        subject = f"queries of several values of an attribute of {workload.shape[1]:,} values"
        raise ValueError(f"{subject}; want at most {LARGEST_SIZE:,}, as wider bins make them")
    return _best_rounded(np.ascontiguousarray(workload, dtype=np.int64).tobytes(), workload.shape, noise, bits)


def _single_values(workload: NDArray[np.int64], noise: Noise) -> AttributeStrategy:
    """The strategy that measures each value that some query reads; for workloads whose queries read one value each."""
    is_read = np.asarray(workload.any(axis=0))
    squares = (workload[:, is_read].astype(np.float64) ** 2).sum(axis=0)
    bound = np.sqrt(squares).sum() ** 2 / squares.size if noise is Noise.LAPLACE else squares.sum()
    matrix, reconstruction = np.eye(len(is_read), dtype=np.int64)[is_read], workload[:, is_read].astype(np.float64)
    return AttributeStrategy(matrix, 1, reconstruction, float(squares.sum()), float(bound))


def _count_prefixes(workload: NDArray[np.int64]) -> int:
    """The number of prefixes if the workload is a matrix of ``ranges.prefix``, and 0 otherwise."""
    size = workload.shape[1]
    if len(workload) != size or workload.size > LARGEST_MATRIX:
        return 0
    count = int(np.count_nonzero(workload[:, 0]))
    prefixes, rest = workload[:count, :count], workload[count:, count:]
    block_diagonal = not workload[:count, count:].any() and not workload[count:, :count].any()
    triangle = np.tril(np.ones_like(prefixes))
    return count if block_diagonal and (prefixes == triangle).all() and (rest == np.eye(size - count)).all() else 0


@lru_cache(maxsize=2)
def _prefix_strategy(size: int, prefixes: int, bits: int) -> AttributeStrategy:
    """The Toeplitz strategy; values outside all prefixes get the largest weight that the sensitivity allows."""
    bound = prefix_svd_bound(prefixes, size - prefixes)
    toeplitz = PrefixStrategy.of(prefixes, bits)
    weight = math.isqrt(sum(integer**2 for integer in toeplitz.integers.tolist()))
    matrix, reconstruction = weight * np.eye(size, dtype=np.int64), np.eye(size) * (toeplitz.denominator / weight)
    matrix[:prefixes, :prefixes] = toeplitz.matrix()
    reconstruction[:prefixes, :prefixes] = toeplitz.reconstruction()
    matrix.flags.writeable = reconstruction.flags.writeable = False  # The cached value is shared by later calls.
    error = toeplitz.squared_sensitivity * float((reconstruction**2).sum())
    return AttributeStrategy(matrix, toeplitz.denominator, reconstruction, error, bound)


@lru_cache(maxsize=64)
def _best_rounded(content: bytes, shape: tuple[int, int], noise: Noise, bits: int) -> AttributeStrategy:
    """The best candidate after rounding.

    Cached, because many terms of a workload share the queries about an attribute, and a plan and its run need the same
    strategy.
    """
    workload = np.frombuffer(content, dtype=np.int64).reshape(shape)
    candidates, bound = _candidates(content, shape, noise)
    strategies = [rounded for each in candidates for rounded in _rounded_candidate(workload, each, noise, bits, bound)]
    best = strategies[0]
    for strategy in strategies[1:]:
        best = strategy if strategy.error < best.error * (1 - _MIN_GAIN) else best
    return best


@lru_cache(maxsize=64)
def _candidates(content: bytes, shape: tuple[int, int], noise: Noise) -> tuple[Sequence[_Candidate], float]:
    """The candidate strategies, simple ones first, and a lower bound on the error of every strategy."""
    workload = np.frombuffer(content, dtype=np.int64).reshape(shape)
    gram = workload.T.astype(np.float64) @ workload
    spectrum = np.linalg.eigvalsh(gram)
    basis = np.eye(shape[1], dtype=np.int64) if spectrum[0] > 1e-10 * spectrum[-1] else _spanning_rows(workload)
    if noise is not Noise.LAPLACE:
        optimum = gaussian_optimum(gram)
        return [_unweighted(basis), _Candidate(_factor(optimum.gram, basis), basis)], optimum.bound
    bound = float(np.sqrt(np.maximum(spectrum, 0)).sum() ** 2 / shape[1])
    distinct = np.unique(workload, axis=0)[::-1]
    workload_itself = [_unweighted(distinct)] if len(distinct) <= 2 * shape[1] else []
    p_identity = _Candidate(best_p_identity(gram)[0], np.eye(shape[1], dtype=np.int64))
    return [_unweighted(basis), *workload_itself, p_identity], bound


def _unweighted(rows: NDArray[np.int64]) -> _Candidate:
    """The non-zero rows as a strategy."""
    rows = rows[rows.any(axis=1)]
    return _Candidate(np.eye(len(rows)), rows)


def _spanning_rows(workload: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of the workload that span all rows, chosen by Gram-Schmidt with pivoting on the largest residual."""
    residuals = workload.astype(np.float64)
    min_norm = 1e-9 * float(np.abs(residuals).max())
    kept: list[int] = []
    while (largest := int((squares := np.einsum("ij,ij->i", residuals, residuals)).argmax())) not in kept:
        if squares[largest] <= min_norm**2 * residuals.shape[1]:
            break
        kept.append(largest)
        unit = residuals[largest] / math.sqrt(squares[largest])
        for _twice in range(2):
            residuals -= np.outer(residuals @ unit, unit)
    return workload[sorted(kept)]


def _factor(gram: NDArray[np.float64], basis: NDArray[np.int64]) -> NDArray[np.float64]:
    """The upper triangular B with basis' B'B basis = gram, for a gram whose range is that of basis'."""
    inverse = np.linalg.pinv(basis.astype(np.float64))
    reduced = inverse.T @ gram @ inverse
    return np.asarray(np.linalg.cholesky((reduced + reduced.T) / 2).T)


def _rounded_candidate(
    workload: NDArray[np.int64], candidate: _Candidate, noise: Noise, bits: int, bound: float
) -> list[AttributeStrategy]:
    """The rounded candidate, in a list; empty if rounding makes some query unanswerable."""
    weights, denominator = rounded_rows(candidate.weights / np.abs(candidate.weights).max(), bits)
    matrix = weights @ candidate.basis
    matrix = matrix[matrix.any(axis=1)]
    common = math.gcd(denominator, int(np.gcd.reduce(matrix, axis=None)))
    matrix, denominator = matrix // common, denominator // common
    real = matrix / denominator
    reconstruction = np.asarray(workload @ np.linalg.pinv(real))
    if np.abs(reconstruction @ real - workload).max() > 1e-6 * max(1, int(np.abs(workload).max())):
        return []
    reconstruction[np.abs(reconstruction) < 1e-12 * np.abs(reconstruction).max()] = 0.0  # Rounding errors of 0.
    norms = np.abs(real).sum(axis=0) ** 2 if noise is Noise.LAPLACE else (real**2).sum(axis=0)
    error = float(norms.max() * (reconstruction**2).sum())
    reconstruction.flags.writeable = False  # The cached value is shared by later calls.
    return [AttributeStrategy(matrix, denominator, reconstruction, error, bound)]
