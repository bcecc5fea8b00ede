"""A kernel that shows what a mechanism asks of it, and may answer something else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.kernel.blocks import Progress, silent
from dpcore.kernel.log_weights import LogWeights
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.queries import CountingQueries, Queries, UnitCount


@dataclass(frozen=True, eq=False)
class Sampled:
    """Arguments of one call of ``sample``."""

    slope: Fraction
    tilt: LogWeights
    total: int
    size: int


def opposite(tilt: LogWeights) -> LogWeights:
    """The tilt of the other sign, up to a constant: a hit of the complement for a hit of the query."""
    hits = tilt.done - tilt.hits.astype(np.int32)
    return LogWeights(tilt.step, hits, tilt.done, None if tilt.prior is None else -tilt.prior, -tilt.constant)


@dataclass
class WatchedKernel:
    """Passes on to ``inner``; keeps every ``sample``; ``direction`` -1 plants the wrong sign in the weights.

    change_measured: Applied to every measurement.
    """

    inner: PrivateStatistics
    direction: int = 1
    change_measured: Callable[[Measurement], Measurement] = lambda measured: measured
    sampled: list[Sampled] = field(default_factory=list)

    def measure(self, queries: Queries | UnitCount, share: Fraction, progress: Progress = silent) -> Measurement:
        return self.change_measured(self.inner.measure(queries, share, progress))

    def sample(
        self, queries: CountingQueries, slope: Fraction, tilt: LogWeights, total: int, size: int
    ) -> NDArray[np.int64]:
        self.sampled.append(Sampled(slope, tilt, total, size))
        if self.direction < 0:
            slope, tilt = -slope, opposite(tilt)
        return self.inner.sample(queries, slope, tilt, total, size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)
