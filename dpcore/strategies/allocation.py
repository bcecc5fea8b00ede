"""Closed-form shares of the budget for marginals that are measured one by one, from public facts alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcore.measurement import Noise

_STEPS = 1 << 40  # Shares are multiples of 1 / _STEPS.


def weighted_shares(cells: NDArray[np.int64], weights: NDArray[np.float64], noise: Noise) -> tuple[Fraction, ...]:
    """Shares of the budget that minimise the weighted squared error if each marginal is measured on its own.

    cells: int64 [cliques], the number of cells of each marginal.
    weights: float64 [cliques], positive. The error is the sum of (weight * stddev)^2 over all cells.
    noise: The law of the noise, which determines the noise scale that a share pays for.

    Under Gaussian noise (zCDP, Gaussian DP), sigma^2 is proportional to 1 / share. The sum of w^2 n / share is then
    least for shares proportional to w n^(1/2). Under Laplace noise (pure DP), sigma^2 is proportional to 1 / share^2,
    and the best shares are proportional to (w^2 n)^(1/3).

    Returns one share per clique, as exact fractions whose sum is at most 1.
    """
    # Only ratios of weights matter; squares of unscaled weights could overflow.
    energy = (np.asarray(weights, dtype=np.float64) / np.max(weights)) ** 2 * cells
    optimum = energy ** (1 / 3 if noise is Noise.LAPLACE else 1 / 2)
    return exact_shares(optimum / optimum.sum())


def exact_shares(shares: NDArray[np.float64]) -> tuple[Fraction, ...]:
    """Shares rounded to exact fractions: positive multiples of 2^-40 whose sum is at most 1.

    shares: float64 [shares], non-negative, with sum 1 up to rounding.
    """
    steps = np.maximum(1, np.floor(shares * (_STEPS - len(shares)))).astype(np.int64)
    return tuple(Fraction(int(step), _STEPS) for step in steps)


def split_by_size(
    cells: NDArray[np.int64] | NDArray[np.float64], weights: NDArray[np.float64], share: Fraction
) -> tuple[Fraction, ...]:
    """The parts of a share that minimise the weighted L1 error of marginals measured once each with Gaussian noise.

    cells: [marginals], the number of cells of each marginal, or another factor of its expected L1 error. Only ratios
        matter.
    weights: float64 [marginals], positive: the weight of each marginal's L1 error.
    share: The share of the budget to split, in (0, 1].

    The expected L1 error, the sum of weight * cells * sigma, is least if 1 / sigma^2 is proportional to
    (weight * cells)^(2/3).

    Returns one part per marginal, as exact fractions whose sum is at most ``share``.
    """
    optimum = (np.asarray(weights, dtype=np.float64) * cells) ** (2 / 3)
    return tuple(share * part for part in exact_shares(optimum / optimum.sum()))
