"""OPT_0: an integer strategy for the queries about one attribute."""

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

LARGEST_SIZE = 1 << 10  # Values of an attribute: more would take minutes.
_WORTH = 1e-6  # A strategy that gains less than this over a simpler one is not worth its entries.


@dataclass(frozen=True, eq=False)
class AttributeStrategy:
    """Queries A = matrix / denominator about one attribute, from whose answers those of a workload W are made.

    matrix: int64 [p, n]. Its rows span those of W exactly.
    denominator: >= 1.
    reconstruction: W A^+, float64 [m, p]: W x = reconstruction (A x) for every x.
    error: |A|^2 |W A^+|_F^2, where |A| is the largest L1 (Laplace) or L2 norm (Gaussians) of a column: the squared
        error of all answers together at unit noise. Of the rounded matrix, so it holds as it stands.
    bound: No strategy has a smaller error: the dual value (Gaussians), the SVD bound (Laplace, many prefixes).
    """

    matrix: NDArray[np.int64]
    denominator: int
    reconstruction: NDArray[np.float64]
    error: float
    bound: float


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A strategy weights @ basis. weights: float64 [p, r]. basis: int64 [r, n], rows that span those of the workload.

    Rounding the weights never leaves that span, so that what is measured answers the workload without bias.
    """

    weights: NDArray[np.float64]
    basis: NDArray[np.int64]


def attribute_strategy(workload: NDArray[np.int64], noise: Noise, bits: int) -> AttributeStrategy:
    """The best integer strategy found for W.

    workload: W, int64 [m, n], a query a row.
    bits: Entries of the strategy are rounded to multiples of 2^-bits of its largest weight.

    Under the Gaussians the optimum, up to the rounding; under Laplace noise the best of p-Identity strategies. Under
    both not the optimised one where W itself, or the values of the attribute one by one, do as well. For the prefixes
    of more than LARGEST_SIZE values under the Gaussians it is the square-root Toeplitz strategy, whose root mean square
    error is some 6 % above the optimum; LARGEST_MATRIX entries of it must hold them. The same inputs give the same
    strategy.

    Source: thesis of McKenna (2022), section 3.3, OPT_0.

    Raises ValueError for other queries of several values at once on an attribute of more than LARGEST_SIZE values.
    """
    if (np.count_nonzero(workload, axis=1) <= 1).all():
        return _apart(workload, noise)
    if workload.shape[1] > LARGEST_SIZE:
        ordered = _ordered(workload) if noise is not Noise.LAPLACE else 0
        if ordered:
            return _of_prefixes(workload.shape[1], ordered, bits)
        given = f"queries of several values of an attribute of {workload.shape[1]:,} values"
        raise ValueError(f"{given}; want at most {LARGEST_SIZE:,}, as wider bins make them")
    return _strategy(np.ascontiguousarray(workload, dtype=np.int64).tobytes(), workload.shape, noise, bits)


def _apart(workload: NDArray[np.int64], noise: Noise) -> AttributeStrategy:
    """Where no query reads two values: each value that some query reads. For the Gaussians the dual value is tr V."""
    read = np.asarray(workload.any(axis=0))
    squares = (workload[:, read].astype(np.float64) ** 2).sum(axis=0)
    bound = np.sqrt(squares).sum() ** 2 / squares.size if noise is Noise.LAPLACE else squares.sum()
    matrix, reconstruction = np.eye(len(read), dtype=np.int64)[read], workload[:, read].astype(np.float64)
    return AttributeStrategy(matrix, 1, reconstruction, float(squares.sum()), float(bound))


def _ordered(workload: NDArray[np.int64]) -> int:
    """How many prefixes these are, before rows of single values: as of ``ranges.prefix``; 0 for other queries."""
    size = workload.shape[1]
    if len(workload) != size or workload.size > LARGEST_MATRIX:
        return 0
    ordered = int(np.count_nonzero(workload[:, 0]))
    prefixes, rest = workload[:ordered, :ordered], workload[ordered:, ordered:]
    parted = not workload[:ordered, ordered:].any() and not workload[ordered:, :ordered].any()
    triangle = np.tril(np.ones_like(prefixes))
    return ordered if parted and (prefixes == triangle).all() and (rest == np.eye(size - ordered)).all() else 0


@lru_cache(maxsize=2)
def _of_prefixes(size: int, ordered: int, bits: int) -> AttributeStrategy:
    """Values that no prefix holds are measured with as much weight as the sensitivity leaves them."""
    bound = prefix_svd_bound(ordered, size - ordered)
    found = PrefixStrategy.of(ordered, bits)
    weight = math.isqrt(sum(one**2 for one in found.integers.tolist()))
    matrix, reconstruction = weight * np.eye(size, dtype=np.int64), np.eye(size) * (found.denominator / weight)
    matrix[:ordered, :ordered], reconstruction[:ordered, :ordered] = found.matrix(), found.reconstruction.dense()
    matrix.flags.writeable = reconstruction.flags.writeable = False  # The same value answers every later call.
    error = found.squared_sensitivity * float((reconstruction**2).sum())
    return AttributeStrategy(matrix, found.denominator, reconstruction, error, bound)


@lru_cache(maxsize=64)
def _strategy(content: bytes, shape: tuple[int, int], noise: Noise, bits: int) -> AttributeStrategy:
    """Kept, because a workload asks one attribute again and again, and a run what its plan asked."""
    workload = np.frombuffer(content, dtype=np.int64).reshape(shape)
    candidates, bound = _optimised(content, shape, noise)
    made = [rounded for one in candidates for rounded in _rounded(workload, one, noise, bits, bound)]
    best = made[0]
    for other in made[1:]:
        best = other if other.error < best.error * (1 - _WORTH) else best
    return best


@lru_cache(maxsize=64)
def _optimised(content: bytes, shape: tuple[int, int], noise: Noise) -> tuple[Sequence[_Candidate], float]:
    """Strategies to choose from, simple ones first, and a lower bound on the error of all there are."""
    workload = np.frombuffer(content, dtype=np.int64).reshape(shape)
    gram = workload.T.astype(np.float64) @ workload
    spectrum = np.linalg.eigvalsh(gram)
    basis = np.eye(shape[1], dtype=np.int64) if spectrum[0] > 1e-10 * spectrum[-1] else _basis(workload)
    if noise is not Noise.LAPLACE:
        found = gaussian_optimum(gram)
        return [_themselves(basis), _Candidate(_factor(found.gram, basis), basis)], found.bound
    bound = float(np.sqrt(np.maximum(spectrum, 0)).sum() ** 2 / shape[1])
    distinct = np.unique(workload, axis=0)[::-1]
    own = [_themselves(distinct)] if len(distinct) <= 2 * shape[1] else []
    p_identity = _Candidate(best_p_identity(gram)[0], np.eye(shape[1], dtype=np.int64))
    return [_themselves(basis), *own, p_identity], bound


def _themselves(rows: NDArray[np.int64]) -> _Candidate:
    rows = rows[rows.any(axis=1)]
    return _Candidate(np.eye(len(rows)), rows)


def _basis(workload: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of the workload that span all of them, by Gram-Schmidt: next comes the row that is least explained yet."""
    left = workload.astype(np.float64)
    least = 1e-9 * float(np.abs(left).max())
    kept: list[int] = []
    while (largest := int((sizes := np.einsum("ij,ij->i", left, left)).argmax())) not in kept:
        if sizes[largest] <= least**2 * left.shape[1]:
            break
        kept.append(largest)
        unit = left[largest] / math.sqrt(sizes[largest])
        for _twice in range(2):
            left -= np.outer(left @ unit, unit)
    return workload[sorted(kept)]


