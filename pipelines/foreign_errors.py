"""Exceptions of libraries: only the type and a place in this project's code are shown, because messages quote data.

pyarrow says ``Failed to parse string: 'patient-4711'``, and a database says which row it refused. Neither a message nor
a chain of exceptions that leaves this project may therefore contain what a library has said, unless an operator asks.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_PACKAGES = frozenset({"dpcore", "pipelines", "jobs"})
_THIS_FILE = "pipelines/foreign_errors.py"
_shown = False


def described(error: BaseException) -> str:
    """The type of an exception and the place where this project's code met it, as in ``KeyError at jobs/cli.py:110``.

    error: An exception that was raised, of which neither the message nor the chain is read.
    """
    place = place_of(error)
    kind = type(error).__name__
    return kind if place is None else f"{kind} at {place}"


def place_of(error: BaseException) -> str | None:
    """File and line of the innermost frame of this project; None when the exception has passed through none."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    places = [(_inside(filename), line) for filename, line in frames]
    own = [f"{name}:{line}" for name, line in places if name is not None and name != _THIS_FILE]
    return own[-1] if own else None


def cause_of(error: BaseException | None) -> BaseException | None:
    """What to put after ``from`` when ``error`` becomes an exception of this project.

    It is None, which hides the message of ``error`` from every later traceback, except within ``messages_shown``.
    """
    return error if _shown else None


@contextmanager
def messages_shown() -> Iterator[None]:
    """Within this context, exceptions keep their causes, for an operator who may see the data. SENSITIVE."""
    global _shown
    before, _shown = _shown, True
    try:
        yield
    finally:
        _shown = before


def _inside(filename: str) -> str | None:
    """The path of a source file of this project, from the folder of its packages; None for any other file."""
    path = Path(filename)
    if not path.is_relative_to(_ROOT):
        return None
    relative = path.relative_to(_ROOT)
    return relative.as_posix() if relative.parts[0] in _PACKAGES else None
