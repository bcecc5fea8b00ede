"""Failures of a distributed run: without data values in the engine's logs, and as our own exceptions on the driver."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from dpcore import errors
from dpcore.errors import EngineError, InputError, IntegrityError, MarqueeError

T = TypeVar("T")

# A line of a traceback with our sentence; Beam appends the name of its step.
_SENTENCE = re.compile(rf"^(?:\S*: )?{re.escape(errors.__name__)}\.(\w+): (.+?)(?: \[while running .*)?$", re.MULTILINE)


def guarded(results: Iterator[T]) -> Iterator[T]:
    """The same results; what fails says where in the code, never on which value.

    Engines copy the message of a failed task to logs, event files and web pages, and messages of libraries quote
    data (``Failed to parse string: ...``).
    Raises: MarqueeError as it is; EngineError in place of any other exception.
    """
    try:
        yield from results
    except MarqueeError as error:
        raise error from None  # Its cause is a library's message.
    except Exception as error:  # noqa: BLE001 - the one place that may not know what can fail
        place = traceback.extract_tb(error.__traceback__)[-1]
        kind = type(error).__name__
        message = f"a task failed with {kind} in {place.name} ({Path(place.filename).name}:{place.lineno})"
        raise EngineError(message) from None


def failure(engine: str, report: str) -> MarqueeError:
    """What a run failed of, from the engine's report: the sentence of the first task that said one of ours."""
    sentence = _SENTENCE.search(report)
    if sentence is None:
        return EngineError(f"{engine} did not finish the aggregation: its own log says why")
    kind, message = sentence.groups()
    own = {one.__name__: one for one in (InputError, IntegrityError)}
    return own.get(kind, EngineError)(message)