def _factor(gram: NDArray[np.float64], basis: NDArray[np.int64]) -> NDArray[np.float64]:
    """B, upper triangular, with basis' B'B basis = gram, whose range is that of basis'."""
    inverse = np.linalg.pinv(basis.astype(np.float64))
    within = inverse.T @ gram @ inverse
    return np.asarray(np.linalg.cholesky((within + within.T) / 2).T)


def _rounded(
    workload: NDArray[np.int64], candidate: _Candidate, noise: Noise, bits: int, bound: float
) -> list[AttributeStrategy]:
    """The candidate on the grid, or nothing where rounding takes some query out of its reach."""
    weights, denominator = rounded_rows(candidate.weights / np.abs(candidate.weights).max(), bits)
    matrix = weights @ candidate.basis
    matrix = matrix[matrix.any(axis=1)]
    common = math.gcd(denominator, int(np.gcd.reduce(matrix, axis=None)))
    matrix, denominator = matrix // common, denominator // common
    real = matrix / denominator
    reconstruction = np.asarray(workload @ np.linalg.pinv(real))
    if np.abs(reconstruction @ real - workload).max() > 1e-6 * max(1, int(np.abs(workload).max())):
        return []
    reconstruction[np.abs(reconstruction) < 1e-12 * np.abs(reconstruction).max()] = 0.0  # What the inverse leaves of 0.
    norms = np.abs(real).sum(axis=0) ** 2 if noise is Noise.LAPLACE else (real**2).sum(axis=0)
    error = float(norms.max() * (reconstruction**2).sum())
    reconstruction.flags.writeable = False  # The same value answers every later call.
    return [AttributeStrategy(matrix, denominator, reconstruction, error, bound)]
