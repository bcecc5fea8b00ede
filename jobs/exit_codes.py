"""Exit codes: every failure becomes one sentence on stderr and a number that schedulers can act on."""

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
LEDGER = 5  # The same command may be tried again.
ENGINE = 6  # The same command may be tried again.
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
    """One sentence about an exception: the message of this project's exceptions.

    Any other exception is named by its type alone, because the message of a library may quote data.
    """
    if isinstance(error, MarqueeError):
        return " ".join(str(error).split())
    if isinstance(error, KeyboardInterrupt):
        return "interrupted; the same command continues from what is stored"
    if isinstance(error, MemoryError):
        return "the process ran out of memory; nothing beyond the reserved budget was spent"
    if _no_room(error):
        return "a disk is full; free some space and run again: the release continues from what is stored"
    kind = type(error).__name__
    if isinstance(error, OSError) and error.errno:  # The operating system's words quote no data.
        kind += f" ({os.strerror(error.errno)})"
    return f"unexpected {kind}; run again with --debug to see where (the trace may show data)"


def _no_room(error: BaseException) -> bool:
    """Whether a disk was full. The release is unharmed then, because answers that were not stored were not used."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def to_stderr(message: str, code: int) -> None:
    """Writes the sentence of a failure as one line for people."""
    sys.stderr.write(f"marquee: {message}\n")


def guarded(action: Callable[[], None], *, debug: bool = False, say: Callable[[str, int], None] = to_stderr) -> int:
    """Runs a command and returns its exit code; every failure becomes one sentence.

    action: The command.
    debug: Whether the traceback is printed as well. SENSITIVE: a traceback may quote data.
    say: Receives the sentence and the exit code.
    """
    try:
        action()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the outermost frame of the process
        if debug:
            traceback.print_exception(error)
        say(sentence(error), exit_code(error))
        return exit_code(error)
    return DONE
