"""The closed set of scores that ``select`` accepts. Each proves its sensitivity in its docstring. TRUSTED."""

from __future__ import annotations

from typing import Final

from dpcore.kernel.dependence import MutualInformation, RScore
from dpcore.kernel.l1_scores import GRID, Candidates, L1Error, LinearL1Error, Tables
from dpcore.kernel.normalised_scores import Generalised

Score = L1Error | LinearL1Error | Generalised | MutualInformation | RScore
SCORES: Final = (L1Error, LinearL1Error, Generalised, MutualInformation, RScore)

__all__ = [
    "GRID",
    "SCORES",
    "Candidates",
    "Generalised",
    "L1Error",
    "LinearL1Error",
    "MutualInformation",
    "RScore",
    "Score",
    "Tables",
]
