"""p-Identity strategies for queries about one attribute under Laplace noise: a weighted identity and p more queries."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

_MAX_VALUES_ALL_STARTS = 300  # Up to this many values every start is tried; each takes a second or less.
_VALUES_PER_ROW = 16  # p = n / 16, as in section 3.8 of the thesis.
_GOLDEN = 0.6180339887498949  # The golden ratio minus 1, the step of the Weyl sequence.
_BRANCHES = 4  # Branching factor of the tree of blocks.
_MAX_THETA = 1e3  # Keeps the weight of each single value at 1e-3 or more; rounding costs about the square of Theta.


def best_p_identity(workload: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """The best p-Identity strategy found for a few values of p and a few starts each: OPT_0 under Laplace noise.

    workload: V = W'W, float64 [n, n], symmetric and positive semidefinite.

    For 1,000 values this takes half a CPU minute; the time grows with the cube of the number of values.

    Returns the strategy and its error, as ``p_identity`` does.

    Source: thesis of McKenna (2022), Definition 15, with p as in section 3.8.
    """
    n = len(workload)
    all_starts = n <= _MAX_VALUES_ALL_STARTS
    sizes = sorted({1, min(2, n // 4), n // _VALUES_PER_ROW} - {0}) if all_starts else [n // _VALUES_PER_ROW]
    strategies = [p_identity(workload, start) for p in sizes for start in starts(p, n)[:: 1 if all_starts else 2]]
    return min(strategies, key=lambda strategy: strategy[1])


def p_identity(workload: NDArray[np.float64], start: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """The p-Identity strategy at a local minimum of the error.

    workload: V = W'W, float64 [n, n], symmetric and positive semidefinite.
    start: The initial Theta, float64 [p, n], non-negative.

    Returns the matrix A = [I; Theta] diag(1 + 1'Theta)^-1, float64 [n + p, n], whose columns all have L1 norm 1, and
    the squared error |W A^+|_F^2 of all answers together at unit noise.

    Source: thesis of McKenna (2022), Definitions 14 and 15, by L-BFGS-B on the logarithm of the error.
    """
    from scipy.optimize import minimize  # Only where it is called: most plans need none.

    p, n = start.shape
    optimum = minimize(
        _log_error, start.ravel(), args=(p, workload), jac=True, method="L-BFGS-B", bounds=[(0, _MAX_THETA)] * (p * n),
        options={"maxcor": 20, "maxiter": 1000, "ftol": 1e-9},
    )  # fmt: skip
    theta = optimum.x.reshape(p, n)
    return p_identity_matrix(theta), float(np.exp(optimum.fun))


def p_identity_matrix(theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """A = [I; Theta] diag(1 + 1'Theta)^-1, float64 [n + p, n], whose columns have L1 norm 1.

    theta: Theta, float64 [p, n], non-negative.

    Source: thesis of McKenna (2022), Definition 14.
    """
    return np.asarray(np.vstack([np.eye(theta.shape[1]), theta]) / (1 + theta.sum(axis=0)))


def starts(p: int, n: int) -> list[NDArray[np.float64]]:
    """Three starting values of Theta, float64 [p, n]: overlapping bumps, the blocks of a tree, and a Weyl sequence.

    p: The number of queries of several values.
    n: The number of values.

    The starts are fixed, because a plan, its run and a replay must find the same strategy.
    """
    centres = (np.arange(p)[:, None] + 0.5) * n / p
    distances = np.abs(np.arange(n) + 0.5 - centres) * p / n
    bumps = np.cos(np.minimum(distances, 1) * np.pi / 2) ** 2
    weyl = np.modf(np.arange(1, p * n + 1) * _GOLDEN)[0].reshape(p, n)
    return [bumps, _tree(p, n) + 0.01, weyl]


def _tree(p: int, n: int) -> NDArray[np.float64]:
    """Indicators of the first p blocks of a 4-ary tree that have two values or more, level by level; then zeros."""
    rows = np.zeros((p, n))
    blocks = [(0, n)]
    for row in range(p):
        while blocks and blocks[0][1] - blocks[0][0] < 2:
            blocks.pop(0)
        if not blocks:
            break
        low, high = blocks.pop(0)
        rows[row, low:high] = 1.0
        cuts = [low + (high - low) * branch // _BRANCHES for branch in range(_BRANCHES + 1)]
        blocks += pairwise(cuts)
    return rows


def _log_error(flat: NDArray[np.float64], p: int, workload: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """log of s'(V o K)s and its gradient in Theta, with s = 1 + 1'Theta and K = (I + Theta'Theta)^-1; O(p n^2).

    Let R = (I + Theta Theta')^-1, so K = I - Theta'R Theta and Theta K = R Theta. With C = diag(s) V diag(s) and
    dK = -K (dTheta'Theta + Theta'dTheta) K, the gradient is -2 R Theta C K + 1 (x) 2 (V o K) s. It needs only one
    product with V, M = (R Theta diag(s)) V, because (V o K) s = diag(V) s - 1'(Theta o M).
    """
    theta = flat.reshape(p, -1)
    s = 1 + theta.sum(axis=0)
    r_theta = np.linalg.solve(np.eye(p) + theta @ theta.T, theta)
    product = (r_theta * s) @ workload
    vk_s = workload.diagonal() * s - np.einsum("ij,ij->j", theta, product)
    error = float(s @ vk_s)
    product *= s
    gradient = -2 * (product - (product @ theta.T) @ r_theta) + 2 * vk_s
    return float(np.log(error)), np.asarray(gradient / error).ravel()
