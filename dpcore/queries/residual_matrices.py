"""Integer queries about the residual of one attribute, or of one class of its values."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hadamard

from dpcore.frozen import frozen
from dpcore.queries.ranges import LARGEST_MATRIX


@lru_cache(maxsize=256)
def residual_matrix(size: int) -> NDArray[np.int64]:
    """Integer queries about the residual of one attribute of n values, M: int64 [n - 1, n] or [n, n].

    Where n is a power of two: the rows of the Hadamard matrix but the one of ones, M'M = n I - 11'. Otherwise
    M = n I - 11', M'M = n M. Either way rows sum to 0, M'M = c^2 (I - 11' / n) with c^2 = n or n^2, and every column
    has squared norm c^2 (n - 1) / n: iid noise of variance c^2 s in M x costs (n - 1) / (n s), and least squares then
    tells the residual up to N(0, s (I - 11' / n)). An orthonormal basis does no better, so that integers lose nothing;
    where n is no power of two there are n values for n - 1 degrees of freedom.

    Raises ValueError for an attribute of one value, and for more than LARGEST_MATRIX entries.
    """
    if size < 2:
        raise ValueError(f"an attribute of {size} values has no residual; want 2 or more")
    if size**2 > LARGEST_MATRIX:
        largest = math.isqrt(LARGEST_MATRIX)
        raise ValueError(f"residuals of an attribute of {size:,} values; want at most {largest:,}, as wider bins make")
    if size & (size - 1) == 0:
        return frozen(hadamard(size, dtype=np.int64)[1:], np.int64)
    return frozen(size * np.eye(size, dtype=np.int64) - 1, np.int64)


def residual_scale(size: int) -> float:
    """c of ``residual_matrix``: M'M = c^2 (I - 11' / n)."""
    return math.sqrt(size) if size & (size - 1) == 0 else float(size)
