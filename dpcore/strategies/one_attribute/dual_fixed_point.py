"""The dual of the matrix mechanism with Gaussian noise, ascended as a fixed point with Anderson's extrapolation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float64]

LEAST: Final = 1e-12  # Of the largest v: below it the rounding of eigenvectors would be all that X shows of a value.
_FASTEST: Final = 1.9  # Times log g, a step of log v; 1 never lowers the dual, and 2 would go round it for ever.
_MEMORY: Final = 5  # Steps that the extrapolation looks back on.
_LONGEST: Final = 4.0  # Of a step of log v: what is 0 at the optimum gets there fast, within the range of doubles.
_FLAT: Final = 1e-9  # The dual may fall by this part of itself before a step is taken back.


@dataclass(frozen=True, eq=False)
class DualPoint:
    """Where the dual stands: v > 0, and K = D V D, D = diag(v^(1/2)), in blocks.

    v: Float64 [k], scaled so that all values together have sum 1.
    total: T = tr K^(1/2).
    ratios: g = diag(K^(1/2)) / (v T), float64 [k]: the dual ascends where it is above 1.
    roots: Of the eigenvalues of K, block by block; vectors: The eigenvectors. They take most of the memory.
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
        """Of the strategy made from this point, at least ``bound``."""
        return self.bound * float(self.ratios.max())


def spectra_of(blocks: Iterable[tuple[Real, Real]], size: int) -> tuple[list[Real], list[Real]]:
    """Roots of the eigenvalues, and eigenvectors, of diag(d) V diag(d) for each block V with its d.

    size: Of the largest matrix: an eigenvalue that its rounding may have made, of either sign, is 0.
    """
    spectra = [np.linalg.eigh(d[:, None] * block * d) for block, d in blocks]
    largest = max(float(values[-1]) for values, _ in spectra)
    least = largest * size * np.finfo(np.float64).eps
    return [np.sqrt(np.where(values < least, 0.0, values)) for values, _ in spectra], [each for _, each in spectra]


Reached = TypeVar("Reached", bound=DualPoint)


def ascended(at: Callable[[Real], Reached], sizes: Real, gap: float, steps: int) -> tuple[Reached, float, int]:
    """The point of least error on the way up from v = 1, the largest bound on it, and the points it took.

    at: The point at v, which it may scale.
    sizes: float64 [k], how many values share each entry of v.
    gap, steps: Stops once error / bound - 1 is at most ``gap``, or after so many points.
    """
    best = at(np.ones(len(sizes)))
    best = at(best.v * best.ratios)
    v, bound, highest = best.v, best.bound, best.bound  # Of the last point, whose other arrays may be large.
    trail = [_logs(best)]
    omega, done = _FASTEST, 2
    while best.error > highest * (1 + gap) and done < steps:
        ahead, done = at(np.exp(_ahead(trail, omega, v * sizes))), done + 1
        if ahead.bound < bound * (1 - _FLAT) and (len(trail) > 1 or omega > 1):
            trail, omega = trail[-1:], 1.0
            continue
        v, bound, highest, omega = ahead.v, ahead.bound, max(highest, ahead.bound), _FASTEST
        trail = [*trail[-_MEMORY:], _logs(ahead)]
        if ahead.error < best.error:
            best = ahead
    return best, highest, done


def _logs(point: DualPoint) -> tuple[Real, Real]:
    """log v, and log g, which is 0 at the optimum except where v is."""
    return np.log(point.v), np.log(np.maximum(point.ratios, LEAST))


def _ahead(trail: list[tuple[Real, Real]], omega: float, metric: Real) -> Real:
    """The next log v: the fixed point by Anderson's extrapolation from those before.

    Source: Walker and Ni (2011), equation (2.2), with every step of log v cut to _LONGEST.
    """
    logs, left = trail[-1]
    step = omega * left
    if len(trail) > 1:
        steps, changes = (np.diff(np.array(each), axis=0).T for each in zip(*trail, strict=True))
        weights = np.sqrt(metric)
        mixed = np.linalg.lstsq(weights[:, None] * changes, weights * left, rcond=1e-10)[0]
        step = step - (steps + omega * changes) @ mixed
    return np.asarray(logs + np.clip(step, -_LONGEST, _LONGEST))
