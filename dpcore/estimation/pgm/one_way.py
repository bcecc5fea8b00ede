"""Noisy one-way marginals as distributions: pulled towards the uniform one as far as their noise asks for."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import wrightomega

Vector = NDArray[np.float64]
_STRENGTHS: Final = np.geomspace(1e-5, 10.0, 25)
_HALVINGS: Final = 100


class OneWay(NamedTuple):
    """counts: float64 [values], positive, of the given sum. strength: kappa. log_ratios: log(counts / uniform)."""

    counts: Vector
    strength: float
    log_ratios: Vector


def shrunk(noisy: Vector, stddev: float, total: float) -> OneWay:
    """The counts x that minimise 1/2 |x - y|^2 / sigma^2 + kappa sum x log(x / uniform), kappa of least estimated risk.

    noisy: y, float64 [values], counts with independent Gaussian noise of this standard deviation.

    The risk is Stein's unbiased estimate |x - y|^2 / sigma^2 - n + 2 sum dx/dy; with c = kappa sigma^2 and
    j = x / (x + c), dx/dy = diag(j) - j j^T / sum j.

    Source: Stein (1981); the penalty is that of ``MaximumEntropy``.
    """
    best: OneWay | None = None
    least = np.inf
    for strength in _STRENGTHS.tolist():
        counts = _closest(noisy, strength * stddev**2, total)
        slopes = counts / (counts + strength * stddev**2)
        freedom = slopes.sum() - (slopes**2).sum() / slopes.sum()
        risk = float(((counts - noisy) ** 2).sum() / stddev**2 + 2 * freedom)
        if risk < least:
            least = risk
            best = OneWay(counts, strength, np.log(counts * noisy.size / total))
    assert best is not None
    return best


def _closest(noisy: Vector, c: float, total: float) -> Vector:
    """x with x + c log x = y + b for the b that gives the total; x > 0."""
    low, high = -np.abs(noisy).max() - total - c * 750, np.abs(noisy).max() + total + c * 750
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _solved(noisy + middle, c).sum() > total:
            high = middle
        else:
            low = middle
    counts = np.maximum(_solved(noisy + low, c), total * 1e-300)
    return np.asarray(counts * (total / counts.sum()))


def _solved(values: Vector, c: float) -> Vector:
    """x + c log x = value, by Wright's omega function: x = c omega(value / c - log c)."""
    return np.asarray(c * np.real(wrightomega(values / c - np.log(c))))
