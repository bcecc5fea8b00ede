"""How far a model's table can be from any table that a confidence set allows."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

_CUTS: Final = 40
_CLOSE: Final = 1e-4
_BOX: Final = [(0.0, 4.0), (-4.0, 4.0), (0.0, None)]
_STARTS: Final = ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (2.0, -1.0))


def largest_distance(
    model: NDArray[np.float64], values: NDArray[np.float64], radius: float, low: float, high: float
) -> float:
    """An upper bound on |model - t|_1 over all t >= 0 with |t - values|_1 <= radius and low <= sum t <= high.

    model, values: float64 [cells]; model >= 0. high may be infinite.

    By weak duality, for all a >= 0 and c >= 1 - a, it is at most

        a radius + max(c low, c high) + sum_i max over t_i >= 0 of |model_i - t_i| - a |t_i - values_i| - c t_i,

    where each maximum is at 0, model_i or values_i. a = 1, c = 0 is the triangle inequality with t >= 0; a = 0, c = 1
    adds up both totals. Any pair is valid; the smallest bound is that of a convex, piecewise linear function, which
    cutting planes find to a relative 1e-4. With one cell the interval is searched at its ends.
    """
    if model.size == 1:
        ends = max(0.0, float(values[0]) - radius, low), min(float(values[0]) + radius, high)
        return max(abs(float(model[0]) - end) for end in ends)
    places = np.stack([np.zeros_like(model), model, np.maximum(values, 0.0)])
    gains, costs = np.abs(model - places), np.abs(places - values)
    cells = np.arange(model.size)

    def cut(along: float, down: float) -> tuple[float, float, float]:
        """The value of the bound, and its slopes."""
        rows = high if down > 0 else low
        best = (gains - along * costs - down * places).argmax(axis=0)
        slopes = radius - float(costs[best, cells].sum()), rows - float(places[best, cells].sum())
        return float(gains[best, cells].sum()) + along * slopes[0] + down * slopes[1], *slopes

    if math.isinf(high):
        return max(0.0, cut(1.0, 0.0)[0])
    best = math.inf
    planes: list[tuple[list[float], float]] = []
    pairs = list(_STARTS)
    while len(planes) < _CUTS:
        along, down = pairs[len(planes)]
        value, *slopes = cut(along, down)
        best = min(best, value)
        # On the plane value + slopes . (pair - this pair) <= bound, in the variables along, down and bound.
        planes.append(([*slopes, -1.0], slopes[0] * along + slopes[1] * down - value))
        if len(planes) < len(pairs):
            continue
        sides = [*planes, ([-1.0, -1.0, 0.0], -1.0)]
        lowest = linprog([0.0, 0.0, 1.0], [side[0] for side in sides], [side[1] for side in sides], bounds=_BOX)
        if lowest.x is None or lowest.fun >= best * (1 - _CLOSE):
            break
        pairs.append((float(lowest.x[0]), max(1 - float(lowest.x[0]), float(lowest.x[1]))))
    return max(0.0, best)
