"""Faults at every named point of a release: what survives, what is lost, and what is spent too much."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.audit.section import Row, Size
from tests.audit.small_releases import POSTGRES, SQLITE
from tests.reliability import data_faults, engine_faults, injections, other_faults
from tests.reliability.drivers import warm_drivers
from tests.reliability.injections import STAGES, arm_action
from tests.reliability.scene import ANSWERS, KILLED, Scene, Trial
from tests.reliability.trials import Place, Tally
from tests.support.faults import POINTS, Point, arm
from tests.support.postgres import Server, server

TITLE = "Faults"
CLAIM = (
    "Whatever happens to a release, and wherever it happens: it is charged before it draws and charged once, no part "
    "of an output is visible, the command ends with a documented exit code and one sentence, and run again it "
    "publishes what its journal implies, byte for byte, which marquee verify accepts with the ledger. Lost and "
    "overspent must be 0. Deterministic, except for the moments of races: no error."
)

IN_MEMORY = Path("/dev/shm")
_SMALL_DISK = "size=1m"
FAST = {"each answer": 4, "staged": 4}  # Of a stage, the number of the point that the fast size takes.


def run(size: Size) -> list[Row]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None)))
        postgres = stack.enter_context(server(durable=False)) if size is Size.FULL else None
        return list(rows(Place(stack.enter_context(warm_drivers()), folder, postgres), size))


def rows(place: Place, size: Size) -> Iterator[Row]:
    """All lines of the table."""
    yield from killed(place, size)
    for fault in FAULTS:
        if (size is Size.FULL or fault.fast) and (not fault.mounts or can_mount()):
            for stage in STAGES if size is Size.FULL else FAST:
                yield staged_row(place, fault, stage, size)
    yield from data_faults.rows(place, size)
    yield from other_faults.rows(place, size)
    if size is Size.FULL:
        yield from engine_faults.rows(place)


def killed(place: Place, size: Size) -> Iterator[Row]:
    """SIGKILL of the driver at the points of the audit, where it may also die within a commit, a line or a file."""
    points = [one for one in POINTS if one.engine in (None, "local")]
    for ledger in (SQLITE, POSTGRES) if size is Size.FULL else (SQLITE,):
        tally = Tally([kill_driver(place, ledger, one) for one in (points if size is Size.FULL else points[16:17])])
        yield tally.row("kill -9 of the driver", ledger, f"{len(tally.trials)} points of tests/support/faults.py")


def kill_driver(place: Place, ledger: str, where: Point) -> Trial:
    scene = place.scene(ledger)
    ended = place.drivers.run(scene.config, partial(arm, where.at(ANSWERS), scene.tally))
    return place.judged(scene, [ended], [KILLED])


@dataclass(frozen=True)
class Fault:
    """Something that happens to a run at a point, while the run goes on.

    ledger: Which one it needs. codes: The exit codes that it may have. inject: Makes one trial.
    fast: Whether the fast size has it. mounts: Whether it needs the right to mount.
    """

    name: str
    ledger: str
    codes: tuple[int, ...]
    inject: Callable[[Place, Fault, Point], Trial]
    fast: bool = False
    mounts: bool = False


def staged_row(place: Place, fault: Fault, stage: str, size: Size) -> Row:
    """One line: a fault at every point of a stage."""
    points = STAGES[stage] if size is Size.FULL else STAGES[stage][FAST.get(stage, 0) :][:1]
    return Tally([fault.inject(place, fault, one) for one in points]).row(fault.name, fault.ledger, stage)


def kill_server(place: Place, fault: Fault, where: Point) -> Trial:
    """The server dies and stays dead until the run has ended."""
    assert place.postgres is not None
    scene = place.scene(POSTGRES)
    action = partial(arm_action, where, place.postgres.kill)
    try:
        return place.disturb(scene, [action], fault.codes, place.postgres.start)
    finally:
        if not place.postgres.is_up():
            place.postgres.start()


def restart_server(place: Place, fault: Fault, where: Point) -> Trial:
    """The server dies and is there again at once; the connection of the run is broken."""
    assert place.postgres is not None
    scene = place.scene(POSTGRES)
    action = partial(arm_action, where, partial(_killed_and_started, place.postgres))
    return place.disturb(scene, [action], fault.codes, lambda: None)


def _killed_and_started(postgres: Server) -> None:
    postgres.kill()
    postgres.start()


def full_disk_of_output(place: Place, fault: Fault, where: Point) -> Trial:
    scene = place.scene()
    scene.out.mkdir()
    with small_disk(scene.out):
        action = partial(arm_action, where, partial(injections.fill, scene.out))
        return place.disturb(scene, [action], fault.codes, (scene.out / "filler").unlink)


def full_disk_of_ledger(place: Place, fault: Fault, where: Point) -> Trial:
    disk = place.folder / f"disk-{place.numbers[0]}"
    disk.mkdir()
    with small_disk(disk):
        scene = place.scene()
        shutil.move(scene.folder / "ledger.db", disk / "ledger.db")
        moved = Scene(scene.config, f"sqlite:///{disk / 'ledger.db'}")
        moved.change("privacy", ledger=moved.ledger)
        action = partial(arm_action, where, partial(injections.fill, disk))
        return place.disturb(moved, [action], fault.codes, (disk / "filler").unlink)


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A file system of one megabyte in memory at a folder; needs the right to mount."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", _SMALL_DISK, "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def can_mount() -> bool:
    """Whether this process may mount a small disk."""
    with TemporaryDirectory() as folder:
        try:
            with small_disk(Path(folder)):
                return True
        except (subprocess.CalledProcessError, FileNotFoundError):
            return False


def file_size_limit(place: Place, fault: Fault, where: Point) -> Trial:
    return place.disturb(place.scene(), [partial(arm_action, where, injections.no_growth)], fault.codes, lambda: None)


def read_only_output(place: Place, fault: Fault, where: Point) -> Trial:
    scene = place.scene()
    scene.out.mkdir()
    action = partial(arm_action, where, partial(injections.make_read_only, str(scene.out)))
    return place.disturb(scene, [action], fault.codes, lambda: injections.make_writable(scene.out))


def read_only_ledger(place: Place, fault: Fault, where: Point) -> Trial:
    scene = place.scene()
    scene.out.mkdir()
    paths = (scene.folder / "ledger.db", scene.folder)
    action = partial(arm_action, where, partial(ledger_read_only, str(scene.folder)))
    return place.disturb(scene, [action], fault.codes, lambda: injections.make_writable(*paths))


def ledger_read_only(folder: str) -> None:
    """The file and its folder, in which SQLite keeps its rollback journal; not what is below the folder."""
    for path in (Path(folder) / "ledger.db", Path(folder)):
        path.chmod(path.stat().st_mode & ~0o222)
    injections.make_read_only()


FAULTS = (
    Fault("kill -9 of PostgreSQL, down until the end", POSTGRES, (0, 5), kill_server),
    Fault("kill -9 of PostgreSQL, up again at once", POSTGRES, (0, 5), restart_server),
    Fault("disk of the output full", SQLITE, (0, 6), full_disk_of_output, mounts=True),
    Fault("disk of the ledger full", SQLITE, (0, 5), full_disk_of_ledger, mounts=True),
    Fault("no file may grow (RLIMIT_FSIZE)", SQLITE, (0, 5, 6), file_size_limit),
    Fault("output becomes read-only", SQLITE, (0, 2), read_only_output, fast=True),
    Fault("ledger becomes read-only", SQLITE, (0, 2), read_only_ledger),
)
