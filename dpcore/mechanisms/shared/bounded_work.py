"""The work limit ``max_work`` of mechanisms that fit a model, and the stages and progress that they report."""

from __future__ import annotations

import math
from typing import Final, final

from dpcore.errors import ConfigError
from dpcore.estimation.graphical.fitting.work import UNIT, WorkMeter
from dpcore.mechanisms.api import Progress, tell_stage

DEFAULT_MAX_WORK: Final = 240.0
"""Units of work: about four CPU minutes, so that a prediction that is wrong by a factor of 2 still stays below ten."""

_TICKS: Final = 1000  # Progress is reported in thousandths.


@final
class BoundedWork:
    """The work of one run, counted down, and its stage and progress for whoever watches.

    Everything that is told is public: it follows from the plan, from the structure of the model, and from released
    values.

    max_work: The setting of the mechanism, in units.
    progress: The progress of the run.

    meter: Counts the work of the run.
    """

    def __init__(self, max_work: float, progress: Progress) -> None:
        self.meter = WorkMeter(max_work * UNIT, watch=self._tell)
        self._progress, self._stage, self._percent, self._ticks = progress, "", -1, 0
        self._line: tuple[float, float, float] | None = None  # Work and progress at the start of a fit, and its end.

    def enter(self, stage: str, part: str = "", until: float | None = None) -> WorkMeter:
        """Begins a stage, or a part of one, and returns the meter.

        stage: Its name.
        part: Which part of the stage begins.
        until: Part of the run, in [0, 1], that is done once the work of the stage comes to the limit; the stage may
            well end earlier. By default the work of the stage is no progress.
        """
        self._stage, self._percent = f"{stage}: {part}{', ' if part else ''}", -1
        self._line = None if until is None else (self.meter.fraction, self._ticks / _TICKS, until)
        self._tell()
        return self.meter

    def report(self, done: float) -> None:
        """Reports that a part of the run is done, in [0, 1]. Progress never goes back."""
        ticks = math.floor(_TICKS * min(1.0, done))
        if ticks > self._ticks:
            self._ticks = ticks
            self._progress(ticks, _TICKS)

    def _tell(self) -> None:
        fraction = min(1.0, self.meter.fraction)
        percent = math.floor(100 * fraction)
        if percent != self._percent:
            self._percent = percent
            tell_stage(self._progress, f"{self._stage}{percent} % of mechanism.max_work used")
        if self._line is not None:
            used, done, until = self._line
            self.report(done + (until - done) * (fraction - used) / max(1e-9, 1.0 - used))


def check_max_work(max_work: float) -> None:
    """Raises ConfigError unless ``max_work`` is a finite number of at least 0."""
    if not 0 <= max_work < math.inf:
        raise ConfigError(f"mechanism.max_work is {max_work}; want a finite number >= 0")
