"""Signs of life while a step takes long: an event at regular intervals with stage, fraction, rate and time remaining.

Heartbeats are public. They hold names, durations, the progress that mechanisms report, which follows from public
numbers and noisy answers, and the part of the data that is read in steps of 5 percent. They never hold numbers of
private rows, units or files.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from dpcore.errors import ConfigError
from jobs import log

SETTING: Final = "MARQUEE_HEARTBEAT_SECONDS"
"""Environment variable: seconds between two heartbeats, or 0 for none."""

DEFAULT_SECONDS: Final = 20.0
COUNTED: Final = {"synthetic rows": "rows", "users": "users"}
"""Labels of activities whose progress is a public number of things, and what they are called."""


@dataclass
class Activity:
    """Something that takes time.

    label: Its name.
    started: When it began, in seconds of the monotonic clock.
    done: Number of its steps so far.
    total: Number of all its steps; None if it is not known.
    detail: The stage that it has come to, and after a colon how far it is; empty if it names none.
    """

    label: str
    started: float = field(default_factory=time.monotonic)
    done: int = 0
    total: int | None = None
    detail: str = ""

    def __call__(self, done: int, total: int) -> None:
        """Records progress, as mechanisms report it."""
        self.done, self.total = done, total

    def stage(self, detail: str) -> None:
        """Records the stage that it has come to, and logs each new one: its name, without how far it is."""
        before, self.detail = self.detail, detail
        name = detail.partition(":")[0]
        if name != before.partition(":")[0]:
            log.info("reached", of=self.label, stage=name, **({"after": before} if before else {}))

    @property
    def shown(self) -> str:
        """Its name, with the stage that it has come to."""
        return f"{self.label} / {self.detail}" if self.detail else self.label


@dataclass(frozen=True)
class Beat:
    """What one heartbeat says.

    stage: Labels of all open activities, the outermost first.
    label: Label of the activity whose progress is reported.
    seconds: How long that activity has taken.
    done: Number of its steps so far.
    total: Number of all its steps; None if it is not known.
    """

    stage: str
    label: str
    seconds: float
    done: int = 0
    total: int | None = None

    @property
    def fraction(self) -> float | None:
        """Part of the steps that is done, in [0, 1]; None if it is not known."""
        return min(self.done / self.total, 1.0) if self.total else None

    @property
    def per_second(self) -> float | None:
        """Steps per second; None before the first one."""
        return self.done / self.seconds if self.total and self.done and self.seconds > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """Seconds for the remaining steps at this rate; None without a rate."""
        rate = self.per_second
        return None if rate is None or self.total is None else max(self.total - self.done, 0) / rate

    @property
    def rate_text(self) -> str:
        """The rate in words; empty without one."""
        if self.per_second is None or self.total is None:
            return ""
        if self.label in COUNTED:
            return f"{self.per_second:,.0f} {COUNTED[self.label]} per second"
        return f"{6000 * self.per_second / self.total:.3g} % per minute"

    @property
    def text(self) -> str:
        """The heartbeat as a sentence for people."""
        if self.fraction is None:
            return f"working on {self.stage}: {duration_text(self.seconds)} so far"
        parts = [f"{math.floor(100 * self.fraction)} % after {duration_text(self.seconds)}"]
        if self.rate_text:
            parts.append(self.rate_text)
        if self.seconds_left is not None:
            parts.append(f"about {duration_text(self.seconds_left)} left")
        return f"working on {self.stage}: {', '.join(parts)}"


_open: list[Activity] = []
_drawn = 0  # Number of progress bars on the terminal, which make heartbeats superfluous.
_lock = threading.Lock()
_stop: threading.Event | None = None


def duration_text(seconds: float) -> str:
    """A duration in words.

    >>> duration_text(1), duration_text(75), duration_text(7260)
    ('1 second', '1 min 15 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return "1 second" if whole == 1 else f"{whole} seconds"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def activity(label: str, *, drawn: bool = False) -> Iterator[Activity]:
    """Within this context, heartbeats name an activity. Yields it: it is called with its progress.

    label: Name of the activity.
    drawn: Whether a progress bar shows it on the terminal, so that no heartbeat is needed.

    Raises: ConfigError when the environment variable ``SETTING`` is not a number of seconds.
    """
    global _drawn
    seconds, current = interval(), Activity(label)
    with _lock:
        _open.append(current)
        _drawn += drawn
        _start(seconds)
    try:
        yield current
    finally:
        with _lock:
            _open.remove(current)
            _drawn -= drawn
            if not _open:
                _end()


def interval() -> float:
    """Seconds between two heartbeats; 0 for none. Raises: ConfigError for anything else than a number of seconds."""
    text = os.environ.get(SETTING, "")
    try:
        seconds = float(text) if text.strip() else DEFAULT_SECONDS
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ConfigError(f"{SETTING} is {text!r}; want a number of seconds between heartbeats, or 0 for none")
    return seconds


def current_stage() -> str:
    """Labels of all open activities, the outermost first; empty if there is none."""
    with _lock:
        return " / ".join(each.shown for each in _open)


def beat() -> Beat | None:
    """What a heartbeat would say now; None while nothing takes place, or a progress bar says it."""
    with _lock:
        if not _open or _drawn:
            return None
        stage = " / ".join(each.shown for each in _open)
        known = [each for each in _open if each.total is not None] or [_open[-1]]
        # Activities within the quiet part of another one, such as the releases of marquee warm, are details of it.
        main = known[0] if log.is_quiet() else known[-1]
        return Beat(stage, main.label, time.monotonic() - main.started, main.done, main.total)


def _start(seconds: float) -> None:
    global _stop
    if _stop is None and seconds > 0:
        _stop = threading.Event()
        threading.Thread(target=_watch, args=(_stop, seconds), name="heartbeat", daemon=True).start()


def _end() -> None:
    global _stop
    if _stop is not None:
        _stop.set()
        _stop = None


def _watch(stop: threading.Event, seconds: float) -> None:
    """Writes heartbeats until it is stopped. It ends early when nobody reads stderr any more."""
    while not stop.wait(seconds):
        now = beat()
        if now is None or stop.is_set():
            continue
        try:
            _write(now)
        except (OSError, ValueError):
            return


def _write(now: Beat) -> None:
    facts: dict[str, float | str | None] = {"stage": now.stage, "activity": now.label, "seconds": round(now.seconds, 1)}
    if now.fraction is not None:
        facts["fraction"] = round(now.fraction, 4)
    if now.per_second is not None and now.seconds_left is not None:
        facts["fraction_per_minute"] = round(60 * now.per_second / (now.total or 1), 4)
        facts["seconds_remaining"] = round(now.seconds_left, 1)
    log.heartbeat(now.text, **facts)
