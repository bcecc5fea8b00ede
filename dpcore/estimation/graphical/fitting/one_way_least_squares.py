"""Marginals of single attributes, read off measured products."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.graphical.fitting.linear_measurements import LinearMeasurement
from dpcore.estimation.least_squares import kronecker_times

_EXACT = 1e-6


def one_way_of(term: LinearMeasurement, name: str) -> tuple[NDArray[np.float64], float] | None:
    """The marginal of one attribute by least squares from a measured product: float64 [size], and its precision.

    From values (A_1 x ... x A_k) table + noise the marginal of attribute i is A_i^+ of axis i and 1' A_j^+ of every
    other axis j. The precision is one over the mean variance of its counts.

    Returns None for a term without matrices, one without the attribute, and where the values do not determine it.
    """
    if term.matrices is None or name not in term.clique:
        return None
    factors, variance = [], 1 / term.precision
    for other, matrix in zip(term.clique, term.matrices, strict=True):
        factor = _inverse(matrix.tobytes(), matrix.shape)
        wanted = np.eye(matrix.shape[1])
        if other != name:
            factor, wanted = factor.sum(axis=0, keepdims=True), np.ones((1, matrix.shape[1]))
        if np.abs(factor @ matrix - wanted).max() > _EXACT:
            return None
        variance *= float((factor**2).sum(axis=1).mean())
        factors.append(factor)
    return kronecker_times(factors, term.values), 1 / variance


@lru_cache(maxsize=128)
def _inverse(content: bytes, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Kept: an adaptive run measures the same matrices again and again."""
    return np.asarray(np.linalg.pinv(np.frombuffer(content).reshape(shape)))
