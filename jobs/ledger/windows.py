"""Calendar windows of a consumer's limit. A window limits the rate of spending; it never restores budget."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum


class Window(StrEnum):
    """Calendar period, in UTC, to which a limit applies. NONE is one limit for all time."""

    NONE = "none"
    DAY = "day"
    MONTH = "month"
    YEAR = "year"


def start_of(window: Window, now: datetime) -> str:
    """First day of the window that contains ``now``, such as 2026-11-01; empty for NONE. Later windows sort later."""
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
    """First day of the window in which a charge made now counts. It is never before the stored one.

    Windows only move forward, so that the charges of a window never exceed the limit. If the clock is set back, the
    later window stays in place with everything spent in it. If the clock runs ahead, a window opens early, and lasts
    until its calendar period is really over. The dataset's total does not depend on any clock.

    window: The consumer's window.
    stored: First day of the window of the consumer's last charge.
    now: Time of the charge.
    """
    return max(stored, start_of(window, now))
