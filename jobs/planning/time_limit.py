"""A limit on the time of one computation, for what is merely shown: a computation that takes longer is given up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final, TypeVar

R = TypeVar("R")
_AGAIN: Final = 1.0  # Seconds after which the limit is enforced again, in case the first exception was swallowed.


class OutOfTimeError(BaseException):
    """The computation took too long. No handler of ordinary errors catches it, so that it ends everything below."""


def within(seconds: float, work: Callable[[], R]) -> R:
    """The result of a computation, if it does not take longer than a limit.

    The limit is enforced between the instructions of Python, so that a compiled kernel ends first. Outside the main
    thread, and on systems without interval timers, there is no limit.

    seconds: The limit, positive.
    work: The computation, which must not have effects, since it may end anywhere.

    Raises: OutOfTimeError when the time is over; the exceptions of ``work``.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        return work()
    before = signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        return work()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _stop(number: int, frame: FrameType | None) -> None:
    raise OutOfTimeError
