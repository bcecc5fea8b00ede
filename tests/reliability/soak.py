"""A release a day over growing data, for four consumers, with faults: every sum is right, and nothing grows."""

from __future__ import annotations

import ctypes
import gc
import io
import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from jobs import exit_codes, log
from jobs.ledger import SqlLedger
from jobs.ledger.windows import Window
from jobs.outputs.certificate_format import parse_certificate
from jobs.release.run import release
from jobs.verification.charges import reserved_budget
from tests.audit.section import Row, Size
from tests.reliability.daily_faults import FAULTS, Day
from tests.reliability.drivers import Drivers, warm_drivers
from tests.reliability.faults import IN_MEMORY
from tests.reliability.injections import shifted_clock
from tests.reliability.other_faults import over_the_limit
from tests.reliability.scene import Scene, new_scene, published_badly
from tests.support.ledgers import past_the_ledger
from tests.support.postgres import Server, server
from tests.support.releases import people

TITLE = "Soak"
CLAIM = (
    "A release a day over data that gain a file a day, each for one of four consumers whose limits are per day, month, "
    "year and for all time, with faults on half of the days: after each line, spending equals the sum over all "
    "certificates exactly, no window holds more than its limit, marquee verify accepts every release with the ledger, "
    "and memory, open files, connections, files of state and the ledger do not grow by more than a release and its new "
    "file need. The seed of the faults is recorded in each line. Deterministic but for the figures of memory, whose "
    "limits are wide."
)

SEED = 20261124
DAYS = {Size.FAST: 12, Size.FULL: 200}
EVERY = {Size.FAST: 6, Size.FULL: 20}
ROWS_A_DAY = 40
FIRST_DAY = date(2026, 1, 1)
# Releases that each consumer may make in its window; it asks on every fourth day.
LIMITS = {"hourly": (Window.DAY, 1), "press": (Window.MONTH, 5), "science": (Window.YEAR, 40), "web": (Window.NONE, 45)}
# What may remain of a release. The state is its journal and its lock.
STATE_FILES = 2
LEDGER_BYTES = 8192
MEMORY_BYTES = 200_000
OPEN_FILES = 12
CONNECTIONS = 8
_FEWEST = 50  # Releases from which a growth of memory can be told from chance.


@dataclass
class Figures:
    """What is counted over all days. memory, files, connections: After each release in this process."""

    published: list[Scene] = field(default_factory=list)
    refused: int = 0
    faults: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    connections: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Soak:
    """A dataset that grows, its ledger, and the long-lived process that makes its releases.

    postgres: The server of the ledger; None for SQLite. temporary: Where this process puts temporary files.
    """

    scene: Scene
    drivers: Drivers
    postgres: Server | None
    temporary: Path
    seed: int = SEED
    figures: Figures = field(default_factory=Figures)

    def day(self, number: int) -> None:
        """One day: a new file, perhaps a fault, and the release."""
        scene = self._prepared(number)
        draw = random.Random(f"{self.seed} {number}")
        with shifted_clock(number):
            if draw.random() < 0.5:
                fault = draw.choice([one for one in FAULTS if self.postgres is not None or not one.server])
                self.figures.faults.append(fault.name)
                said = fault.harm(Day(number, scene, self.drivers, self.postgres, draw))
                self.figures.problems += [f"day {number}, {fault.name}: {problem}" for problem in said]
            self._released(number, scene)

    def _prepared(self, number: int) -> Scene:
        rows = people(1000 + ROWS_A_DAY * number, ROWS_A_DAY, np.random.default_rng([self.seed, number]))
        pq.write_table(rows, self.scene.folder / "data" / f"day-{number:04}.parquet")
        label = (FIRST_DAY + timedelta(number)).isoformat()
        config = self.scene.folder / f"{label}.yaml"
        config.write_text(self.scene.config.read_text())
        scene = Scene(config, self.scene.ledger)
        scene.change("dataset", snapshot=label)
        scene.change("privacy", consumer=list(LIMITS)[number % len(LIMITS)])
        scene.change("output", path=str(scene.out / label))
        return scene

    def _released(self, number: int, scene: Scene) -> None:
        """The release itself, in this process, as a scheduler makes it that never ends."""
        said = io.StringIO()
        with redirect_stderr(said):
            log.configure(log.LogFormat.TEXT)
            code = exit_codes.guarded(lambda: _make(scene))
        if code == 0:
            self.figures.published.append(scene)
        elif code == exit_codes.BUDGET:
            self.figures.refused += 1
        else:
            self.figures.problems.append(f"day {number}: exit code {code}: {said.getvalue()[-300:]}")
        process = psutil.Process()
        _give_back()
        self.figures.memory.append(process.memory_info().rss)
        self.figures.files.append(process.num_fds())
        self.figures.connections.append(self._connections())

    def _connections(self) -> int:
        if self.postgres is None:
            return 0
        count = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'postgres' AND pid <> pg_backend_pid()"
        return int(self.postgres.run("postgres", count)[0][0])

    def ledger_bytes(self) -> int:
        """Size of the ledger."""
        if self.postgres is None:
            return Path(self.scene.ledger.removeprefix("sqlite:///")).stat().st_size
        return int(self.postgres.run("postgres", "SELECT pg_database_size('postgres')")[0][0])


