"""Errors that the authors of the FEM paper published, read off their plots by eye: means of 5 runs, tuned on data."""

from __future__ import annotations

from typing import Final

from tests.benchmarks.figures.points import PUBLISHED, Point

EPSILONS: Final = (0.1, 0.15, 0.2, 0.25, 0.5, 1.0)
SERIES: Final = "FEM, published"

# FEM paper, Figure 1: largest error on 64 marginals at each epsilon. Its Loans, 5-way plot could not be read.
_FEM: Final = {
    "adult-3": (0.172, 0.133, 0.113, 0.106, 0.078, 0.076),
    "adult-5": (0.154, 0.133, 0.110, 0.109, 0.081, 0.071),
    "loans-3": (0.254, 0.215, 0.188, 0.164, 0.120, 0.106),
}


def fem_versus_epsilon(panel: str) -> list[Point]:
    """The published points of Figure 1's panel ``panel``; none where there are none."""
    errors = _FEM.get(panel, ())
    return [Point(SERIES, x, PUBLISHED, max=error) for x, error in zip(EPSILONS, errors, strict=bool(errors))]
