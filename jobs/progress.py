"""Progress bars on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpcore.mechanisms.api import Progress as Report


@contextmanager
def bar(label: str) -> Iterator[Report]:
    """Yields a function to call with (done, total). It draws a bar if stderr is a terminal, and otherwise does nothing.

    label: Text in front of the bar.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as shown:
        task = shown.add_task(label, total=None)

        def report(done: int, total: int) -> None:
            shown.update(task, completed=done, total=total)

        yield report
