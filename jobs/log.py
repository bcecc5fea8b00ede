"""The one public channel: events on stderr that name columns and settings, never values or exact counts."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Any

import structlog


class LogFormat(StrEnum):
    """TEXT: lines for people. JSON: one object a line, for machines."""

    TEXT = "text"
    JSON = "json"


def configure(log_format: LogFormat) -> None:
    """Sets where and how events are written, for the whole process."""
    renderer: Any = structlog.processors.JSONRenderer(sort_keys=True)
    if log_format is LogFormat.TEXT:
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


def failure(said: str, code: int) -> None:
    """The sentence of a failed command, as an event."""
    structlog.get_logger().error(said, exit_code=code)


def info(event: str, **facts: str | int | float | None) -> None:
    """Says what happened. Facts are public: names, settings, noisy or planned figures."""
    structlog.get_logger().info(event, **facts)


def warning(event: str, **facts: str | int | float | None) -> None:
    """Says what the operator should look at."""
    structlog.get_logger().warning(event, **facts)
