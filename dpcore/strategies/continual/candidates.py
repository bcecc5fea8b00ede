"""The strategies for a series of counts: daily, tree, square root, and the optimum under Gaussian noise."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpcore.queries.products import rounded_rows
from dpcore.strategies.continual.strategy import ContinualStrategy
from dpcore.strategies.one_attribute.gaussian_optimum import gaussian_optimum
from dpcore.strategies.one_attribute.toeplitz import PrefixStrategy

Real = NDArray[np.float64]

LARGEST_STEPS = 1 << 10  # Largest number of steps of a series; the optimum of more would take minutes.
_BITS = 16  # Entries are rounded to multiples of 2^-16; the error then differs from the optimum's by about 1e-5.
_SMALLEST_PIVOT = 2.0**-8  # Rounding moves a smaller pivot by more than about 0.2 %.
_RIDGE = 1e-6  # Relative weight of single steps, with which the optimum of any workload estimates every step.


def daily(steps: int) -> ContinualStrategy:
    """Every step by itself: the identity matrix.

    Raises ValueError for more than LARGEST_STEPS steps.
    """
    _check(steps)
    return ContinualStrategy(np.eye(steps, dtype=np.int64), 1, np.arange(steps))


def tree(steps: int) -> ContinualStrategy:
    """The binary tree over the steps: the sums of 2^h steps that begin at multiples of 2^h, for every height h.

    A sum is measured at its last step. Sums that would end after the last step are left out.

    Raises ValueError for more than LARGEST_STEPS steps.

    Source: Dwork, Naor, Pitassi and Rothblum (2010); Chan, Shi and Song (2011).
    """
    _check(steps)
    rows, ends = [], []
    for end in range(1, steps + 1):
        width = 1
        while end % width == 0:
            row = np.zeros(steps, dtype=np.int64)
            row[end - width : end] = 1
            rows.append(row)
            ends.append(end - 1)
            width *= 2
    return ContinualStrategy(np.stack(rows), 1, np.array(ends))


def square_root(steps: int) -> ContinualStrategy:
    """The square root of the prefix matrix, rounded: a lower triangular Toeplitz matrix.

    Raises ValueError for more than LARGEST_STEPS steps.

    Source: Fichtenberger, Henzinger and Upadhyay (2023).
    """
    _check(steps)
    toeplitz = PrefixStrategy.of(steps, _BITS)
    return ContinualStrategy(toeplitz.matrix(), toeplitz.denominator, np.arange(steps))


def best(gram: Real) -> tuple[ContinualStrategy, float]:
    """The optimum under Gaussian noise as a lower triangular matrix, and a lower bound on the error of every strategy.

    gram: V = W'W of the queries about the series, times their squared weights: float64 [T, T].

    The error of a strategy A under Gaussian noise depends on X = A'A alone, and so does its sensitivity. Every positive
    definite X has a lower triangular factor, L with L'L = X (a Cholesky factorisation with the steps reversed), which
    can be measured step by step. So nothing is lost by the order of the steps: the certified optimum of all matrices
    can be run continually. With L square, the unbiased estimate of a query from all steps is that from the steps so
    far.

    Returns the strategy, rounded to a grid, and the bound: a lower bound on the squared error of all queries together
    at unit noise and sensitivity 1, whether or not they are answered step by step.

    Raises ValueError for more than LARGEST_STEPS steps, and for a workload of zeros.

    Source: Denisov, McMahan, Rush, Smith and Thakurta (2022), Theorem 2.1 and its proof, for the rotation; the optimum
    is that of ``gaussian_optimum``.
    """
    steps = len(gram)
    _check(steps)
    optimum = gaussian_optimum(gram)
    factor = _lower_factor(optimum.gram)
    if factor is None:  # The workload does not determine every step.
        ridged = gaussian_optimum(gram + _RIDGE * float(gram.diagonal().max()) * np.eye(steps))
        factor = _lower_factor(ridged.gram)
    if factor is None:
        raise ValueError("an optimum too close to singular for 16 bits; want queries of more steps")
    matrix, denominator = rounded_rows(factor / np.abs(factor).max(), _BITS)
    common = math.gcd(denominator, int(np.gcd.reduce(matrix, axis=None)))
    return ContinualStrategy(matrix // common, denominator // common, np.arange(steps)), optimum.bound


def _lower_factor(gram: Real) -> Real | None:
    """The lower triangular L with L'L = X; None if it is so close to singular that rounding might change its rank."""
    try:
        upper = np.linalg.cholesky(gram[::-1, ::-1]).T
    except np.linalg.LinAlgError:
        return None
    return np.asarray(upper[::-1, ::-1]) if upper.diagonal().min() >= _SMALLEST_PIVOT else None


def _check(steps: int) -> None:
    if not 1 <= steps <= LARGEST_STEPS:
        raise ValueError(f"a series of {steps:,} steps; want 1 to {LARGEST_STEPS:,}, as longer steps make them")
