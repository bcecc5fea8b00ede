"""Events on stderr. They are public: they name columns and settings, never values of the data or exact counts."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any


class LogFormat(StrEnum):
    """TEXT: lines for people. JSON: one object per line, for machines."""

    TEXT = "text"
    JSON = "json"


_pending: LogFormat | None = None
"""Format that ``configure`` requested and that structlog does not use yet; None when there is none."""
_quiet = False
_only_warnings = False
_format = LogFormat.TEXT


def configure(log_format: LogFormat, *, only_warnings: bool = False) -> None:
    """Sets the format of events for the whole process. Warnings of ``dpcore`` and ``pipelines`` become events too.

    log_format: The format.
    only_warnings: Whether nothing but warnings and failures is written, and no progress is shown.
    """
    global _pending, _format, _only_warnings
    _pending = _format = log_format
    _only_warnings = only_warnings
    if "structlog" in sys.modules:
        _set_up()
    for package in ("dpcore", "pipelines"):
        logger = logging.getLogger(package)
        logger.handlers = [_WarningHandler()]
        logger.propagate = False


def for_machines() -> bool:
    """Whether events are written for machines, so that a command should print its result for them as well."""
    return _format is LogFormat.JSON


def shows_progress() -> bool:
    """Whether progress bars and heartbeats are wanted."""
    return not _only_warnings


@contextmanager
def quiet() -> Iterator[None]:
    """Within this context only warnings and failures are written."""
    global _quiet
    _quiet = True
    try:
        yield
    finally:
        _quiet = False


def is_quiet() -> bool:
    """Whether only warnings and failures are written within ``quiet``."""
    return _quiet


def failure(sentence: str, code: int) -> None:
    """Writes the failure of a command.

    sentence: What failed.
    code: Exit code of the process.
    """
    _logger().error(sentence, exit_code=code)


def detail(event: str, **facts: str | int | float | bool | None) -> None:
    """Writes an event that only machines read, and nothing in the format for people; otherwise as ``info``."""
    if for_machines() and not (_quiet or _only_warnings):
        _logger().info(event, **facts)


def info(event: str, **facts: str | int | float | None) -> None:
    """Writes what happened.

    event: What happened, in a few words.
    facts: Public facts about it: names, settings, and noisy or planned figures.
    """
    if not (_quiet or _only_warnings):
        _logger().info(event, **facts)


def heartbeat(sentence: str, **facts: str | int | float | None) -> None:
    """Writes that a long step goes on: a sentence for people, or an event ``progress`` with facts for machines.

    Unlike ``info``, it is written within ``quiet`` too, because what happens there may take long.

    sentence: The progress, in words.
    facts: The same as figures. Both are public.
    """
    if _only_warnings:
        return
    if for_machines():
        _logger().info("progress", **facts)
    else:
        _logger().info(sentence)


def warning(event: str, **facts: str | int | float | None) -> None:
    """Writes what the operator should look at; the arguments are those of ``info``."""
    _logger().warning(event, **facts)


class _WarningHandler(logging.Handler):
    """Writes warnings that dpcore and pipelines log with the standard library as events."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            warning(record.getMessage())


def _logger() -> Any:
    """structlog's logger. The library is imported with the first event, because most commands write none."""
    import structlog

    _set_up()
    return structlog.get_logger()


def _set_up() -> None:
    """Configures structlog as the last call of ``configure`` requested."""
    global _pending
    import structlog

    if _pending is None:
        return
    renderer: Any = structlog.processors.JSONRenderer(sort_keys=True)
    if _pending is LogFormat.TEXT:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%Y-%m-%dT%H:%M:%SZ", utc=True),
            renderer,
        ],
        logger_factory=lambda *_: structlog.WriteLogger(sys.stderr),  # A program may replace stderr, and close it.
        cache_logger_on_first_use=False,
    )
    _pending = None
