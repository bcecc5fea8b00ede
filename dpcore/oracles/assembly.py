"""Weights of drawn queries, for query classes that are no conjunctions as they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def net_weights(samples: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """What the samples weigh together: distinct queries, ascending, their weights, none of them 0, and the constant.

    A query drawn a times and its complement b times contribute b + (a - b) q.

    samples: int64 [s]; i < size is query i, size + i its complement.
    """
    complemented = samples >= size
    drawn, position = np.unique(samples % size, return_inverse=True)
    weights = np.bincount(position, weights=np.where(complemented, -1.0, 1.0), minlength=drawn.size).astype(np.int64)
    return drawn[weights != 0], weights[weights != 0], int(complemented.sum())