def _give_back() -> None:
    """Returns what the allocators keep for later, which differs from run to run by megabytes."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError, OSError):  # Not every C library can.
        ctypes.CDLL(None).malloc_trim(0)


def _make(scene: Scene) -> None:
    release(scene.job())


def run(size: Size) -> list[Row]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None)))
        postgres = stack.enter_context(server(durable=False)) if size is Size.FULL else None
        temporary = stack.enter_context(temporary_files_in(folder / "temporary"))
        drivers = stack.enter_context(warm_drivers())
        return soaked(new_soak(folder, drivers, postgres, temporary), DAYS[size], EVERY[size])


def new_soak(folder: Path, drivers: Drivers, postgres: Server | None, temporary: Path) -> Soak:
    """The first files, a total for all releases, and the limits of the consumers."""
    scene = new_scene(folder / "soak", postgres.emptied() if postgres is not None else None)
    privacy, ledger = scene.job().config.privacy, SqlLedger(scene.ledger)
    ledger.raise_total("people", 100 * privacy.epsilon, privacy.delta, "a soak")
    one = scene.job().budget.amount
    with shifted_clock(0):
        for consumer, (window, releases) in LIMITS.items():
            epsilon = _epsilon_of(releases, float(one), privacy.delta)
            SqlLedger(scene.ledger).grant_consumer("people", consumer, epsilon, privacy.delta, window)
    return Soak(scene, drivers, postgres, temporary)


def _epsilon_of(releases: int, amount: float, delta: float) -> float:
    """An epsilon whose budget holds so many releases and half of another one."""
    from dpcore.kernel.budget import Currency
    from dpcore.kernel.conversion import budget_of

    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        enough = budget_of(middle, delta, Currency.ZCDP).amount >= Fraction(amount) * (2 * releases + 1) / 2
        low, high = (low, middle) if enough else (middle, high)
    return high


@contextmanager
def temporary_files_in(folder: Path) -> Iterator[Path]:
    """Lets this process and its children make temporary files in a folder of their own."""
    folder.mkdir()
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    variable, os.environ["TMPDIR"] = os.environ.get("TMPDIR"), str(folder)
    try:
        yield folder
    finally:
        tempfile.tempdir = before
        if variable is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = variable


def soaked(soak: Soak, days: int, every: int) -> list[Row]:
    """Runs all days; one line after each ``every`` of them."""
    size_before, rows, checked = soak.ledger_bytes(), [], 0
    for number in range(days):
        soak.day(number)
        if (number + 1) % every == 0:
            new = soak.figures.published[checked:] if number + 1 < days else soak.figures.published
            rows.append(inspected(soak, new, soak.ledger_bytes() - size_before))
            checked = len(soak.figures.published)
    return rows


def inspected(soak: Soak, to_verify: list[Scene], ledger_growth: int) -> Row:
    """One line: the invariants, and what has grown so far."""
    figures, ledger = soak.figures, SqlLedger(soak.scene.ledger)
    releases = len(figures.published)
    certified = sum((_certified(scene) for scene in figures.published), Fraction(0))
    bad = [problem for scene in to_verify for problem in published_badly(scene.job(), soak.scene.ledger)]
    states = _state_files(soak.scene.out)
    gc.collect()
    cells = {
        "days": len(figures.memory),
        "published": releases,
        "refused": figures.refused,
        "faults": len(figures.faults),
        "seed": soak.seed,
        "spent = certified": ledger.verified("people").spent == certified,
        "charges": len(past_the_ledger(soak.scene.ledger, "SELECT release_id FROM charges")),
        "overspent": len(over_the_limit(soak.scene.ledger)),
        "verify failed": len(bad),
        "files of state, most": max(states, default=0),
        "temporary files": len(set(soak.temporary.iterdir()) - {soak.drivers.folder}),
        "ledger bytes a release": ledger_growth / max(releases, 1),
        "memory bytes a release": slope(figures.memory),
        "open files": rise(figures.files),
        "connections": max(figures.connections),
        "said wrong": "; ".join([*figures.problems, *bad][:3]),
    }
    return Row(cells, sound(cells))


def sound(cells: dict[str, int | float | str | bool]) -> bool:
    """Whether a line keeps its promises."""
    return bool(
        cells["spent = certified"]
        and cells["charges"] == cells["published"]
        and cells["overspent"] == cells["verify failed"] == cells["temporary files"] == 0
        and float(cells["files of state, most"]) <= STATE_FILES
        and float(cells["ledger bytes a release"]) <= LEDGER_BYTES
        and float(cells["memory bytes a release"]) <= MEMORY_BYTES
        and float(cells["open files"]) <= OPEN_FILES
        and float(cells["connections"]) <= CONNECTIONS
        and not cells["said wrong"]
    )


def rise(files: list[int]) -> int:
    """The largest increase from one release to a later one. Files that earlier work left open may close meanwhile."""
    lowest = np.minimum.accumulate(files)
    return int((np.array(files) - lowest).max())


def slope(memory: list[int]) -> float:
    """Growth in bytes a release, by least squares over the later half of the releases; 0 for a short series."""
    later = np.array(memory[len(memory) // 2 :], dtype=np.float64)
    return float(np.polyfit(np.arange(len(later)), later, 1)[0]) if len(later) >= _FEWEST else 0.0


def _certified(scene: Scene) -> Fraction:
    certificate, _ = parse_certificate((scene.job().output / "certificate.json").read_text(encoding="utf-8"))
    return reserved_budget(certificate).amount


def _state_files(out: Path) -> list[int]:
    states = out / ".marquee"
    return [sum(1 for _ in folder.rglob("*")) for folder in states.iterdir()] if states.is_dir() else []
