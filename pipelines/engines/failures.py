"""Failures of a distributed run: no data values in the engine's logs, and exceptions of this project on the driver."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from dpcore import errors
from dpcore.errors import EngineError, InputError, IntegrityError, MarqueeError

T = TypeVar("T")

# A line of a traceback with an exception of this project; Beam appends the name of its step.
_SENTENCE = re.compile(rf"^(?:\S*: )?{re.escape(errors.__name__)}\.(\w+): (.+?)(?: \[while running .*)?$", re.MULTILINE)


def guarded(results: Iterator[T]) -> Iterator[T]:
    """Passes results on. A failure names its place in the code, never a value.

    Engines copy the message of a failed task to logs, event files and web pages, and messages of libraries quote data
    (``Failed to parse string: ...``).

    results: The results of one task.

    Raises: MarqueeError unchanged; EngineError in place of any other exception.
    """
    try:
        yield from results
    except MarqueeError as error:
        raise error from None  # Its cause is a library's message.
    except Exception as error:  # noqa: BLE001 - the one place that may not know what can fail
        frame = traceback.extract_tb(error.__traceback__)[-1]
        kind = type(error).__name__
        message = f"a task failed with {kind} in {frame.name} ({Path(frame.filename).name}:{frame.lineno})"
        raise EngineError(message) from None


def failure(engine: str, report: str) -> MarqueeError:
    """The exception that describes a failed run: that of the first task which raised one of this project.

    engine: Name of the engine, for the message.
    report: The engine's report of the failure.
    """
    sentence = _SENTENCE.search(report)
    if sentence is None:
        return EngineError(f"{engine} did not finish the aggregation: its own log says why")
    kind, message = sentence.groups()
    own_types = {error_type.__name__: error_type for error_type in (InputError, IntegrityError)}
    return own_types.get(kind, EngineError)(message)
