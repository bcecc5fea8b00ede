"""Calendar windows of a consumer's limit. A window limits the rate of spending; it never restores budget."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum


class Window(StrEnum):
    """How often a limit starts anew, by the calendar in UTC; NONE is one limit for all time."""

    NONE = "none"
    DAY = "day"
    MONTH = "month"
    YEAR = "year"


def start_of(window: Window, now: datetime) -> str:
    """First day of the window of ``now``, such as 2026-11-01; empty for NONE. Later windows sort later."""
    day = now.astimezone(UTC).date()
    match window:
        case Window.NONE:
            return ""
        case Window.DAY:
            return day.isoformat()
        case Window.MONTH:
            return day.replace(day=1).isoformat()
        case Window.YEAR:
            return day.replace(month=1, day=1).isoformat()


def current_start(window: Window, stored: str, now: datetime) -> str:
    """First day of the window that a charge made now counts in; never before the stored one.

    Windows only move forward, so that no window ever holds more than the limit. When the clock goes back, the later
    window stays in place with everything spent in it. When the clock runs ahead, a window opens early and stays until
    real time has passed it. The dataset's total depends on no clock.

    window: The consumer's window.
    stored: First day of the window of the consumer's last charge.
    now: Time of the charge.
    """
    return max(stored, start_of(window, now))
