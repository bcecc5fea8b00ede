"""How much of the budget each marginal gets, in closed form and from public facts only."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcore.measurement import Noise

_STEPS = 1 << 40


def weighted_shares(cells: NDArray[np.int64], weights: NDArray[np.float64], noise: Noise) -> tuple[Fraction, ...]:
    """Shares of the budget that minimise the weighted squared error of measuring each marginal on its own.

    cells: int64 [cliques], cells of each marginal.
    weights: float64 [cliques], positive; the error is sum of (weight * stddev)^2 over all cells.

    With sigma^2 proportional to 1 / share (the Gaussians: zCDP, Gaussian DP) the minimum of sum w^2 n / share is at
    shares proportional to w n^(1/2); with sigma^2 proportional to 1 / share^2 (Laplace, pure) to (w^2 n)^(1/3).

    Returns one share a clique, exact fractions with sum at most 1.
    """
    # Only ratios matter, and squares of unscaled weights could overflow.
    energy = (np.asarray(weights, dtype=np.float64) / np.max(weights)) ** 2 * cells
    wanted = energy ** (1 / 3 if noise is Noise.LAPLACE else 1 / 2)
    return exact_shares(wanted / wanted.sum())


def exact_shares(shares: NDArray[np.float64]) -> tuple[Fraction, ...]:
    """Shares with sum 1 up to rounding as positive multiples of 2^-40 with sum at most 1."""
    steps = np.maximum(1, np.floor(shares * (_STEPS - len(shares)))).astype(np.int64)
    return tuple(Fraction(int(step), _STEPS) for step in steps)


def split_by_size(
    cells: NDArray[np.int64] | NDArray[np.float64], weights: NDArray[np.float64], share: Fraction
) -> tuple[Fraction, ...]:
    """Parts of a share for marginals that are measured once each, sums to at most ``share``.

    cells: Of each marginal; or what multiplies its noise otherwise, up to a common factor.

    Under Gaussian noise sum of weight * cells * sigma, their expected L1 error, is least where 1 / sigma^2 is
    proportional to (weight * cells)^(2/3).
    """
    wanted = (np.asarray(weights, dtype=np.float64) * cells) ** (2 / 3)
    return tuple(share * part for part in exact_shares(wanted / wanted.sum()))
