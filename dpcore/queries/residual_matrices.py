"""Integer queries about the residual of one attribute, or of one class of its values."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcore.frozen import frozen
from dpcore.queries.ranges import LARGEST_MATRIX


@lru_cache(maxsize=256)
def residual_matrix(size: int) -> NDArray[np.int64]:
    """The matrix M of integer queries about the residual of an attribute of n values: int64 [n - 1, n] or [n, n].

    If n is a power of two, M consists of the rows of the Hadamard matrix without the row of ones, so M'M = n I - 11'.
    Otherwise M = n I - 11', so M'M = n M, and there are n answers for n - 1 degrees of freedom. In both cases the rows
    sum to 0 and M'M = c^2 (I - 11' / n), with c^2 = n or n^2, and every column has the squared norm c^2 (n - 1) / n.

    Measuring M x with iid noise of variance c^2 s costs (n - 1) / (n s), and least squares then estimates the residual
    with the error N(0, s (I - 11' / n)). An orthonormal basis is no better, so nothing is lost by using integers.

    size: The number n of values.

    Raises ValueError for an attribute of one value, and for more than LARGEST_MATRIX entries.
    """
    if size < 2:
        raise ValueError(f"an attribute of {size} values has no residual; want 2 or more")
    if size**2 > LARGEST_MATRIX:
        largest = math.isqrt(LARGEST_MATRIX)
        raise ValueError(f"residuals of an attribute of {size:,} values; want at most {largest:,}, as wider bins make")
    if size & (size - 1) == 0:
        from scipy.linalg import hadamard  # Each worker would take longer to import it than to count a small file.

        return frozen(hadamard(size, dtype=np.int64)[1:], np.int64)
    return frozen(size * np.eye(size, dtype=np.int64) - 1, np.int64)


def residual_scale(size: int) -> float:
    """The c of ``residual_matrix(size)``, for which M'M = c^2 (I - 11' / n)."""
    return math.sqrt(size) if size & (size - 1) == 0 else float(size)
