"""Limited-memory quasi-Newton descent (L-BFGS) on a smooth convex function."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
# (step, change of the gradient) pairs estimate the curvature: as many as fit in so many numbers, but 10 to 60.
_MIN_PAIRS: Final = 10
_MAX_PAIRS: Final = 60
_NUMBERS: Final = 1 << 21
_SUFFICIENT: Final = 1e-4  # Fraction of the predicted decrease that a step must achieve (Armijo's condition).
_ROUNDING: Final = 1e-13  # Relative rounding error of the function.
_MIN_STEP: Final = 1e-12  # Relative to the largest coordinate, or 1: rounding hides the progress of shorter steps.
# Limit of a step relative to the last step, or 1: the curvature of a nearly linear function is not reliable.
_MAX_GROWTH: Final = 100.0


class Descent(NamedTuple):
    """Where a descent ended.

    point: float64 [size].
    gradient: The gradient at the point, float64 [size].
    evaluations: Number of evaluations of the function.
    """

    point: Vector
    gradient: Vector
    evaluations: int


def descend(
    function: Callable[[Vector], tuple[float, Vector]],
    start: Vector,
    scales: Vector,
    stop: Callable[[float, Vector], bool],
    max_evaluations: int,
) -> Descent:
    """Minimises a smooth convex function.

    function: Returns the value and the gradient at a point.
    start: First point, float64 [size].
    scales: About 1 / (second derivative)^(1/2) along each coordinate; float64 [size], positive.
    stop: stop(value, gradient) ends the descent at the current point.
    max_evaluations: The largest number of evaluations of the function.

    The last evaluation is at the returned point. If a line search fails, that takes one more evaluation.

    Source: Nocedal and Wright (2006), Algorithm 7.4. Steps are halved until the decrease is sufficient, and doubled as
    long as the function shows no curvature.
    """
    position, point = start, start / scales  # The point in scaled coordinates.
    value, gradient = function(position)
    slope, evaluations = gradient * scales, 1
    kept_pairs = min(max(_MIN_PAIRS, _NUMBERS // (2 * start.size)), _MAX_PAIRS)
    pairs: deque[tuple[Vector, Vector]] = deque(maxlen=kept_pairs)
    stride = last_step = 1.0
    while evaluations < max_evaluations and not stop(value, gradient):
        direction = -_inverse_hessian(slope, pairs) if pairs else -stride * slope / max(1.0, _largest(slope))
        direction *= min(1.0, _MAX_GROWTH * max(1.0, last_step) / max(1.0, _largest(direction)))
        promised, length = float(slope @ direction), 1.0
        min_step = _MIN_STEP * max(1.0, _largest(point))
        while True:
            new_point = point + length * direction
            new_position = new_point * scales
            new_value, new_gradient = function(new_position)
            evaluations += 1
            if new_value <= value + _SUFFICIENT * length * promised + _ROUNDING * abs(value):
                break
            length /= 2
            if evaluations >= max_evaluations or length * _largest(direction) < min_step:
                return Descent(position, function(position)[1], evaluations + 1)
        step, slope_change = new_point - point, new_gradient * scales - slope
        if step @ slope_change > 1e-12 * np.sqrt((step @ step) * (slope_change @ slope_change)):
            pairs.append((step, slope_change))
        stride, last_step = (2 * stride if length == 1.0 else 1.0), _largest(step)
        position, point, value, gradient, slope = (
            new_position,
            new_point,
            new_value,
            new_gradient,
            new_gradient * scales,
        )
    return Descent(position, gradient, evaluations)


def _inverse_hessian(slope: Vector, pairs: deque[tuple[Vector, Vector]]) -> Vector:
    """An estimate of the inverse Hessian, from the last steps, applied to a slope: the two-loop recursion."""
    product = slope.copy()
    coefficients: list[tuple[float, float]] = []
    for step, slope_change in reversed(pairs):
        inverse = 1 / float(step @ slope_change)
        share = inverse * float(step @ product)
        product -= share * slope_change
        coefficients.append((inverse, share))
    step, slope_change = pairs[-1]
    product *= float(step @ slope_change) / float(slope_change @ slope_change)
    for (step, slope_change), (inverse, share) in zip(pairs, reversed(coefficients), strict=True):
        product += (share - inverse * float(slope_change @ product)) * step
    return product


def _largest(vector: Vector) -> float:
    """The largest absolute value."""
    return float(np.abs(vector).max())
