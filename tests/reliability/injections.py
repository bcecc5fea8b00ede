"""What happens to a run at a point of it. Each function is called in the process that it disturbs."""

from __future__ import annotations

import ctypes
import functools
import os
import resource
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import event

from jobs.ledger import SqlLedger
from jobs.ledger.sql_ledger import LOCK_SECONDS
from tests.support.faults import Point, When, owner_of

Action = Callable[[], None]

_LEDGER, _JOURNAL = "jobs.ledger:SqlLedger", "jobs.release.journal:Journal"
_ENGINE, _PUBLISH = "pipelines.engines.local:LocalEngine", "jobs.release.publish"
_ANSWERS = 11
_AT_ANSWERS = (
    Point("before it is stored", f"{_JOURNAL}._append", When.BEFORE),
    Point("stored, before it is recorded", f"{_LEDGER}.record_answer", When.BEFORE),
    Point("recorded", f"{_JOURNAL}.record", When.AFTER),
)
# The stages of a release, each with the points at which something may happen to it.
STAGES: dict[str, tuple[Point, ...]] = {
    "planned": (
        Point("before the plan is recorded", f"{_LEDGER}.plan", When.BEFORE),
        Point("plan, before its commit", f"{_LEDGER}.plan", When.IN_COMMIT),
        Point("plan recorded", f"{_LEDGER}.plan", When.AFTER),
    ),
    "reserved": (
        Point("before the reservation", f"{_LEDGER}.reserve", When.BEFORE),
        Point("reserve, before its commit", f"{_LEDGER}.reserve", When.IN_COMMIT),
        Point("reserve, after its commit", f"{_LEDGER}.reserve", When.AFTER),
    ),
    "aggregated": (
        Point("engine starts", f"{_ENGINE}.reduce", When.BEFORE),
        Point("engine done", f"{_ENGINE}.reduce", When.AFTER),
        Point("aggregated", f"{_LEDGER}.advance", When.AFTER, argument="aggregated"),
    ),
    "each answer": tuple(replace(_AT_ANSWERS[call % 3], call=call) for call in range(1, _ANSWERS + 1)),
    "estimated": (
        Point("model fitted", f"{_LEDGER}.advance", When.BEFORE, argument="estimated"),
        Point("estimated", f"{_LEDGER}.advance", When.AFTER, argument="estimated"),
    ),
    "staged": (
        Point("before the answers are written", "jobs.release.run:write_answers", When.BEFORE),
        Point("answers written", "jobs.release.run:write_answers", When.AFTER),
        Point("certificate written", "jobs.release.run:write_certificate", When.AFTER),
        Point("manifest written", f"{_PUBLISH}:sync_folder", When.BEFORE),
        Point("staging synced", f"{_PUBLISH}:os.rename", When.BEFORE),
    ),
    "published": (
        Point("renamed, no _SUCCESS", f"{_PUBLISH}:finish", When.BEFORE),
        Point("_SUCCESS written", f"{_PUBLISH}:finish", When.AFTER),
        Point("published", f"{_LEDGER}.advance", When.AFTER, argument="published"),
    ),
}


def arm_action(where: Point, action: Action) -> None:
    """Makes this process call ``action`` once, when it comes to a point, and go on."""
    owner, name = owner_of(where)
    setattr(owner, name, _Once(where, action).on(getattr(owner, name)))


class _Once:
    def __init__(self, where: Point, action: Action) -> None:
        self.where, self.action, self.calls = where, action, 0

    def on(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def watched(*given: Any, **named: Any) -> Any:
            if self.where.argument is None or self.where.argument in [one for one in given if isinstance(one, str)]:
                self.calls += 1
                if self.calls == self.where.call:
                    return self._at_the_call(function, *given, **named)
            return function(*given, **named)

        return watched

    def _at_the_call(self, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        if self.where.when is When.IN_COMMIT:
            event.listen(sqlalchemy.Engine, "commit", lambda _: self.action(), once=True)
        if self.where.when is When.BEFORE:
            self.action()
        result = function(*given, **named)
        if self.where.when is When.AFTER:
            self.action()
        return result


def fill(folder: Path) -> None:
    """Fills the file system of a folder to its last byte."""
    with open(folder / "filler", "wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def no_growth() -> None:
    """From now on, this process may write no file beyond its first kilobyte: RLIMIT_FSIZE."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 10, resource.RLIM_INFINITY))


def make_read_only(*paths: str) -> None:
    """Takes the right to write from everything at and below the paths, also for root in this process."""
    for path in map(Path, paths):
        for one in (path, *(path.rglob("*") if path.is_dir() else ())):
            one.chmod(one.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    _drop_override()


def make_writable(*paths: Path) -> None:
    """Undoes ``make_read_only``."""
    for path in paths:
        for one in (path, *(path.rglob("*") if path.is_dir() else ())):
            one.chmod(one.stat().st_mode | stat.S_IWUSR)


def _drop_override() -> None:
    """Makes permission bits hold for root too: without the capabilities DAC_OVERRIDE and DAC_READ_SEARCH."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()  # Effective, permitted, inheritable; low words, then high words.
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), "capget")
    sets[0] &= ~0b110
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")


def shift_clock(days: float) -> None:
    """Lets every ledger of this process see a clock that is wrong by so many days."""
    SqlLedger.__init__.__defaults__ = (LOCK_SECONDS, lambda: datetime.now(UTC) + timedelta(days=days))  # type: ignore[misc]


@contextmanager
def shifted_clock(days: float) -> Iterator[None]:
    """``shift_clock`` in this process, undone afterwards."""
    before = SqlLedger.__init__.__defaults__
    shift_clock(days)
    try:
        yield
    finally:
        SqlLedger.__init__.__defaults__ = before  # type: ignore[misc]


def replace_file(old: str, new: str) -> None:
    """Puts another file in the place of one, as a job does that rewrites a partition."""
    os.replace(new, old)


def touch(path: str) -> None:
    """Shows to other processes that a point was reached."""
    Path(path).touch()
