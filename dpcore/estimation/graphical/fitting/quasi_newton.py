"""Limited-memory quasi-Newton descent on a smooth convex function."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
_MEMORY: Final = 10
_SUFFICIENT: Final = 1e-4
_ROUNDING: Final = 1e-13
_SHORTEST: Final = 1e-12  # A step, of 1 or of the point where that is larger: rounding hides all progress.
_LONGER: Final = 100.0  # Than the last step, and than 1: the curvature of a nearly straight function tells nothing.


class Descent(NamedTuple):
    """Where a descent ended, float64 [size], the gradient there, and how often the function was evaluated."""

    point: Vector
    gradient: Vector
    evaluations: int


def descend(
    function: Callable[[Vector], tuple[float, Vector]],
    start: Vector,
    scales: Vector,
    stop: Callable[[float, Vector], bool],
    most: int,
) -> Descent:
    """Lowers a convex function until ``stop(value, gradient)`` at the current point, or ``most`` evaluations.

    scales: float64 [start.size], positive: about 1 / (second derivative)^(1/2) along each coordinate.

    The last evaluation is the one at the point that is returned; a search along a useless direction costs one more.

    Source: Nocedal and Wright (2006), Algorithm 7.4, with halved steps until sufficient decrease, and doubled ones as
    long as the function shows no curvature at all.
    """
    at, point = start, start / scales
    value, gradient = function(at)
    slope, evaluations = gradient * scales, 1
    pairs: deque[tuple[Vector, Vector]] = deque(maxlen=_MEMORY)
    stride = last = 1.0
    while evaluations < most and not stop(value, gradient):
        direction = -_inverse_hessian(slope, pairs) if pairs else -stride * slope / max(1.0, _largest(slope))
        direction *= min(1.0, _LONGER * max(1.0, last) / max(1.0, _largest(direction)))
        promised, length = float(slope @ direction), 1.0
        shortest = _SHORTEST * max(1.0, _largest(point))
        while True:
            tried = point + length * direction
            there = tried * scales
            after, gradient_after = function(there)
            evaluations += 1
            if after <= value + _SUFFICIENT * length * promised + _ROUNDING * abs(value):
                break
            length /= 2
            if evaluations >= most or length * _largest(direction) < shortest:
                return Descent(at, function(at)[1], evaluations + 1)
        change, bend = tried - point, gradient_after * scales - slope
        if change @ bend > 1e-12 * np.sqrt((change @ change) * (bend @ bend)):
            pairs.append((change, bend))
        stride, last = (2 * stride if length == 1.0 else 1.0), _largest(change)
        at, point, value, gradient, slope = there, tried, after, gradient_after, gradient_after * scales
    return Descent(at, gradient, evaluations)


def _inverse_hessian(slope: Vector, pairs: deque[tuple[Vector, Vector]]) -> Vector:
    """An estimate of the inverse Hessian, from the last steps, applied to a slope: the two-loop recursion."""
    found = slope.copy()
    kept: list[tuple[float, float]] = []
    for change, bend in reversed(pairs):
        inverse = 1 / float(change @ bend)
        share = inverse * float(change @ found)
        found -= share * bend
        kept.append((inverse, share))
    change, bend = pairs[-1]
    found *= float(change @ bend) / float(bend @ bend)
    for (change, bend), (inverse, share) in zip(pairs, reversed(kept), strict=True):
        found += (share - inverse * float(bend @ found)) * change
    return found


def _largest(vector: Vector) -> float:
    return float(np.abs(vector).max())
