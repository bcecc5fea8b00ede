"""Joint probabilities of items in a basket of fixed size, from the probabilities of the single items.

A basket with s items, with probabilities p_i that sum to s, is a rejective (conditional Poisson) sample. Two items are
held together with probability p_i p_j - c_i c_j, where the c_i are such that the joint probabilities of each item sum
to (s - 1) p_i, as they must:

    c_i (C - c_i) = p_i (1 - p_i),    C = the sum of all c_i.

For a size of 1 this is exact: c_i = p_i. For many rare items, c_i is near p_i (1 - p_i) / C with C^2 the sum of all
p_i (1 - p_i).

Source: Hajek (1964); Matei and Tille (2005), the fixed-point approximation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled

_BISECTIONS = 40
_LARGEST_RATIO = 64.0  # Of C to its smallest possible value, where one item dominates.


def pair_sums_of(p: NDArray[np.float64], numbers: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """C of each class, and the item that dominates it.

    p: float64 [classes, items], probabilities. numbers: float64 [items], how many items have each column of p.

    Returns: C, float64 [classes], positive; and int64 [classes], the column whose c_i is more than half of C, or -1.
    """
    sums, dominant = np.empty(len(p)), np.empty(len(p), dtype=np.int64)
    _solve(p, numbers, sums, dominant)
    return sums, dominant


def pair_terms(
    v: NDArray[np.float64], sums: NDArray[np.float64], dominates: NDArray[np.bool_] | bool = False
) -> NDArray[np.float64]:
    """c_i of items with v = p (1 - p), of any shape that the sums C broadcast to.

    dominates: Whether the item dominates its class.
    """
    root = np.sqrt(np.maximum(sums * sums - 4 * v, 0.0))
    # The smaller root, without cancellation; the larger one for an item that dominates.
    return np.asarray(np.where(dominates, (sums + root) / 2, 2 * v / (sums + root)))


@compiled
def _solve(
    p: NDArray[np.float64], numbers: NDArray[np.float64], sums: NDArray[np.float64], dominant: NDArray[np.int64]
) -> None:
    for row in range(p.shape[0]):
        top, largest, spread = 0, 0.0, 0.0
        for item in range(p.shape[1]):
            v = p[row, item] * (1.0 - p[row, item])
            spread += numbers[item] * v
            if v > largest:
                top, largest = item, v
        low = max(2.0 * np.sqrt(largest), 1e-6)
        alone = _excess(p[row], numbers, low, -1) < 0 and numbers[top] == 1.0
        dominant[row] = top if alone else -1
        high = max(_LARGEST_RATIO * low, 2.0 * np.sqrt(spread) + 1.0)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            excess = _excess(p[row], numbers, middle, dominant[row])
            if (excess > 0) != alone:
                low = middle
            else:
                high = middle
        sums[row] = (low + high) / 2


@compiled
def _excess(p: NDArray[np.float64], numbers: NDArray[np.float64], total: float, dominant: int) -> float:
    """The sum of all c_i at C = ``total``, less C. It falls with C; if an item dominates, it rises from below 0."""
    sums = -total
    for item in range(p.size):
        v = p[item] * (1.0 - p[item])
        root = np.sqrt(max(0.0, total * total - 4.0 * v))
        if item == dominant:
            sums += (total + root) / 2.0
        else:
            sums += numbers[item] * 2.0 * v / (total + root)
    return sums
