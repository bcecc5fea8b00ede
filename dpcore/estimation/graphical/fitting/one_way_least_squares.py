"""Least-squares estimates of one-way marginals from measured products."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.graphical.fitting.linear_measurements import LinearMeasurement
from dpcore.estimation.least_squares import kronecker_times

_EXACT = 1e-6  # A product determines the marginal if no entry of the reconstruction is off by more.


def one_way_marginal(measurement: LinearMeasurement, name: str) -> tuple[NDArray[np.float64], float] | None:
    """Estimates the marginal of one attribute by least squares from a measured product.

    From values (A_1 x ... x A_k) table + noise the marginal of attribute i is A_i^+ of axis i and 1' A_j^+ of every
    other axis j.

    measurement: The measured product.
    name: The attribute.

    Returns: The estimated counts, float64 [size of the attribute], and their precision, 1 / mean variance. None for a
        measurement without matrices, without the attribute, or whose values do not determine the marginal.
    """
    if measurement.matrices is None or name not in measurement.clique:
        return None
    factors, variance = [], 1 / measurement.precision
    for attribute, matrix in zip(measurement.clique, measurement.matrices, strict=True):
        factor = _pseudo_inverse(matrix.tobytes(), matrix.shape)
        target = np.eye(matrix.shape[1])
        if attribute != name:
            factor, target = factor.sum(axis=0, keepdims=True), np.ones((1, matrix.shape[1]))
        if np.abs(factor @ matrix - target).max() > _EXACT:
            return None
        variance *= float((factor**2).sum(axis=1).mean())
        factors.append(factor)
    return kronecker_times(factors, measurement.values), 1 / variance


@lru_cache(maxsize=128)
def _pseudo_inverse(content: bytes, shape: tuple[int, int]) -> NDArray[np.float64]:
    """The pseudo-inverse, cached because an adaptive run measures the same matrices many times."""
    return np.asarray(np.linalg.pinv(np.frombuffer(content).reshape(shape)))
