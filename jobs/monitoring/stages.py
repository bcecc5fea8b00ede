"""The stages of a run and their durations. Durations are public in the log, but no guarantee covers them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from jobs import heartbeat, log, sensitive

if TYPE_CHECKING:
    from dpcore.mechanisms.api import Progress as Report

OPEN: Final = "open"
PLAN: Final = "plan"
AGGREGATE: Final = "aggregate"
ANSWER: Final = "answer"
WRITE: Final = "write"
PUBLISH: Final = "publish"
STAGES: Final = (OPEN, PLAN, AGGREGATE, ANSWER, WRITE, PUBLISH)
"""All stages: reading the footers of the data, planning in the ledger, each aggregation of the data, all answers of the
mechanism (aggregations included), writing the files, and publishing them."""

_seconds: dict[str, float] | None = None


@contextmanager
def measured_stages() -> Iterator[dict[str, float]]:
    """Yields the total duration of each stage so far, in seconds, of all stages within this context."""
    global _seconds
    before, _seconds = _seconds, {}
    try:
        yield _seconds
    finally:
        _seconds = before


@contextmanager
def stage(name: str) -> Iterator[Report]:
    """Measures one stage, also one that fails, and writes it to the log for machines, with this process's CPU seconds.

    Yields the function to which the stage may report its progress, for heartbeats.

    name: One of ``STAGES``.
    """
    start, cpu = time.monotonic(), time.process_time()
    done = False
    try:
        with heartbeat.activity(name) as report:
            yield report
        done = True
    finally:
        seconds = time.monotonic() - start
        if _seconds is not None:
            _seconds[name] = _seconds.get(name, 0.0) + seconds
        cpu_seconds = round(time.process_time() - cpu, 3)
        log.detail("stage", stage=name, seconds=round(seconds, 3), cpu_seconds=cpu_seconds, done=done)
        sensitive.record("stage", stage=name, seconds=seconds, done=done)
