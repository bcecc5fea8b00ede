"""Failures of a distributed run: engine logs get no data values, and the driver gets an exception of this project."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from dpcore import errors
from dpcore.errors import EngineError, InputError, IntegrityError, MarqueeError
from pipelines.foreign_errors import cause_of, described

T = TypeVar("T")

# The line of a traceback that states an exception of this project. Beam appends the name of its step.
_SENTENCE = re.compile(rf"^(?:\S*: )?{re.escape(errors.__name__)}\.(\w+): (.+?)(?: \[while running .*)?$", re.MULTILINE)


def guarded(results: Iterator[T]) -> Iterator[T]:
    """Yields the results of a task. The message of a failure names a place in the code and never a value of the data.

    Engines copy the message of a failed task to logs, event files and web pages, and the messages of libraries quote
    data (``Failed to parse string: ...``).

    results: The results of one task.

    Raises: MarqueeError unchanged; EngineError instead of any other exception.
    """
    with without_values("a task"):
        yield from results


@contextmanager
def without_values(what: str) -> Iterator[None]:
    """Runs a step whose failure may be logged, like a task of ``guarded`` that returns one value. Also a decorator.

    what: The step, with which the message of an EngineError begins.

    Raises: MarqueeError unchanged; EngineError instead of any other exception.
    """
    try:
        yield
    except MarqueeError as error:
        raise error from cause_of(error.__cause__)
    except Exception as error:  # noqa: BLE001 - any exception of a step must be caught here
        raise EngineError(f"{what} failed with {described(error)}") from cause_of(error)


def failure(engine: str, report: str) -> MarqueeError:
    """The exception that describes a failed run: the first exception of this project that a task has raised.

    engine: Name of the engine, for the message.
    report: The engine's report of the failure.
    """
    sentence = _SENTENCE.search(report)
    if sentence is None:
        return EngineError(f"{engine} did not finish the aggregation; see its own log for the reason")
    kind, message = sentence.groups()
    own_types = {error_type.__name__: error_type for error_type in (InputError, IntegrityError)}
    return own_types.get(kind, EngineError)(message)
