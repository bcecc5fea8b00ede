"""The generalised exponential mechanism, for candidates whose scores have different sensitivities. TRUSTED."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.kernel.integers import saturated
from dpcore.kernel.l1_scores import Candidates, L1Error, LinearL1Error, Tables
from dpcore.kernel.sensitivity import PrivacyUnit

STEPS: Final = 1 << 16  # Number of steps in a normalised score of 1.
_LARGEST_T: Final = 1 << 20
_Point = tuple[int, int]


@final
@dataclass(frozen=True, eq=False)
class Generalised:
    """Normalised score s_i = min over j of ((q_i - t d_i) - (q_j - t d_j)) / (d_i + d_j).

    q_i is the score of candidate i, and d_i its own sensitivity.

    score: Provides the integers q (``exact_scores``) and d (``sensitivities``).
    t: Public number in 0 .. 2^20. It lowers each score by t times its sensitivity, so that a score of large sensitivity
        must be larger to be selected. For t = 2 ln(m / beta) / epsilon with m candidates, the selected candidate i has
        q_i >= max over j of (q_j - 2 t d_j), except with probability beta.

    Formal guarantee: one unit moves every s_i by at most 1. Proof: between neighbours q_i - q_j moves by at most
        d_i + d_j, and t d_i is public, so every quotient moves by at most 1, and so does their minimum. t d_i is
        rounded down to an integer once, which keeps it public. The integer score is s_i in steps of 2^-16, rounded
        down. If x <= y + 2^16, then floor(x) <= floor(y) + 2^16, because 2^16 is an integer. Rounding therefore adds
        nothing, and the sensitivity is exactly 2^16 steps.

    Raises TypeError for a score of another type, and ValueError for a t out of range.

    Source: Raskhodnikova and Smith (2016), section 4, for scores to be minimised; here scores are maximised.
    """

    score: L1Error | LinearL1Error
    t: Fraction | float

    def __post_init__(self) -> None:
        if type(self.score) not in (L1Error, LinearL1Error):
            raise TypeError(f"a generalised score of {type(self.score).__name__}; want L1Error or LinearL1Error")
        if type(self.t) not in (Fraction, int, float) or not 0 <= self.t <= _LARGEST_T:
            raise ValueError("t of a generalised score is not a number in 0 .. 2^20; want a Fraction, float or int")
        object.__setattr__(self, "t", Fraction(self.t))

    def check(self, candidates: Candidates, unit: PrivacyUnit) -> None:
        """Raises the errors of the underlying score; reads public values only."""
        self.score.check(candidates, unit)

    def digest(self) -> str:
        """Identifies the score in the journal, together with its candidates."""
        return f"generalised {self.t} of {self.score.digest()}"

    def scores(self, candidates: Candidates, unit: PrivacyUnit, tables: Tables) -> NDArray[np.int64]:
        """The scores whose noisy maximum is selected, int64 [candidates]. SENSITIVE."""
        sensitivities = self.score.sensitivities(candidates, unit)
        exact = self.score.exact_scores(candidates, tables)
        t = Fraction(self.t)
        lowered = [score - int(t * sensitivity) for score, sensitivity in zip(exact, sensitivities, strict=True)]
        return normalised(lowered, sensitivities)

    def sensitivity(self, candidates: Candidates, unit: PrivacyUnit) -> int:
        """Upper bound on how far one unit moves any score, in steps."""
        return STEPS

    def step(self, candidates: Candidates) -> float:
        """Size of one step of the integer scores, in units of the normalised score."""
        return 1 / STEPS


def normalised(scores: list[int], sensitivities: list[int]) -> NDArray[np.int64]:
    """floor(2^16 min over j of (score_i - score_j) / (d_i + d_j)) for each i, clipped at -2^62. SENSITIVE.

    sensitivities: The d_i, positive.

    Method: take (d_j, score_j) as points. -s_i is the largest slope of a line from (-d_i, score_i), which lies to the
    left of all points, to one of them. The steepest line touches the upper convex hull of the points, and along the
    hull the slopes first increase and then decrease, so that a binary search finds it.
    """
    hull = _upper_hull(list(zip(sensitivities, scores, strict=True)))
    return saturated([_min_quotient(score, d, hull) for score, d in zip(scores, sensitivities, strict=True)])


def _min_quotient(score: int, sensitivity: int, hull: list[_Point]) -> int:
    """The normalised score of one candidate in steps, by binary search along the hull."""
    low, high = 0, len(hull) - 1
    while low < high:
        middle = (low + high) // 2
        (x, y), (next_x, next_y) = hull[middle], hull[middle + 1]
        if (next_y - y) * (x + sensitivity) > (y - score) * (next_x - x):  # The line to the next point is steeper.
            low = middle + 1
        else:
            high = middle
    x, y = hull[low]
    return STEPS * (score - y) // (sensitivity + x)


def _upper_hull(points: list[_Point]) -> list[_Point]:
    """The vertices of the upper convex hull from left to right; the slopes between them decrease."""
    hull: list[_Point] = []
    for x, y in sorted(dict(sorted(points)).items()):
        while len(hull) > 1 and _is_below(hull[-1], hull[-2], (x, y)):
            hull.pop()
        hull.append((x, y))
    return hull


def _is_below(middle: _Point, left: _Point, right: _Point) -> bool:
    """Whether ``middle`` lies on or below the line between ``left`` and ``right``."""
    rise, run = right[1] - left[1], right[0] - left[0]
    return (middle[1] - left[1]) * run <= rise * (middle[0] - left[0])
