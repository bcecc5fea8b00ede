"""How far the reading of data is, for whoever listens in this process: a coarse part of the files, and nothing else.

Numbers of files and rows are private, so a listener learns the part that is read in steps of 5 percent, and nothing
where the data have so few parts that the steps would tell their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

R = TypeVar("R")
STEPS: Final = 20
"""Number of steps into which all progress is divided."""

_FEWEST: Final = 2 * STEPS  # With fewer parts, steps are left out, or come at intervals that tell the number.

_listener: Callable[[int, int], None] | None = None


@contextmanager
def listening(listener: Callable[[int, int], None]) -> Iterator[None]:
    """Within this context, a function hears how far reading is.

    listener: Called with (steps done, ``STEPS``), from the thread that merges what was read.
    """
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before


def told(results: Iterable[R], total: int, before: int = 0) -> Iterator[R]:
    """Yields results, and tells the listener after each how far reading is.

    results: One result of each part of the data.
    total: Number of parts of the whole reading.
    before: Number of parts that were read before.
    """
    for done, result in enumerate(results, before + 1):
        yield result
        if _listener is not None and total >= _FEWEST:
            _listener(STEPS * done // total, STEPS)
