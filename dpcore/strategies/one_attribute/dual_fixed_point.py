"""The dual of the matrix mechanism with Gaussian noise, ascended as a fixed point with Anderson's extrapolation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float64]

# Smallest v, relative to the largest: below it X would show nothing of a value but the rounding of eigenvectors.
MIN_RELATIVE_V: Final = 1e-12
_OVER_RELAXATION: Final = 1.9  # A step of log v in units of log g: 1 never lowers the dual, 2 would cycle for ever.
_MEMORY: Final = 5  # Earlier steps that the extrapolation uses.
_MAX_LOG_STEP: Final = 4.0  # Entries of v that are 0 at the optimum get there fast, within the range of doubles.
_MAX_RELATIVE_FALL: Final = 1e-9  # A step that lowers the dual by more than this part of itself is undone.


@dataclass(frozen=True, eq=False)
class DualPoint:
    """A point v of the dual, with the spectrum of K = D V D, D = diag(v^(1/2)), in blocks.

    v: float64 [k], positive, scaled so that all values together have sum 1.
    total: T = tr K^(1/2).
    ratios: g = diag(K^(1/2)) / (v T), float64 [k]. The dual grows with v_i where g_i is above 1.
    roots: Square roots of the eigenvalues of K, one array per block.
    vectors: Eigenvectors of K, one array per block. They take most of the memory.
    """

    v: Real
    total: float
    ratios: Real
    roots: list[Real]
    vectors: list[Real]

    @property
    def bound(self) -> float:
        """T(v)^2 / sum(v), the dual function."""
        return self.total**2

    @property
    def error(self) -> float:
        """The error of the strategy made from this point; at least ``bound``."""
        return self.bound * float(self.ratios.max())


def root_spectra(blocks: Iterable[tuple[Real, Real]], size: int) -> tuple[list[Real], list[Real]]:
    """Square roots of the eigenvalues, and eigenvectors, of diag(d) V diag(d) for each block.

    blocks: Pairs (V, d), float64 [n, n] and [n].
    size: Side of the largest matrix. Eigenvalues that can be its rounding errors, of either sign, count as 0.

    Returns the roots, float64 [n], and the eigenvectors, float64 [n, n], one of each per block.
    """
    spectra = [np.linalg.eigh(d[:, None] * block * d) for block, d in blocks]
    largest = max(float(values[-1]) for values, _ in spectra)
    min_eigenvalue = largest * size * np.finfo(np.float64).eps
    roots = [np.sqrt(np.where(values < min_eigenvalue, 0.0, values)) for values, _ in spectra]
    return roots, [vectors for _, vectors in spectra]


Point = TypeVar("Point", bound=DualPoint)


def ascend_dual(at: Callable[[Real], Point], sizes: Real, gap: float, steps: int) -> tuple[Point, float, int]:
    """The point of least error found by ascending the dual from v = 1.

    at: Evaluates the point at v, which it may scale.
    sizes: float64 [k], how many values share each entry of v.
    gap: The ascent stops once error / bound - 1 is at most this.
    steps: The ascent stops after this many evaluated points.

    Returns that point, the largest lower bound found on the error of any strategy, and the number of evaluated points.
    """
    best = at(np.ones(len(sizes)))
    best = at(best.v * best.ratios)
    v, bound, best_bound = best.v, best.bound, best.bound  # Of the last point, whose other arrays may be large.
    history = [_logs(best)]
    omega, evaluated = _OVER_RELAXATION, 2
    while best.error > best_bound * (1 + gap) and evaluated < steps:
        candidate, evaluated = at(np.exp(_extrapolated(history, omega, v * sizes))), evaluated + 1
        if candidate.bound < bound * (1 - _MAX_RELATIVE_FALL) and (len(history) > 1 or omega > 1):
            history, omega = history[-1:], 1.0
            continue
        v, bound, best_bound, omega = candidate.v, candidate.bound, max(best_bound, candidate.bound), _OVER_RELAXATION
        history = [*history[-_MEMORY:], _logs(candidate)]
        if candidate.error < best.error:
            best = candidate
    return best, best_bound, evaluated


def _logs(point: DualPoint) -> tuple[Real, Real]:
    """log v, and log g, which is 0 at the optimum except where v is."""
    return np.log(point.v), np.log(np.maximum(point.ratios, MIN_RELATIVE_V))


def _extrapolated(history: list[tuple[Real, Real]], omega: float, metric: Real) -> Real:
    """The next log v: the fixed point as extrapolated from the earlier points.

    history: Pairs (log v, log g) of the last points, oldest first.
    omega: Over-relaxation of the step.
    metric: float64 [k], weights of the squared residuals that the extrapolation minimises.

    Source: Walker and Ni (2011), Anderson acceleration, equation (2.2), with every step of log v clipped.
    """
    logs, residual = history[-1]
    step = omega * residual
    if len(history) > 1:
        steps, changes = (np.diff(np.array(values), axis=0).T for values in zip(*history, strict=True))
        weights = np.sqrt(metric)
        coefficients = np.linalg.lstsq(weights[:, None] * changes, weights * residual, rcond=1e-10)[0]
        step = step - (steps + omega * changes) @ coefficients
    return np.asarray(logs + np.clip(step, -_MAX_LOG_STEP, _MAX_LOG_STEP))
