"""The dual of the matrix mechanism under Gaussian noise, ascended as a fixed point with Anderson acceleration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float64]

# Smallest v relative to the largest. For smaller v, the entries of X would be dominated by eigenvector rounding.
MIN_RELATIVE_V: Final = 1e-12
# Length of a step of log v in units of log g. A length of 1 never lowers the dual; a length of 2 could cycle for ever.
_OVER_RELAXATION: Final = 1.9
_MEMORY: Final = 5  # Number of earlier steps that the extrapolation uses.
_MAX_LOG_STEP: Final = 4.0  # Lets entries that are 0 at the optimum vanish quickly, within the range of doubles.
_MAX_RELATIVE_FALL: Final = 1e-9  # A step that lowers the dual by more than this relative amount is undone.


@dataclass(frozen=True, eq=False)
class DualPoint:
    """A point v of the dual, with the spectrum of K = D V D for D = diag(v^(1/2)), block by block.

    v: float64 [k], positive, scaled such that the sum over all values is 1.
    total: T = tr K^(1/2).
    ratios: g = diag(K^(1/2)) / (v T), float64 [k]. The dual increases with v_i if g_i > 1.
    roots: Square roots of the eigenvalues of K, one array per block.
    vectors: Eigenvectors of K, one array per block; most of the memory is theirs.
    """

    v: Real
    total: float
    ratios: Real
    roots: list[Real]
    vectors: list[Real]

    @property
    def bound(self) -> float:
        """The dual function T(v)^2 / sum(v), a lower bound on the error of every strategy."""
        return self.total**2

    @property
    def error(self) -> float:
        """The error of the strategy that belongs to this point; at least ``bound``."""
        return self.bound * float(self.ratios.max())


def root_spectra(blocks: Iterable[tuple[Real, Real]], size: int) -> tuple[list[Real], list[Real]]:
    """The square roots of the eigenvalues, and the eigenvectors, of diag(d) V diag(d) for each block.

    blocks: Pairs (V, d), float64 [n, n] and [n].
    size: The side of the largest matrix. Eigenvalues that may be rounding errors of a matrix of that size count as 0.

    Returns the roots, float64 [n], and the eigenvectors, float64 [n, n], one of each per block.
    """
    spectra = [np.linalg.eigh(d[:, None] * block * d) for block, d in blocks]
    largest = max(float(values[-1]) for values, _ in spectra)
    min_eigenvalue = largest * size * np.finfo(np.float64).eps
    roots = [np.sqrt(np.where(values < min_eigenvalue, 0.0, values)) for values, _ in spectra]
    return roots, [vectors for _, vectors in spectra]


Point = TypeVar("Point", bound=DualPoint)


def ascend_dual(at: Callable[[Real], Point], sizes: Real, gap: float, steps: int) -> tuple[Point, float, int]:
    """The point of least error found while ascending the dual from v = 1.

    at: Evaluates the point at a given v, which it may rescale.
    sizes: float64 [k], the number of values that share each entry of v.
    gap: Stop once error / bound - 1 is at most this.
    steps: Maximum number of evaluated points.

    Returns the point of least error, the largest lower bound found on the error of every strategy, and the number of
    evaluated points.
    """
    best = at(np.ones(len(sizes)))
    best = at(best.v * best.ratios)
    # v and bound belong to the last point, whose other arrays may be large and are not kept.
    v, bound, best_bound = best.v, best.bound, best.bound
    history = [_logs(best)]
    omega, evaluated = _OVER_RELAXATION, 2
    while best.error > best_bound * (1 + gap) and evaluated < steps:
        candidate, evaluated = at(np.exp(_anderson_step(history, omega, v * sizes))), evaluated + 1
        if candidate.bound < bound * (1 - _MAX_RELATIVE_FALL) and (len(history) > 1 or omega > 1):
            history, omega = history[-1:], 1.0
            continue
        v, bound, best_bound, omega = candidate.v, candidate.bound, max(best_bound, candidate.bound), _OVER_RELAXATION
        history = [*history[-_MEMORY:], _logs(candidate)]
        if candidate.error < best.error:
            best = candidate
    return best, best_bound, evaluated


def _logs(point: DualPoint) -> tuple[Real, Real]:
    """log v and log g; at the optimum log g is 0 wherever v is positive."""
    return np.log(point.v), np.log(np.maximum(point.ratios, MIN_RELATIVE_V))


def _anderson_step(history: list[tuple[Real, Real]], omega: float, metric: Real) -> Real:
    """The next log v, extrapolated from the last points.

    history: Pairs (log v, log g) of the last points, oldest first.
    omega: The length of the step, in units of log g.
    metric: float64 [k], the weights of the squared residuals that the extrapolation minimises.

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
