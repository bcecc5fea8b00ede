"""What a process says when it fails: one sentence on stderr and a number that schedulers can act on."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable

from dpcore.errors import (
    BudgetExceededError,
    ConfigError,
    CutOffError,
    EngineError,
    InputError,
    IntegrityError,
    LedgerUnavailableError,
    MarqueeError,
    NoBudgetError,
    ScaleError,
    UnprovedError,
)

DONE = 0
CONFIG = 2
INPUT = 3
BUDGET = 4
LEDGER = 5  # May be tried again.
ENGINE = 6  # May be tried again.
INTEGRITY = 7
UNEXPECTED = 70
INTERRUPTED = 130

_CODES: tuple[tuple[type[MarqueeError], int], ...] = (
    (ConfigError, CONFIG),
    (UnprovedError, CONFIG),
    (CutOffError, CONFIG),
    (ScaleError, CONFIG),
    (InputError, INPUT),
    (BudgetExceededError, BUDGET),
    (NoBudgetError, BUDGET),
    (LedgerUnavailableError, LEDGER),
    (EngineError, ENGINE),
    (IntegrityError, INTEGRITY),
)


def exit_code(error: BaseException) -> int:
    """The exit code of an exception."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if _no_room(error):
        return ENGINE
    return next((code for kind, code in _CODES if isinstance(error, kind)), UNEXPECTED)


def sentence(error: BaseException) -> str:
    """What is said about an exception: deliberate ones speak for themselves.

    Any other is named by its type alone, because the message of a library may quote data.
    """
    if isinstance(error, MarqueeError):
        return " ".join(str(error).split())
    if isinstance(error, KeyboardInterrupt):
        return "interrupted; the same command goes on from what is stored"
    if isinstance(error, MemoryError):
        return "the process ran out of memory; nothing beyond the reserved budget was spent"
    if _no_room(error):
        return "a disk is full; make room and run again: the release goes on from what is stored"
    kind = type(error).__name__
    if isinstance(error, OSError) and error.errno:  # The system's own words, not those of a library.
        kind += f" ({os.strerror(error.errno)})"
    return f"unexpected {kind}; run again with --debug to see where (the trace may show data)"


def _no_room(error: BaseException) -> bool:
    """Whether a disk was full: nothing is wrong with the release, and answers that were not stored were not used."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def to_stderr(said: str, code: int) -> None:
    """One line for people."""
    sys.stderr.write(f"marquee: {said}\n")


def guarded(action: Callable[[], None], *, debug: bool = False, say: Callable[[str, int], None] = to_stderr) -> int:
    """Runs a command and returns its exit code; every failure becomes one sentence.

    debug: Prints the traceback as well. SENSITIVE: a traceback may quote data.
    say: Where the sentence goes, with the exit code.
    """
    try:
        action()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the outermost frame of the process
        if debug:
            traceback.print_exception(error)
        say(sentence(error), exit_code(error))
        return exit_code(error)
    return DONE
