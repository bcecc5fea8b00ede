"""The one public channel: events on stderr that name columns and settings, never values or exact counts."""

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
"""The format of a call of ``configure`` that no event has followed yet."""
_quiet = False


def configure(log_format: LogFormat) -> None:
    """Sets how events are written to stderr, for the whole process; warnings of the packages become events as well."""
    global _pending
    _pending = log_format
    if "structlog" in sys.modules:
        _set_up()
    for package in ("dpcore", "pipelines"):
        logger = logging.getLogger(package)
        logger.handlers = [_Events()]
        logger.propagate = False


@contextmanager
def quiet() -> Iterator[None]:
    """Writes no event of what happened, only warnings and failures."""
    global _quiet
    _quiet = True
    try:
        yield
    finally:
        _quiet = False


def failure(sentence: str, code: int) -> None:
    """The sentence of a failed command, as an event."""
    _logger().error(sentence, exit_code=code)


def info(event: str, **facts: str | int | float | None) -> None:
    """Says what happened. Facts are public: names, settings, noisy or planned figures."""
    if not _quiet:
        _logger().info(event, **facts)


def warning(event: str, **facts: str | int | float | None) -> None:
    """Says what the operator should look at."""
    _logger().warning(event, **facts)


class _Events(logging.Handler):
    """Hands on what dpcore and pipelines, which know nothing of jobs, log by the standard library."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            warning(record.getMessage())


def _logger() -> Any:
    """structlog's logger. The library is imported by the first event: most commands write none."""
    import structlog

    _set_up()
    return structlog.get_logger()


def _set_up() -> None:
    """Configures structlog as the last call of ``configure`` asked."""
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
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    _pending = None
