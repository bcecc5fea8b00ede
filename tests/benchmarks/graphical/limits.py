"""A limit on CPU time that no library mistakes for a failure of its own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class CutError(BaseException):
    """Too many CPU seconds. Not an Exception: those are turned into errors of an engine on their way."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises CutError in the block once this process has spent so many CPU seconds in it, all threads together.

    For the main thread; a compiled loop ends first.
    """

    def cut(number: int, frame: FrameType | None) -> None:
        raise CutError

    before = signal.signal(signal.SIGPROF, cut)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
