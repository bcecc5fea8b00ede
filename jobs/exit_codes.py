"""Exit codes: every failure becomes one sentence on stderr and an exit code that a scheduler can act on."""

from __future__ import annotations

import errno
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dpcore.errors import (
    BudgetExceededError,
    ChargedBeforeError,
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
from jobs import log
from jobs.log import LogFormat
from pipelines.foreign_errors import described, messages_shown, place_of

DONE = 0
CONFIG = 2
INPUT = 3
BUDGET = 4
LEDGER = 5  # The same command may be run again.
ENGINE = 6  # The same command may be run again.
INTEGRITY = 7
UNEXPECTED = 70
INTERRUPTED = 130

TRACEBACK_MARK = "SENSITIVE: this traceback may quote data; it is for the operator only"

_CODES: tuple[tuple[type[MarqueeError], int], ...] = (
    (ConfigError, CONFIG),
    (UnprovedError, CONFIG),
    (CutOffError, CONFIG),
    (ScaleError, CONFIG),
    (InputError, INPUT),
    (BudgetExceededError, BUDGET),
    (NoBudgetError, BUDGET),
    (ChargedBeforeError, BUDGET),
    (LedgerUnavailableError, LEDGER),
    (EngineError, ENGINE),
    (IntegrityError, INTEGRITY),
)

_FULL = "a disk is full; free some space"
_FORBIDDEN = "a file or a folder may not be read or written; give this user permission for all that the config names"
# Failures of local storage, by errno: exit code, and what happened with the advice. An answer is used only after it was
# stored, so the release is unharmed.
_STORAGE: dict[int, tuple[int, str]] = {
    errno.ENOSPC: (ENGINE, _FULL),
    errno.EDQUOT: (ENGINE, _FULL),
    errno.EFBIG: (ENGINE, "a file would be larger than this process may write; raise its limit (ulimit -f)"),
    errno.EACCES: (CONFIG, _FORBIDDEN),
    errno.EPERM: (CONFIG, _FORBIDDEN),
    errno.EROFS: (CONFIG, _FORBIDDEN),
}


def exit_code(error: BaseException) -> int:
    """The exit code of an exception."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, OSError) and error.errno in _STORAGE:
        return _STORAGE[error.errno][0]
    return next((code for kind, code in _CODES if isinstance(error, kind)), UNEXPECTED)


def sentence(error: BaseException) -> str:
    """Describes an exception in one sentence.

    An exception of this project is described by its message. Any other exception is described by its type and the place
    in this project's code where it occurred, because a library's message may quote data.
    """
    if isinstance(error, MarqueeError):
        return " ".join(str(error).split())
    if isinstance(error, KeyboardInterrupt):
        return "interrupted; run the same command again to continue"
    if isinstance(error, MemoryError):
        return "the process ran out of memory; no more than the reserved budget was spent"
    if isinstance(error, OSError) and error.errno in _STORAGE:
        return f"{_STORAGE[error.errno][1]} and run the same command again to continue the release"
    return f"unexpected {_kind_and_place(error)}; run again with --debug for a traceback, which may quote data"


def _kind_and_place(error: BaseException) -> str:
    if not isinstance(error, OSError) or not error.errno:
        return described(error)
    # The operating system's messages quote no data.
    place = place_of(error)
    return f"{type(error).__name__} ({os.strerror(error.errno)})" + (f" at {place}" if place else "")


def to_stderr(message: str, code: int) -> None:
    """Writes a failure to stderr as one line of text."""
    sys.stderr.write(f"marquee: {message}\n")


def reporter(log_format: LogFormat) -> Callable[[str, int], None]:
    """How failures are written in a format of events: as one line of text, or as an event."""
    return log.failure if log_format is LogFormat.JSON else to_stderr


def guarded(action: Callable[[], None], *, debug: bool = False, say: Callable[[str, int], None] = to_stderr) -> int:
    """Runs a command and returns its exit code; every failure is reported as one sentence.

    Python prints some exceptions by itself, those of threads and finalizers. They too are reported without a message.

    action: The command.
    debug: Whether to print the traceback as well. SENSITIVE: a traceback may quote data.
    say: Called on a failure with the sentence and the exit code.
    """
    try:
        with messages_shown() if debug else _without_messages():
            action()
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - the outermost frame of the process, which panics of Rust reach too
        if debug:
            sys.stderr.write(f"{TRACEBACK_MARK}\n")
            traceback.print_exception(error)
        say(sentence(error), exit_code(error))
        return exit_code(error)
    return DONE


@contextmanager
def _without_messages() -> Iterator[None]:
    """Within this context, exceptions that nothing can catch are written as their type and place alone."""
    threads, finalizers = threading.excepthook, sys.unraisablehook

    def note(caught: Any) -> None:
        if caught.exc_value is not None:
            log.warning(f"ignored an unexpected {_kind_and_place(caught.exc_value)}, in a thread or a finalizer")

    threading.excepthook = sys.unraisablehook = note
    try:
        yield
    finally:
        threading.excepthook, sys.unraisablehook = threads, finalizers
