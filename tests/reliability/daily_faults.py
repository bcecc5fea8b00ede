"""What may happen on one day of the soak, before the release is made. Each fault is chosen by the recorded seed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tests.reliability import injections
from tests.reliability.drivers import Drivers, Ended, Prepare
from tests.reliability.injections import STAGES, arm_action
from tests.reliability.scene import ANSWERS, DOCUMENTED, KILLED, Scene
from tests.support.faults import POINTS, Point, arm
from tests.support.postgres import Server


@dataclass(frozen=True)
class Day:
    """One day: its release, the processes that can be disturbed, and the choices of the seed.

    number: Days since the first. postgres: The server of the ledger; None for SQLite.
    """

    number: int
    scene: Scene
    drivers: Drivers
    postgres: Server | None
    draw: random.Random

    def point(self) -> Point:
        """A point at which something may happen while the run goes on."""
        return self.draw.choice([one for points in STAGES.values() for one in points])

    def run(self, *prepare: Prepare) -> Ended:
        """The day's release in a process of its own, whose ledger sees the day's clock."""
        return self.drivers.run(self.scene.config, partial(injections.shift_clock, self.number), *prepare)


@dataclass(frozen=True)
class DailyFault:
    """harm: Disturbs a day, and says what went wrong. server: Whether it needs a server."""

    name: str
    harm: Callable[[Day], list[str]]
    server: bool = False


def kill(day: Day) -> list[str]:
    where = day.draw.choice([one for one in POINTS if one.engine in (None, "local")]).at(ANSWERS)
    return _unwanted(day.run(partial(arm, where, day.scene.tally)), (KILLED, 4))


def kill_twice(day: Day) -> list[str]:
    return kill(day) + kill(day)


def read_only(day: Day) -> list[str]:
    """The folder of this day's state and output may not be written; those of earlier days stay as they are."""
    out = day.scene.out
    ended = day.run(partial(arm_action, day.point(), partial(injections.make_read_only, str(out))))
    injections.make_writable(out)
    return _unwanted(ended, (0, 2, 4))


def no_growth(day: Day) -> list[str]:
    return _unwanted(day.run(partial(arm_action, day.point(), injections.no_growth)), (0, 4, 5, 6))


def damaged(day: Day) -> list[str]:
    """The newest file is only half there when the release is first tried."""
    newest = day.scene.folder / "data" / f"day-{day.number:04}.parquet"
    kept = shutil.copy2(newest, day.scene.folder / "kept")
    content = newest.read_bytes()
    newest.write_bytes(content[: len(content) // 2])
    ended = day.run()
    shutil.copy2(kept, newest)
    return _unwanted(ended, (3, 4))


def race(day: Day) -> list[str]:
    prepare = [partial(injections.shift_clock, day.number)]
    racing = [day.drivers.start(day.scene.config, prepare) for _ in range(3)]
    return [problem for one in racing for problem in _unwanted(one.end(), (0, 4, 5))]


def clock_back(day: Day) -> list[str]:
    """A process whose clock is 40 days late is killed; a window that has moved on must not open again."""
    where = day.draw.choice([one for one in POINTS if one.engine in (None, "local")]).at(ANSWERS)
    late = partial(injections.shift_clock, day.number - 40)
    return _unwanted(day.drivers.run(day.scene.config, late, partial(arm, where, day.scene.tally)), (KILLED, 4))


def kill_server(day: Day) -> list[str]:
    assert day.postgres is not None
    ended = day.run(partial(arm_action, day.point(), day.postgres.kill))
    if not day.postgres.is_up():
        day.postgres.start()
    return _unwanted(ended, (0, 4, 5))


def restart_server(day: Day) -> list[str]:
    """Between two runs: the connections that this process has kept are broken."""
    assert day.postgres is not None
    day.postgres.kill()
    day.postgres.start()
    return []


def _unwanted(ended: Ended, codes: Sequence[int]) -> list[str]:
    if ended.code in codes and (ended.code in DOCUMENTED or ended.code == KILLED):
        return []
    return [f"exit code {ended.code}: {ended.said[-300:]}"]


FAULTS = (
    DailyFault("kill -9", kill),
    DailyFault("kill -9 twice", kill_twice),
    DailyFault("output read-only", read_only),
    DailyFault("no file may grow", no_growth),
    DailyFault("newest file half written", damaged),
    DailyFault("three runs at once", race),
    DailyFault("clock 40 days late, kill -9", clock_back),
    DailyFault("kill -9 of PostgreSQL", kill_server, server=True),
    DailyFault("PostgreSQL restarted", restart_server, server=True),
)
