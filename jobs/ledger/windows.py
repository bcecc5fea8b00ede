"""Calendar windows: how often a consumer's limit starts anew. They set a pace; what a dataset may spend is for ever."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum


class Window(StrEnum):
    """NONE: one limit in all. DAY, MONTH, YEAR: a limit for each of them, in UTC."""

    NONE = "none"
    DAY = "day"
    MONTH = "month"
    YEAR = "year"


def start_of(window: Window, now: datetime) -> str:
    """The first day of the window that ``now`` lies in, as 2026-11-01; no text for NONE. Later windows sort later."""
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
    """The window that a charge made now counts in: never before the stored one, whatever the clock says.

    A clock decides only when a window ends, and windows only move forward: a charge counts in the window that was
    current when it was made, so that no window ever holds more than the limit. A clock that goes back leaves the later
    window, with all that was spent in it, in place. A clock that runs ahead opens a window early, and that one stays
    until real time has passed it: the pace over the windows so far is kept, and the dataset's total knows no clock.
    """
    return max(stored, start_of(window, now))
