"""Named points of a run at which its process is killed, and the process that dies there.

The points hook functions of the composition root by name, from outside; nothing that ships knows of them.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy
from sqlalchemy import event

from dpcore.kernel.budget import Filter
from tests.support.datasets import ROOT

Hooked = Callable[..., Any]
Setter = Callable[[Any, str, Any], None]

# What the kernel draws with. A draw is noted before it is made, in a file that outlives the process.
SAMPLERS = (
    ("dpcore.kernel.private_statistics", "add_noise"),
    ("dpcore.kernel.private_statistics", "noisy_argmax"),
    ("dpcore.kernel.private_items", "add_noise"),
    ("dpcore.kernel.weighted_sampler", "draw"),
    ("dpcore.kernel.bernoulli", "bits"),
)
LAST = 0  # In place of a number of calls: as many as the release has answers.
SECONDS_TO_DIE = 60.0


class When(Enum):
    """Where in the call of a function the process dies."""

    BEFORE = "before"
    AFTER = "after"
    IN_COMMIT = "everything of its transaction is written, nothing committed"
    BEFORE_SYNC = "what it wrote is in the file, not yet on disk"
    HALF_A_LINE = "half of the bytes that it should append are in the file"
    HALF_A_FILE = "the file that it wrote has lost its second half"
    IN_A_TASK = "a worker process of the engine has done its work, and kills the driver"


@dataclass(frozen=True)
class Point:
    """One place to die.

    function: "module:name" or "module:Class.name".
    call: Which call of the function, from 1; LAST for as many as there are answers.
    argument: Counts only the calls that have this text among their arguments.
    engine: The only engine that has this point; None for every one.
    """

    name: str
    function: str
    when: When
    call: int = 1
    argument: str | None = None
    engine: str | None = None

    def at(self, answers: int) -> Point:
        """The same point with LAST resolved."""
        return replace(self, call=answers) if self.call == LAST else self


_LEDGER, _JOURNAL = "jobs.ledger:SqlLedger", "jobs.release.journal:Journal"
_LOCAL, _SPARK = "pipelines.engines.local", "pipelines.engines.spark"
_DRAW = "the kernel:draw"
_BEFORE, _AFTER = When.BEFORE, When.AFTER
POINTS = (
    Point("before the plan is recorded", f"{_LEDGER}.plan", _BEFORE),
    Point("plan recorded", f"{_LEDGER}.plan", _AFTER),
    Point("reserve, before its commit", f"{_LEDGER}.reserve", When.IN_COMMIT),
    Point("reserve, after its commit", f"{_LEDGER}.reserve", _AFTER),
    Point("engine starts", f"{_LOCAL}:LocalEngine.reduce", _BEFORE, engine="local"),
    Point("engine starts", f"{_SPARK}:SparkEngine.reduce", _BEFORE, engine="spark"),
    Point("engine has read one file", f"{_LOCAL}:read_batches", _BEFORE, 2, engine="local"),
    Point("engine has read one file", f"{_SPARK}:_split_rows", When.IN_A_TASK, engine="spark"),
    Point("engine done, unknown to the ledger", f"{_LOCAL}:LocalEngine.reduce", _AFTER, engine="local"),
    Point("engine done, unknown to the ledger", f"{_SPARK}:SparkEngine.reduce", _AFTER, engine="spark"),
    Point("aggregated", f"{_LEDGER}.advance", _AFTER, argument="aggregated"),
    Point("before the first draw", _DRAW, _BEFORE),
    Point("first draw, not stored", _DRAW, _AFTER),
    Point("first answer, half a line stored", f"{_JOURNAL}._append", When.HALF_A_LINE),
    Point("first answer, stored and not synced", f"{_JOURNAL}._append", When.BEFORE_SYNC),
    Point("first answer, synced, unknown to the ledger", f"{_JOURNAL}._append", _AFTER),
    Point("first answer, known to the ledger", f"{_JOURNAL}.record", _AFTER),
    Point("4th draw, not stored", _DRAW, _AFTER, 4),
    Point("4th answer, half a line stored", f"{_JOURNAL}._append", When.HALF_A_LINE, 4),
    Point("4th answer, synced, unknown to the ledger", f"{_JOURNAL}._append", _AFTER, 4),
    Point("4th answer, told to the ledger, not committed", f"{_LEDGER}.record_answer", When.IN_COMMIT, 4),
    Point("4th answer, known to the ledger", f"{_JOURNAL}.record", _AFTER, 4),
    Point("last answer", f"{_JOURNAL}.record", _AFTER, LAST),
    Point("model fitted", f"{_LEDGER}.advance", _BEFORE, argument="estimated"),
    Point("estimated", f"{_LEDGER}.advance", _AFTER, argument="estimated"),
    Point("answers written", "jobs.release.run:write_answers", _AFTER),
    Point("synthetic rows half written", "pyarrow.parquet:write_table", When.HALF_A_FILE),
    Point("certificate written", "jobs.release.run:write_certificate", _AFTER),
    Point("manifest written, staging not synced", "jobs.release.publish:sync_folder", _BEFORE),
    Point("staging synced", "jobs.release.publish:os.rename", _BEFORE),
    Point("renamed, no _SUCCESS", "jobs.release.publish:finish", _BEFORE),
    Point("_SUCCESS written, unknown to the ledger", "jobs.release.publish:finish", _AFTER),
    Point("published", f"{_LEDGER}.advance", _AFTER, argument="published"),
)

PASS_POINTS = tuple(
    Point(f"{place} pass {number}", f"{module}.reduce", when, number, engine=engine)
    for engine, module in (("local", f"{_LOCAL}:LocalEngine"), ("spark", f"{_SPARK}:SparkEngine"))
    for number in (2, 3)
    for place, when in (("before", _BEFORE), ("after", _AFTER))
)
"""Points between the passes of a release that reads the data again, after what earlier passes have released."""

NAMES_POINT = Point("items discovered, no query built", "jobs.release.run:discover_items", _AFTER)
TABLE_POINT = Point("tables of itemsets written", "jobs.release.run:write_itemsets", _AFTER)
_ALL_POINTS = (*POINTS, *PASS_POINTS, NAMES_POINT, TABLE_POINT)


def point(name: str, engine: str = "local") -> Point:
    """The point of this name on this engine."""
    return next(one for one in _ALL_POINTS if one.name == name and one.engine in (None, engine))


@dataclass(frozen=True)
class Corpse:
    """A process that was killed.

    code: As ``Popen.returncode``: minus the signal. orphans: Processes of its own that still ran a minute later.
    """

    code: int
    stderr: str
    orphans: int


def kill_at(where: Point, config: Path, tally: Path, plant: str | None = None) -> Corpse:
    """Runs a release in a process of its own, which dies at this point.

    tally: File that gets a line a draw, see ``note_draws``. plant: "module:function" that process calls first.
    """
    arguments = [where.name, where.engine or "local", str(where.call), str(tally), str(config), plant or ""]
    finished = subprocess.run(
        [sys.executable, "-m", __name__, *arguments],
        cwd=config.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Corpse(finished.returncode, finished.stderr, _outlived(tally))


def drawn(tally: Path) -> list[Fraction]:
    """What each draw so far was charged, in order."""
    return [Fraction(line) for line in tally.read_text().split()] if tally.exists() else []


def note_draws(tally: Path, put: Setter = setattr, then: Callable[[Hooked], Hooked] = lambda draw: draw) -> None:
    """Makes the kernel append a line to ``tally`` before each draw: the amount that it charged last.

    then: Wrapped around each sampler, inside of the note.
    """
    charge, last = Filter.charge, [Fraction(0)]

    def remembered(self: Filter, label: str, amount: Fraction, scale: float | None = None) -> None:
        charge(self, label, amount, scale)
        last[0] = amount

    def noted(draw: Hooked) -> Hooked:
        def wrapped(*given: Any, **named: Any) -> Any:
            with open(tally, "a", encoding="ascii") as file:
                file.write(f"{last[0]}\n")
            return draw(*given, **named)

        return wrapped

    put(Filter, "charge", remembered)
    for module, name in SAMPLERS:
        owner = importlib.import_module(module)
        put(owner, name, then(noted(getattr(owner, name))))


@contextmanager
def noted_draws(tally: Path) -> Iterator[None]:
    """``note_draws`` in this process, undone afterwards."""
    undo: list[tuple[Any, str, Any]] = []

    def put(owner: Any, name: str, value: Any) -> None:
        undo.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    try:
        note_draws(tally, put)
        yield
    finally:
        for change in reversed(undo):
            setattr(*change)


def die(tally: Path, pid: int | None = None) -> None:
    """Notes the children of a process, so that they can be looked for, and kills it."""
    process = psutil.Process(pid or os.getpid())
    children = [(child.pid, child.create_time()) for child in process.children(recursive=True)]
    _children(tally).write_text(json.dumps(children))
    process.kill()


def _outlived(tally: Path) -> int:
    """How many of the children noted do not end by themselves; those are killed."""
    noted = json.loads(_children(tally).read_text()) if _children(tally).exists() else []
    left = [child for pid, born in noted if (child := _same(pid, born)) is not None]
    _, left = psutil.wait_procs(left, timeout=SECONDS_TO_DIE)
    for child in left:
        child.kill()
    return len(left)


def _same(pid: int, born: float) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        return process if process.create_time() == born else None
    except psutil.NoSuchProcess:
        return None


def _children(tally: Path) -> Path:
    return tally.with_suffix(".children")


@dataclass
class _Bomb:
    """Goes off at the call that a point names. Calls of several functions can be counted together."""

    where: Point
    tally: Path
    calls: int = 0

    def on(self, function: Hooked) -> Hooked:
        @functools.wraps(function)
        def deadly(*given: Any, **named: Any) -> Any:
            if self.where.argument is None or self.where.argument in [one for one in given if isinstance(one, str)]:
                self.calls += 1
                if self.calls == self.where.call:
                    return _END[self.where.when](self.tally, function, *given, **named)
            return function(*given, **named)

        return deadly


def _before(tally: Path, function: Hooked, *given: Any, **named: Any) -> None:
    die(tally)


def _after(tally: Path, function: Hooked, *given: Any, **named: Any) -> None:
    function(*given, **named)
    die(tally)


def _in_commit(tally: Path, function: Hooked, *given: Any, **named: Any) -> None:
    event.listen(sqlalchemy.Engine, "commit", lambda _: die(tally))
    function(*given, **named)


def _before_sync(tally: Path, function: Hooked, *given: Any, **named: Any) -> None:
    os.fsync = lambda fd: die(tally)
    function(*given, **named)


def _half_a_line(tally: Path, function: Hooked, journal: Any, line: bytes) -> None:
    with open(journal._lines.path, "ab") as file:
        file.write(line[: len(line) // 2])
    die(tally)


def _half_a_file(tally: Path, function: Hooked, *given: Any, **named: Any) -> None:
    function(*given, **named)
    path = Path(given[1])
    os.truncate(path, path.stat().st_size // 2)
    die(tally)


_END: dict[When, Hooked] = {
    When.BEFORE: _before,
    When.AFTER: _after,
    When.IN_COMMIT: _in_commit,
    When.BEFORE_SYNC: _before_sync,
    When.HALF_A_LINE: _half_a_line,
    When.HALF_A_FILE: _half_a_file,
}


def task_that_kills(driver: int, tally: Path, *given: Any) -> Iterator[Any]:
    """A task of the Spark engine, run in a worker: does its work, and kills the driver."""
    from pipelines.engines.worker_tasks import split_rows

    work, part = given
    list(split_rows(work.value, part))
    die(tally, driver)
    yield from ()


def owner_of(where: Point) -> tuple[Any, str]:
    """The module or class that holds the function of a point, and the function's name in it."""
    module, _, path = where.function.partition(":")
    *outer, name = path.split(".")
    return functools.reduce(getattr, outer, importlib.import_module(module)), name


def arm(where: Point, tally: Path) -> None:
    """Makes this process die at a point, and note its draws until then."""
    bomb = _Bomb(where, tally)
    if where.function == _DRAW:
        note_draws(tally, then=bomb.on)
        return
    note_draws(tally)
    owner, name = owner_of(where)
    function = bomb.on(getattr(owner, name))
    if where.when is When.IN_A_TASK:
        # Workers import this function by its name; under -m it would be one of __main__.
        task = importlib.import_module("tests.support.faults").task_that_kills
        function = functools.partial(task, os.getpid(), tally)
    setattr(owner, name, function)


def main(arguments: Sequence[str]) -> None:
    from jobs import cli

    name, engine, call, tally, config, plant = arguments
    if plant:
        module, _, function = plant.partition(":")
        getattr(importlib.import_module(module), function)()
    arm(replace(point(name, engine), call=int(call)), Path(tally))
    cli.main(["run", config])


if __name__ == "__main__":
    main(sys.argv[1:])
