"""Square-root Toeplitz strategies: prefixes of a large attribute under Gaussian noise, planned in O(n log n)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import scipy.fft
import scipy.linalg
from numpy.typing import NDArray

from dpcore.frozen import frozen
from dpcore.queries.products import rounded_rows
from dpcore.queries.ranges import LARGEST_MATRIX

Real = NDArray[np.float64]

_MAX_BITS: Final = 28  # Bits of a coefficient; the squared norm of a column of a million then stays below 2^60.


@dataclass(frozen=True, eq=False)
class PrefixStrategy:
    """The integer strategy for all prefixes of n values: a lower triangular Toeplitz matrix A = integers / denominator.

    Query i is the sum over j <= i of integers[i - j] x_j, an exact integer as long as it fits into 64 bits. The
    prefixes are R y with R = P A^-1, another lower triangular Toeplitz matrix. A is the square root of the prefix
    matrix P, rounded to a public grid. R is computed from the rounded A, so the answers are unbiased. To first order, a
    rounding error e in A is -e in R; the two cancel in the squared error |A|^2 |R|_F^2 of all prefixes together, to
    which rounding adds only a term of order n / denominator^2.

    integers: int64 [n], the coefficients; the first one is positive.
    denominator: The common denominator of the coefficients, >= 1.

    Raises ValueError for other coefficients, and if doubles are too imprecise to reconstruct the prefixes.

    Source: Fichtenberger, Henzinger and Upadhyay (2023), "Constant matters", for the square root of P; the rounding is
    this project's.
    """

    integers: NDArray[np.int64]
    denominator: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "integers", frozen(self.integers, np.int64))
        if self.integers.ndim != 1 or not self.integers.size or self.integers[0] < 1 or self.denominator < 1:
            raise ValueError("coefficients that do not begin with a positive integer; want int64 [n] over n >= 1")

    @classmethod
    def of(cls, size: int, bits: int = 16) -> PrefixStrategy:
        """The strategy for all prefixes, with rounded coefficients.

        size: The number of values, >= 1.
        bits: Coefficients are rounded to multiples of 2^-bits; 0 .. 28.

        Raises ValueError for size < 1, and for bits outside 0 .. 28.
        """
        if not 0 <= bits <= _MAX_BITS:
            raise ValueError(f"coefficients of {bits} bits; want 0 .. {_MAX_BITS}")
        integers, denominator = rounded_rows(square_root_of_prefixes(size)[None], bits)
        return cls(integers[0], denominator)

    def matrix(self) -> NDArray[np.int64]:
        """The integers as a dense matrix, int64 [n, n], as ``Products`` hold them.

        Raises ValueError for more than LARGEST_MATRIX entries, which is 2,048 values.
        """
        return np.asarray(_lower_toeplitz(self.integers), dtype=np.int64)

    def reconstruction(self) -> Real:
        """R = P A^-1, which maps measured values to prefixes, as a dense matrix: float64 [n, n].

        Raises ValueError for more than LARGEST_MATRIX entries, which is 2,048 values.
        """
        return np.asarray(_lower_toeplitz(self.reconstruction_coefficients), dtype=np.float64)

    @cached_property
    def reconstruction_coefficients(self) -> Real:
        """The first column of R, which is constant along its diagonals: float64 [n]."""
        return np.cumsum(inverse_series(self.integers / self.denominator))

    @property
    def squared_sensitivity(self) -> float:
        """|A|^2, the squared L2 norm of the first column, which is the largest; computed exactly, then rounded once."""
        return float(sum(integer**2 for integer in self.integers.tolist()) / self.denominator**2)


def square_root_of_prefixes(size: int) -> Real:
    """The first coefficients of (1 - x)^(-1/2), whose square is the series of the prefix matrix: float64 [size].

    size: The number of coefficients, >= 1.

    c_0 = 1, c_k = c_(k-1) (1 - 1 / (2 k)). The strategy for ``size`` prefixes then has the squared error
    S_(n-1) (S_0 + ... + S_(n-1)) at unit noise, with S_i = c_0^2 + ... + c_i^2. Its root-mean-square error is about 6 %
    above the minimum, at any size.

    Raises ValueError for size < 1.
    """
    if size < 1:
        raise ValueError(f"{size} values; want 1 or more")
    steps = np.arange(1, size, dtype=np.float64)
    return np.concatenate([[1.0], np.cumprod(1 - 1 / (2 * steps))])


def prefix_svd_bound(size: int, others: int = 0) -> float:
    """The SVD bound: a lower bound on the squared error of every strategy, at unit noise.

    size: The number n of prefixes, whose singular values are 1 / (2 sin((2 k - 1) pi / (4 n + 2))), k = 1 .. n.
    others: The number of further values that are queried one by one.

    Source: thesis of McKenna (2022), Definition 12.
    """
    singular = 0.5 / np.sin((2 * np.arange(1, size + 1) - 1) * (math.pi / (4 * size + 2)))
    return float((singular.sum() + others) ** 2 / (size + others))


def inverse_series(coefficients: Real) -> Real:
    """The first n coefficients of 1 / (c_0 + c_1 x + ... + c_(n-1) x^(n-1)), float64 [n], by Newton's iteration.

    coefficients: c, float64 [n].

    Raises ValueError if c_0 is 0, and if the inverse grows too fast for doubles.
    """
    if coefficients[0] == 0:
        raise ValueError("a series that begins with 0 has no inverse; want another first coefficient")
    size = coefficients.size
    inverse = np.array([1 / coefficients[0]])
    while inverse.size < size:
        inverse = _newton_step(inverse, coefficients[: min(2 * inverse.size, size)])
    inverse = _newton_step(inverse, coefficients)
    residual = _series_product(coefficients[:, None], inverse[:, None])[:, 0]
    residual[0] -= 1
    if not np.abs(residual).max() < 1e-9:  # Also true for a residual that is not finite.
        raise ValueError("a series whose inverse grows too fast for doubles; want one closer to that of prefixes")
    return inverse


def _lower_toeplitz(coefficients: NDArray[Any]) -> NDArray[Any]:
    """The dense matrix A[i, j] = coefficients[i - j] for j <= i, and 0 elsewhere."""
    if coefficients.size**2 > LARGEST_MATRIX:
        raise ValueError(f"{coefficients.size:,} prefixes; want at most {math.isqrt(LARGEST_MATRIX):,} written out")
    return np.asarray(np.tril(scipy.linalg.toeplitz(coefficients)))


def _newton_step(inverse: Real, coefficients: Real) -> Real:
    """g (2 - c g), which has twice as many correct coefficients as the approximate inverse g."""
    padded = np.zeros((coefficients.size, 1))
    padded[: inverse.size, 0] = inverse
    correction = -_series_product(coefficients[:, None], padded)
    correction[0] += 2
    return _series_product(padded, correction)[:, 0]


def _series_product(left: Real, right: Real) -> Real:
    """The first n coefficients of the column-wise products of two arrays [n, 1] and [n, k]: float64 [n, k]."""
    size = len(left)
    length = scipy.fft.next_fast_len(2 * size - 1, real=True)
    product = scipy.fft.rfft(left, length, axis=0) * scipy.fft.rfft(right, length, axis=0)
    return np.asarray(scipy.fft.irfft(product, length, axis=0)[:size], dtype=np.float64)
