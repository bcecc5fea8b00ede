"""Progress of long steps: a bar on a terminal, and heartbeats where there is none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jobs import heartbeat, log

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import Task, TaskID

    from dpcore.mechanisms.api import Progress as Report


@contextmanager
def bar(label: str) -> Iterator[Report]:
    """Yields a function to call with (done, total). It draws a bar if stderr is a terminal, and otherwise none.

    Without a bar, ``jobs.heartbeat`` says at intervals how far the step is.

    label: Text in front of the bar.
    """
    drawn = sys.stderr.isatty() and log.shows_progress()
    with heartbeat.activity(label, drawn=drawn) as remember:
        if not drawn:
            yield remember
            return
        with _bar() as shown:
            yield _Drawn(remember, shown, shown.add_task(label, total=None))


class _Drawn:
    """The progress of an activity that a bar draws; it is called with (done, total)."""

    def __init__(self, activity: heartbeat.Activity, shown: Bar, task: TaskID) -> None:
        self._activity, self._shown, self._task = activity, shown, task

    def __call__(self, done: int, total: int) -> None:
        self._activity(done, total)
        self._shown.update(self._task, completed=done, total=total)

    def stage(self, detail: str) -> None:
        self._activity.stage(detail)


def _bar() -> Bar:
    """A bar with stage, percentage, rate, time so far and time remaining. It vanishes at the end."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        TaskProgressColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Stage(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(heartbeat.current_stage() or task.description)

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            total = None if task.total is None else int(task.total)
            label = task.description
            return Text(heartbeat.Beat(label, label, task.elapsed or 0.0, int(task.completed), total).rate_text)

    columns = (Stage(), BarColumn(), TaskProgressColumn(), Rate(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
