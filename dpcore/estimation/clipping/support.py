"""The counts at which prior densities are tabulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled

WHOLE: Final = 64  # All whole counts up to this one are points.
RATIO: Final = 1.02  # Ratio of successive points above.
_LOG_RATIO: Final = float(np.log(RATIO))


@dataclass(frozen=True, eq=False)
class Support:
    """The whole counts 0 .. 64, and geometrically spaced points above, up to the first that reaches a bound.

    points: float64 [s], ascending.
    """

    points: NDArray[np.float64]

    @classmethod
    def up_to(cls, bound: float) -> Support:
        """The points up to the first that is at least ``bound``, a count; never fewer than up to 100."""
        steps = int(np.ceil(np.log(max(bound, 100.0) / WHOLE) / _LOG_RATIO))
        return cls(np.concatenate([np.arange(WHOLE + 1.0), WHOLE * RATIO ** np.arange(1, steps + 2)]))


@compiled
def position(count: float) -> float:
    """The real-valued index of a count >= 0 among the points."""
    if count < WHOLE:
        return count
    return float(WHOLE + np.log(count / WHOLE) / _LOG_RATIO)
