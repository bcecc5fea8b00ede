"""The generalised exponential mechanism: candidates of different sensitivities, each weighed by its own. TRUSTED."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.kernel.integers import saturated
from dpcore.kernel.l1_scores import Candidates, L1Error, LinearL1Error, Tables
from dpcore.kernel.sensitivity import PrivacyUnit

STEPS: Final = 1 << 16  # Of a normalised score of 1.
_LARGEST_T: Final = 1 << 20
_Point = tuple[int, int]


@final
@dataclass(frozen=True, eq=False)
class Generalised:
    """Normalised score s_i = min over j of ((q_i - t d_i) - (q_j - t d_j)) / (d_i + d_j), q_i moved by at most d_i.

    score: Gives q and d, the integers of its ``exact_scores`` and ``sensitivities``.
    t: Public, 0 to 2^20: how many of its own sensitivities a candidate must lead by before it counts as better. With
        t = 2 ln(m / beta) / epsilon the chosen one has q_i >= max over j of (q_j - 2 t d_j), except with chance beta.

    Formal guarantee: one unit moves every s_i by at most 1. Between neighbours q_i - q_j moves by at most d_i + d_j,
    and t d is public (rounded down to an integer once, so that any t will do): each quotient moves by at most 1, and
    so does the least of them. The integer score is s_i in steps of 2^-16 rounded down: if x <= y + 2^16 then
    floor(x) <= floor(y) + 2^16, as 2^16 is whole, so rounding adds nothing and the sensitivity is 2^16 exactly.

    Source: Raskhodnikova and Smith (2016), section 4, for scores to be made small; here they are to be large.
    """

    score: L1Error | LinearL1Error
    t: Fraction | float

    def __post_init__(self) -> None:
        if type(self.score) not in (L1Error, LinearL1Error):
            raise TypeError(f"a generalised score of {type(self.score).__name__}; want L1Error or LinearL1Error")
        if type(self.t) not in (Fraction, int, float) or not 0 <= self.t <= _LARGEST_T:
            raise ValueError("t of a generalised score is no number in 0 .. 2^20; want a Fraction, float or int")
        object.__setattr__(self, "t", Fraction(self.t))

    def check(self, candidates: Candidates, unit: PrivacyUnit) -> None:
        self.score.check(candidates, unit)

    def digest(self) -> str:
        """What the journal knows the score by."""
        return f"generalised {self.t} of {self.score.digest()}"

    def scores(self, candidates: Candidates, unit: PrivacyUnit, tables: Tables) -> NDArray[np.int64]:
        """What the noisy maximum is taken of, int64 [candidates]. SENSITIVE."""
        moves = self.score.sensitivities(candidates, unit)
        exact = self.score.exact_scores(candidates, tables)
        t = Fraction(self.t)
        lowered = [score - int(t * move) for score, move in zip(exact, moves, strict=True)]
        return normalised(lowered, moves)

    def sensitivity(self, candidates: Candidates, unit: PrivacyUnit) -> int:
        """How far one unit moves any score."""
        return STEPS

    def step(self, candidates: Candidates) -> float:
        """One step of the integer scores, in normalised scores: quotients of what is moved by 1."""
        return 1 / STEPS


def normalised(scores: list[int], moves: list[int]) -> NDArray[np.int64]:
    """floor(2^16 min over j of (scores_i - scores_j) / (moves_i + moves_j)), cut off at -2^62; moves are positive.

    With (moves_j, scores_j) as points, -s_i is the largest slope of a line from (-moves_i, scores_i), which lies left
    of all points, to one of them. Such a line touches the upper hull; along the hull slopes rise and then fall.
    """
    hull = _upper_hull(list(zip(moves, scores, strict=True)))
    return saturated([_least(score, move, hull) for score, move in zip(scores, moves, strict=True)])


def _least(score: int, move: int, hull: list[_Point]) -> int:
    low, high = 0, len(hull) - 1
    while low < high:
        middle = (low + high) // 2
        (x, y), (next_x, next_y) = hull[middle], hull[middle + 1]
        if (next_y - y) * (x + move) > (y - score) * (next_x - x):  # The next point is steeper still.
            low = middle + 1
        else:
            high = middle
    x, y = hull[low]
    return STEPS * (score - y) // (move + x)


def _upper_hull(points: list[_Point]) -> list[_Point]:
    """From left to right, of each abscissa the highest point, with slopes that fall."""
    hull: list[_Point] = []
    for x, y in sorted(dict(sorted(points)).items()):
        while len(hull) > 1 and _is_below(hull[-1], hull[-2], (x, y)):
            hull.pop()
        hull.append((x, y))
    return hull


def _is_below(middle: _Point, left: _Point, right: _Point) -> bool:
    """Whether a point lies on or below the line between two others."""
    rise, run = right[1] - left[1], right[0] - left[0]
    return (middle[1] - left[1]) * run <= rise * (middle[0] - left[0])
