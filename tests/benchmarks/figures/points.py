"""Points of a figure, as they are stored, drawn and tabulated."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

MEASURED, BASELINE, PUBLISHED = "measured", "baseline", "published"
KINDS: Final = (MEASURED, BASELINE, PUBLISHED)


@dataclass(frozen=True)
class Point:
    """Errors of one series at one place of the x axis, as fractions of n, and what they cost.

    kind: MEASURED, BASELINE (no run needed) or PUBLISHED.
    max, mean: Largest and mean absolute error, each a mean over the runs; the mean is None where none was published.
    worst: The largest maximum of the runs.
    cpu_seconds: Of one run without the exact answers, a mean over the runs.
    rounds: Rounds that the plan of the mechanism names; 0 for one that has none.
    """

    series: str
    x: float
    kind: str
    max: float
    mean: float | None = None
    worst: float | None = None
    cpu_seconds: float | None = None
    runs: int | None = None
    rounds: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"a point of kind {self.kind!r}; want one of {KINDS}")

    def stored(self) -> dict[str, Any]:
        """Four digits of every figure: noise is in the second."""
        fields = dataclasses.asdict(self)
        return {
            name: float(f"{value:.4g}") if isinstance(value, float) else value
            for name, value in fields.items()
            if value is not None
        }


def point_of(stored: Mapping[str, Any]) -> Point:
    return Point(**stored)
