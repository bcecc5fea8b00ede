"""A release killed with SIGKILL at every named point of its run, then run again."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import cycle, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
import yaml

from dpcore.errors import ConfigError, IntegrityError
from dpcore.kernel.conversion import budget_of
from jobs import exit_codes, log
from jobs.ledger import SqlLedger
from jobs.ledger.records import ReleaseRecord
from jobs.planning.job import Job, load_job
from jobs.release import publish
from jobs.release.run import release
from jobs.version import VERSION
from pipelines.engines.statistics import Engine
from tests.audit.section import Row, Size
from tests.audit.small_releases import POSTGRES, SHAPES, SQLITE, ledger_of
from tests.support.engines import local_engine, spark_engine
from tests.support.faults import (
    NAMES_POINT,
    PASS_POINTS,
    POINTS,
    TABLE_POINT,
    Point,
    drawn,
    kill_at,
    noted_draws,
    point,
)
from tests.support.ledgers import past_the_ledger
from tests.support.postgres import Server, server

TITLE = "Kill points"
CLAIM = (
    "kill -9 at every named point of a run leaves charged >= drawn, with each draw counted in the killed process "
    "before it is made, and no partial output in sight; run again, the release replays its stored answers byte for "
    "byte, draws only what was never stored, is charged once and is published whole; two resumes from one complete "
    "journal publish identical bytes; changed settings are another release and a changed journal is refused. On both "
    "kinds of ledger. Deterministic: no error."
)

ENGINES: dict[str, Callable[[], Engine]] = {"local": local_engine, "spark": spark_engine}
KILLED = -9
FAST = (
    "reserve, before its commit",
    "first draw, not stored",
    "first answer, synced, unknown to the ledger",
    "4th answer, half a line stored",
    "synthetic rows half written",
    "renamed, no _SUCCESS",
)
TWICE = (
    ("first answer, half a line stored", "4th answer, half a line stored"),
    ("first answer, synced, unknown to the ledger", "4th draw, not stored"),
    ("reserve, after its commit", "last answer"),
    ("synthetic rows half written", "manifest written, staging not synced"),
    ("renamed, no _SUCCESS", "_SUCCESS written, unknown to the ledger"),
)

NAMES, COLUMN = tuple(SHAPES), "shape"
PASSES = {"discovered": 3, "itemsets": 3, "mixture": 3}
"""Passes over the data, each after what earlier ones have released; more come after these."""
OWN_POINTS = {"discovered": (NAMES_POINT,), "itemsets": (TABLE_POINT,)}
FAST_PASSES = (
    ("discovered", "after pass 2"),
    ("discovered", "items discovered, no query built"),
    ("itemsets", "before pass 3"),
    ("mixture", "after pass 3"),
)


@dataclass(frozen=True)
class Case:
    """A release of one shape on one engine, and the points at which it dies, one after another.

    database: The kind of ledger.
    """

    points: tuple[Point, ...]
    engine: str
    shape: str
    database: str = SQLITE

    @property
    def name(self) -> str:
        return ", then ".join(one.name for one in self.points)


@dataclass(frozen=True)
class Left:
    """What a killed run leaves.

    stored: The whole lines of the journal. output: "none", "whole" or, without _SUCCESS, "whole, unmarked".
    """

    state: str
    charged: Fraction
    charges: int
    stored: bytes
    output: str

    @property
    def answers(self) -> int:
        return self.stored.count(b"\n")


def cases(size: Size) -> Iterator[Case]:
    """FAST: a few points on the local engine. FULL: every point of every shape, on both databases; Spark in turns."""
    if size is Size.FAST:
        yield from (Case((point(name),), "local", "table") for name in FAST)
        yield from (Case((point(name),), "local", shape) for shape, name in FAST_PASSES)
        return
    for database, shape in product((SQLITE, POSTGRES), SHAPES):
        yield from (Case((one,), "local", shape, database) for one in points_of(shape, "local"))
        yield from (Case(tuple(map(point, names)), "local", shape, database) for names in TWICE)
    databases = cycle((SQLITE, SQLITE, POSTGRES, POSTGRES))
    for number, one in enumerate(points_of("table", "spark")):
        yield Case((one,), "spark", list(SHAPES)[number % 2], next(databases))
    for shape in PASSES:
        between = (one for one in points_of(shape, "spark") if one not in POINTS)
        yield from (Case((one,), "spark", shape, next(databases)) for one in between)


def points_of(shape: str, engine: str) -> list[Point]:
    """The points that a release of this shape comes to on this engine."""
    every = (*POINTS, *(one for one in PASS_POINTS if one.call <= PASSES.get(shape, 1)), *OWN_POINTS.get(shape, ()))
    return [one for one in every if one.engine in (None, engine)]


def run(size: Size, names: Sequence[str] = NAMES) -> list[Row]:
    """The rows of some shapes."""
    chosen = [case for case in cases(size) if case.shape in names]
    if size is Size.FAST:
        return [killed_and_resumed(case) for case in chosen]
    with server(durable=True) as postgres:
        return [*(killed_and_resumed(case, postgres=postgres) for case in chosen), *refusals(names)]


def killed_and_resumed(case: Case, plant: str | None = None, postgres: Server | None = None) -> Row:
    """One line of the table. plant: See ``kill_at``. postgres: The server of a ledger in PostgreSQL."""
    with TemporaryDirectory() as name:
        folder = Path(name) / "release"
        config = SHAPES[case.shape](folder, case.engine, ledger_of(case.database, postgres))
        whole = answers_of(case.shape)
        sound, draws, cost = True, 0, Fraction(0)
        left = look(config)
        for number, one in enumerate(case.points):
            before, tally = left, Path(name) / f"draws-{number}"
            corpse = kill_at(one.at(whole), config, tally, plant)
            left = look(config)
            made = drawn(tally)
            draws, cost = draws + len(made), max(cost, sum(made, Fraction(0)))
            sound &= (corpse.code, corpse.orphans) == (KILLED, 0)
            sound &= left.stored.startswith(before.stored)
            sound &= len(made) - (left.answers - before.answers) in (0, 1)  # At most one is drawn and not stored.
            sound &= charged_enough(left, made, config)
        code, again = resume(config, case.engine, Path(name) / "draws-resumed")
        end = look(config)
        sound &= (code, end.charges, end.output, end.answers) == (0, 1, "whole", whole)
        sound &= end.stored.startswith(left.stored) and again == whole - left.answers
        equal = resumes_alike(config, case.engine, Path(name))
        passed = sound and equal and left.output in ("none", "whole, unmarked", "whole")
        return Row(_cells(case, left, draws, cost, code, again, end.charges, equal), passed)


def charged_enough(left: Left, made: Sequence[Fraction], config: Path) -> bool:
    """Whether nothing was drawn or stored without its charge, which is the whole budget of the release."""
    if not made and not left.stored and not left.charged:
        return True
    job = load_job(config)
    privacy, amount = job.config.privacy, job.budget.amount
    # A threshold is charged too; the total of the dataset is exactly that of the promise.
    whole = budget_of(privacy.epsilon, privacy.delta, job.budget.currency).amount if job.threshold_delta else amount
    return left.charged == whole and amount >= sum(made, Fraction(0))


def look(config: Path) -> Left:
    """What is there of a release, from the ledger, the journal and the output folder."""
    job = load_job(config)
    record = SqlLedger(job.config.privacy.ledger).release(job.release_id)
    state = "unknown" if record is None else record.state.value
    charges = _charges(job)
    return Left(state, sum(charges, Fraction(0)), len(charges), _stored(record), _visible(job))


def resume(config: Path, engine: str, tally: Path) -> tuple[int, int]:
    """Runs the release here; its exit code and how often it drew."""
    before = len(drawn(tally))
    with redirect_stderr(io.StringIO()), noted_draws(tally):
        log.configure(log.LogFormat.TEXT)
        code = exit_codes.guarded(lambda: _release(config, engine))
    return code, len(drawn(tally)) - before


def _release(config: Path, engine: str) -> None:
    release(load_job(config), engine=ENGINES[engine]())


def resumes_alike(config: Path, engine: str, scratch: Path) -> bool:
    """Whether two copies of a release that has lost its output publish it again, each with the same bytes."""
    output, kept = load_job(config).output, scratch / "kept"
    published = files_of(output)
    if not published:
        return False
    shutil.copytree(config.parent, kept)
    for _ in range(2):
        shutil.rmtree(config.parent)
        shutil.copytree(kept, config.parent)
        shutil.rmtree(output)
        if resume(config, engine, scratch / "draws-alike") != (0, 0) or files_of(output) != published:
            return False
    return True


@dataclass(frozen=True)
class Refusal:
    """Something that changes between a kill and the next run, and what must come of it without a draw."""

    name: str
    code: int
    change: Callable[[Path], object]
    version: str | None = None


def refusals(shapes: Sequence[str] = NAMES) -> list[Row]:
    return [refused(refusal, shape) for shape in shapes for refusal in REFUSALS]


def refused(refusal: Refusal, shape: str) -> Row:
    """One line of the table: killed after the 4th answer, changed, and run again."""
    with TemporaryDirectory() as name:
        config = SHAPES[shape](Path(name) / "release", "local", None)
        tally = Path(name) / "draws"
        corpse = kill_at(point("4th answer, known to the ledger"), config, tally)
        left, made = look(config), drawn(tally)
        journal = _journal(load_job(config))
        refusal.change(config)
        before = journal.read_bytes()
        with mock.patch("jobs.planning.identity.VERSION", refusal.version or VERSION):
            code, again = resume(config, "local", tally)
        end = look(config)
        sound = (corpse.code, code, again, end.output) == (KILLED, refusal.code, 0, "none")
        sound &= charged_enough(left, made, config) and journal.read_bytes() == before
        charges = _charges(load_job(config))
        sound &= sum(charges, Fraction(0)) == left.charged
        cost = sum(made, Fraction(0))
        cells = _cells(Case((), "local", shape), left, len(made), cost, code, again, len(charges), True)
        return Row(cells | {"killed at": f"{refusal.name}, after the 4th answer"}, sound)


def _set(section: str, key: str, value: object) -> Callable[[Path], object]:
    def change(config: Path) -> None:
        document = yaml.safe_load(config.read_text())
        document[section][key] = value
        config.write_text(yaml.safe_dump(document))

    return change


def _rewrite(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    """Changes the second line of the journal, and makes the chain of hashes fit it again."""

    def rewrite(config: Path) -> None:
        job = load_job(config)
        path = _journal(job)
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        change(entries[1])
        chain = hashlib.sha256(job.release_id.encode()).hexdigest()
        for index, entry in enumerate(entries):
            link = json.dumps([chain, index, entry["request"], entry["answer"]])
            entry["chain"] = chain = hashlib.sha256(link.encode()).hexdigest()
        path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))

    return rewrite


def _shifted(entry: dict[str, Any]) -> None:
    answer = np.frombuffer(base64.b64decode(entry["answer"]), dtype="<i8") + 1
    entry["answer"] = base64.b64encode(answer.tobytes()).decode()


REFUSALS = (
    Refusal("another snapshot, budget spent", 4, _set("dataset", "snapshot", "next")),
    Refusal("another version of the code, budget spent", 4, lambda _: None, version="9.9.9"),
    Refusal("another request in the journal", 7, _rewrite(lambda entry: entry.update(request="0" * 64))),
    Refusal("another answer in the journal", 7, _rewrite(_shifted)),
)


@cache
def answers_of(shape: str) -> int:
    """Answers of a whole release; each is drawn once, or the draws are not all counted."""
    with TemporaryDirectory() as name:
        config = SHAPES[shape](Path(name) / "release", "local", None)
        code, draws = resume(config, "local", Path(name) / "draws")
        if code != 0 or draws != look(config).answers:
            raise AssertionError(f"{shape}: exit {code}, {draws} draws noted, {look(config).answers} answers stored")
        return draws


def _journal(job: Job) -> Path:
    return publish.state_folder(job.output, job.release_id) / "journal.jsonl"


def _stored(record: ReleaseRecord | None) -> bytes:
    path = Path(record.state_folder) / "journal.jsonl" if record is not None else None
    content = path.read_bytes() if path is not None and path.exists() else b""
    return content[: content.rfind(b"\n") + 1]


def _charges(job: Job) -> list[Fraction]:
    """Every charge in the ledger's database, whatever the ledger makes of it."""
    rows = past_the_ledger(job.config.privacy.ledger, "SELECT amount FROM charges ORDER BY number")
    return [Fraction(row.amount) for row in rows]


def _visible(job: Job) -> str:
    """What a reader finds; "partial" for anything that is not a whole release."""
    beside = {path.name for path in job.output.parent.iterdir()} if job.output.parent.exists() else set()
    if beside - {publish.STATE_FOLDER, job.output.name}:
        return "partial"
    try:
        standing = publish.publication_state(job.output, job.release_id)
        if standing is publish.PublicationState.ABSENT:
            return "none"
        publish.verify(job.output)
    except (ConfigError, IntegrityError):
        return "partial"
    return "whole" if standing is publish.PublicationState.DONE else "whole, unmarked"


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _cells(
    case: Case,
    left: Left,
    draws: int,
    cost: Fraction,
    code: int,
    again: int,
    charges: int,
    equal: bool,
) -> dict[str, str | int | float | bool]:
    return {
        "killed at": case.name,
        "engine": case.engine,
        "shape": case.shape,
        "database": case.database,
        "ledger": left.state,
        "charged": float(left.charged),
        "cost of draws": float(cost),
        "drawn": draws,
        "stored": left.answers,
        "output": left.output,
        "resumed": code,
        "drawn then": again,
        "charges": charges,
        "bytes equal": equal,
    }
