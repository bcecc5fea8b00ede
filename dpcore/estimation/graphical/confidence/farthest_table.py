"""The largest distance of a model's table from any table in a confidence set."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

_MAX_PLANES: Final = 40
_TOLERANCE: Final = 1e-4  # Relative distance of the bound from its minimum over all pairs.
_BOX: Final = [(0.0, 4.0), (-4.0, 4.0), (0.0, None)]  # Ranges of a, c and the bound.
_STARTS: Final = ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (2.0, -1.0))


def largest_distance(
    model: NDArray[np.float64], values: NDArray[np.float64], radius: float, low: float, high: float
) -> float:
    """An upper bound on |model - t|_1 over all t >= 0 with |t - values|_1 <= radius and low <= sum t <= high.

    model: The model's table in counts, float64 [cells], >= 0.
    values: Centre of the confidence set, float64 [cells].
    radius: Its L1 radius, in counts.
    low: The smallest total of a table in the set.
    high: The largest total, possibly infinite.

    By weak duality, the distance is for all a >= 0 and c >= 1 - a at most

        a radius + max(c low, c high) + sum_i max over t_i >= 0 of |model_i - t_i| - a |t_i - values_i| - c t_i,

    where each maximum is attained at 0, model_i or values_i. The pair a = 1, c = 0 is the triangle inequality with
    t >= 0, and a = 0, c = 1 is the sum of both totals. Any pair gives a valid bound. The bound is a convex, piecewise
    linear function of the pair, which cutting planes minimise to a relative error of 1e-4. For a table of one cell, the
    farthest end of the interval is computed directly.

    Source: derived above; cutting planes are those of Kelley (1960).
    """
    if model.size == 1:
        ends = max(0.0, float(values[0]) - radius, low), min(float(values[0]) + radius, high)
        return max(abs(float(model[0]) - end) for end in ends)
    corners = np.stack([np.zeros_like(model), model, np.maximum(values, 0.0)])
    gains, costs = np.abs(model - corners), np.abs(corners - values)
    cells = np.arange(model.size)

    def plane(a: float, c: float) -> tuple[float, float, float]:
        """The value of the bound at (a, c), and its slopes."""
        total = high if c > 0 else low
        best = (gains - a * costs - c * corners).argmax(axis=0)
        slopes = radius - float(costs[best, cells].sum()), total - float(corners[best, cells].sum())
        return float(gains[best, cells].sum()) + a * slopes[0] + c * slopes[1], *slopes

    if math.isinf(high):
        return max(0.0, plane(1.0, 0.0)[0])
    from scipy.optimize import linprog  # Only where it is called: most plans need none.

    best = math.inf
    planes: list[tuple[list[float], float]] = []
    pairs = list(_STARTS)
    while len(planes) < _MAX_PLANES:
        a, c = pairs[len(planes)]
        value, *slopes = plane(a, c)
        best = min(best, value)
        # Constraint value + slopes . (pair - this pair) <= bound, in the variables a, c and bound.
        planes.append(([*slopes, -1.0], slopes[0] * a + slopes[1] * c - value))
        if len(planes) < len(pairs):
            continue
        constraints = [*planes, ([-1.0, -1.0, 0.0], -1.0)]
        matrix, sides = [row for row, _ in constraints], [side for _, side in constraints]
        lowest = linprog([0.0, 0.0, 1.0], matrix, sides, bounds=_BOX)
        if lowest.x is None or lowest.fun >= best * (1 - _TOLERANCE):
            break
        pairs.append((float(lowest.x[0]), max(1 - float(lowest.x[0]), float(lowest.x[1]))))
    return max(0.0, best)
