"""Calendar windows: when they begin, in UTC, and that they only move forward."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from jobs.ledger.windows import Window, current_start, start_of

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.mark.parametrize(("window", "start"), [
    (Window.NONE, ""), (Window.DAY, "2026-11-23"), (Window.MONTH, "2026-11-01"), (Window.YEAR, "2026-01-01"),
])  # fmt: skip
def test_a_window_begins_with_its_first_day(window: Window, start: str) -> None:
    assert start_of(window, NOON) == start


@pytest.mark.parametrize(("hours", "day"), [(-11, "2026-12-01"), (11, "2026-11-30"), (0, "2026-11-30")])
def test_days_are_those_of_utc(hours: int, day: str) -> None:
    """Half past eleven in the evening of 30 November, in three time zones."""
    evening = datetime(2026, 11, 30, 23, 30, tzinfo=timezone(timedelta(hours=hours)))
    assert start_of(Window.DAY, evening) == day


@pytest.mark.parametrize("window", [Window.DAY, Window.MONTH, Window.YEAR])
def test_windows_only_move_forward(window: Window) -> None:
    later = start_of(window, NOON + timedelta(days=400))
    assert current_start(window, later, NOON) == later
    assert current_start(window, "2020-01-01", NOON) == start_of(window, NOON)
