"""Releases of data full of strings and counts that must not get out, searched in everything that they write."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from dpcore.errors import MarqueeError
from dpcore.mechanisms.registry import MECHANISMS
from jobs import cli, exit_codes
from jobs.planning.job import Job, load_job
from tests.audit.canary_data import ITEM, PEOPLE, UNIT, WORD, canaries_of, fitting, prepared, shape_of
from tests.audit.section import Cell, Row, Size
from tests.audit.small_releases import POSTGRES, SQLITE, ledger_of
from tests.support.datasets import ROOT
from tests.support.faults import Point, kill_at, point
from tests.support.leaks import on_server, said, written
from tests.support.postgres import Server, server

TITLE = "Canaries"
CLAIM = (
    "Strings of the data (unit ids, categories and items outside of the schema, names of items that one unit has) and "
    "exact counts (units, rows, cells, sums of items, what was dropped or cut) are nowhere in what a run writes: "
    "output, Parquet values, journal, ledger but for its three secret columns, the log of PostgreSQL, logs as text and "
    "JSON, metrics, progress bars, messages of exceptions and of their causes, Spark's event log and scratch. Searched "
    "as decimal, grouped, scientific and hexadecimal text, as int64 and float64 bytes and within base64. A noisy "
    "answer may equal the exact one by chance, so a find counts only when it comes back in three further runs of its "
    "own; the column chance bounds how often that happens to noise alone."
)

RUNS = 4
NAMES = tuple(MECHANISMS)
_WRITING = "jobs.release.run.write_answers"
Spoil = Callable[[Path], AbstractContextManager[object]]


@dataclass(frozen=True)
class Case:
    """One release and what goes wrong in it.

    spoil: Of the config; holds while the release runs. code: The exit code that is wanted.
    database: The kind of ledger. discovered: Whether it discovers the items of its baskets.
    """

    name: str
    mechanism: str
    code: int = 0
    spoil: Spoil = nullcontext
    options: tuple[str, ...] = ()
    terminal: bool = False
    engine: str = "local"
    accounting: str = "auto"
    database: str = SQLITE
    discovered: bool = False


def run(size: Size, names: Sequence[str] = NAMES) -> list[Row]:
    """The rows of some mechanisms."""
    chosen = (case for case in cases(size) if case.mechanism in names)
    if size is Size.FAST:
        return [searched(case) for case in chosen]
    with server(durable=False) as postgres:
        return [searched(case, postgres) for case in chosen]


def cases(size: Size) -> Iterator[Case]:
    """FAST: three mechanisms and a failure of each kind. FULL: all of them, both ledgers and the engines."""
    yield from _of_discoveries(size)
    for name in (
        NAMES if size is Size.FULL else ("laplace", "mwem", "dual_query", "frequent_itemsets", "basket_mixture")
    ):
        yield Case("bars on a terminal", name, terminal=True)
        if size is Size.FULL:
            yield Case("events as JSON lines", name, options=("--log-format", "json"))
            for accounting in filter(partial(_provable, name), ("zcdp", "gdp")):
                yield Case(f"accounted in {accounting}", name, accounting=accounting)
            killed = Case("killed, then resumed", name, spoil=_killed_at(point("first answer, known to the ledger")))
            yield from (killed, replace(killed, database=POSTGRES))
    for name, code, spoil in FAILURES:
        if size is Size.FULL or name in FAST_FAILURES:
            yield Case(name, "laplace", code, spoil)
        if size is Size.FULL:
            yield Case(f"{name}, as JSON lines", "mwem", code, spoil, options=("--log-format", "json"))
            yield Case(f"{name}, baskets", "dual_query", code, spoil)
            if name != "a ledger out of reach":
                yield Case(name, "laplace", code, spoil, database=POSTGRES)
    if size is Size.FULL:
        yield from (replace(case, engine=engine) for engine in ("spark", "beam") for case in DISTRIBUTED)
        for name in ("engine has read one file", "first draw, not stored"):
            yield Case(f"killed: {name}", "laplace", spoil=_killed_at(point(name, "spark")), engine="spark")


def _of_discoveries(size: Size) -> Iterator[Case]:
    """Releases of every mechanism that takes discovered items; at the fast size, of three."""
    whole = Case("items discovered", "gaussian", options=("--log-format", "json"), discovered=True)
    for name in NAMES if size is Size.FULL else ("gaussian", "frequent_itemsets", "basket_mixture"):
        if not _discovering(name):
            continue
        yield replace(whole, mechanism=name)
        if size is Size.FULL:
            for place in ("first draw, not stored", "first answer, known to the ledger"):
                killed = _killed_at(point(place))
                yield Case(f"items discovered, killed: {place}", name, spoil=killed, discovered=True)
    yield replace(whole, name="items discovered, on a terminal", options=(), terminal=True)
    yield replace(whole, name="items discovered, writing fails", code=70, spoil=_failing(_WRITING, KeyError))
    damaged = _failing("jobs.release.discovery.log.info", ValueError)
    yield replace(whole, name="items discovered, what follows fails", code=70, spoil=damaged)
    if size is Size.FULL:
        yield from (replace(whole, engine=engine) for engine in ("spark", "beam"))


@cache
def _discovering(mechanism: str) -> bool:
    with TemporaryDirectory() as name:
        return fitting(mechanism, "local", Path(name), "auto", discovered=True) is not None


def _provable(mechanism: str, accounting: str) -> bool:
    with TemporaryDirectory() as name:
        return fitting(mechanism, "local", Path(name), accounting) is not None


def searched(case: Case, postgres: Server | None = None) -> Row:
    """One line of the table. postgres: The server of a ledger in PostgreSQL."""
    places, size, code, chance = _once(case, postgres)
    for _ in range(RUNS - 1):
        if places:
            places &= _once(case, postgres)[0]
    cells: dict[str, Cell] = {
        "run": case.name,
        "engine": case.engine,
        "ledger": case.database,
        "mechanism": case.mechanism,
        "exit code": code,
        "bytes searched": size,
        "chance": chance,
        "found": "; ".join(sorted(f"{what} in {where}" for where, what in places)) or "nothing",
    }
    return Row(cells, passed=not places and code == case.code)


def _once(case: Case, postgres: Server | None) -> tuple[set[tuple[str, str]], int, int, float]:
    """(place, canary) of each find, bytes searched, exit code, and the chance of a find in every run by noise alone."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        ledger = ledger_of(case.database, postgres)
        config = prepared(case.mechanism, case.engine, folder, case.accounting, ledger, discovered=case.discovered)
        canaries = canaries_of(shape_of(config))
        chance = _chance(load_job(config), len(canaries.counts)) ** RUNS
        code, messages = (_here if case.engine == "local" else _apart)(case, config)
        places = written(folder, leave_out=frozenset({"data"})) | {"messages": messages.encode()}
        if ledger is not None and postgres is not None:
            places |= on_server(postgres)
        found = {(_kind(place), hit) for place, content in places.items() for hit in canaries.found(content)}
        return found, sum(map(len, places.values())), code, chance


def _here(case: Case, config: Path) -> tuple[int, str]:
    """Runs the release and what an operator asks about it in this process; its exit code, and all messages."""
    errors: list[BaseException] = []
    sentence = exit_codes.sentence

    def seen(error: BaseException) -> str:
        errors.append(error)
        return sentence(error)

    with said(config.parent / "said", terminal=case.terminal), case.spoil(config):
        with mock.patch("jobs.exit_codes.sentence", seen):
            metrics = ("--metrics-file", str(config.parent / "said" / "metrics.prom"))
            code = marquee("run", str(config), *case.options, *metrics)
        ledger = load_job(config).config.privacy.ledger if case.code not in (2, 5) else None
        budget = ["--ledger", str(ledger)]
        commands = [["status", str(config)], ["plan", str(config)], ["budget", "show", *budget]]
        commands += (
            [["budget", "history", *budget, "--dataset", load_job(config).config.dataset.name]] if ledger else []
        )
        for command in commands:
            _ = marquee(*command, *case.options) if ledger else 0
    return code, "\n".join(message for error in errors for message in _messages(error))


def _apart(case: Case, config: Path) -> tuple[int, str]:
    """Runs the release in a process of its own, whose temporary files are searched as well."""
    folder = config.parent
    (folder / "temporary").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "temporary")}
    environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    with open(folder / "said" / "stdout", "wb") as out, open(folder / "said" / "stderr", "wb") as err, \
         mock.patch.dict(os.environ, environment), case.spoil(config):  # fmt: skip
        command = [sys.executable, "-m", "jobs", "run", str(config), *case.options]
        return subprocess.run(command, cwd=folder, stdout=out, stderr=err, check=False, timeout=300).returncode, ""


def marquee(*arguments: str) -> int:
    """The exit code of one command."""
    try:
        cli.main(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)
    raise AssertionError("a command ends its process")


def _messages(error: BaseException) -> Iterator[str]:
    """What our own exceptions say, and those behind them. A library's may quote data: only --debug shows it."""
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, MarqueeError):
            yield from (str(current), repr(vars(current)))
        current = current.__cause__ or current.__context__


def _kind(place: str) -> str:
    """A place without what differs from run to run."""
    return re.sub(r"[0-9a-f]{6,}|\d+", "#", place)


def _chance(job: Job, counts: int) -> float:
    """Bound on the chance that some noisy answer is the exact count that it stands for."""
    spreads = [step.stddev for step in job.plan.steps if step.stddev]
    return min(1.0, counts * math.sqrt(0.5) / min(spreads)) if spreads else 1.0


@contextmanager
def _changed(config: Path, section: str, key: str, value: object) -> Iterator[None]:
    document = yaml.safe_load(config.read_text())
    document[section][key] = value
    config.write_text(yaml.safe_dump(document))
    yield


@contextmanager
def _rewritten(config: Path, change: Callable[[pa.Table], pa.Table]) -> Iterator[None]:
    path = config.parent / "data" / "part-1.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    yield


@contextmanager
def _damaged(config: Path) -> Iterator[None]:
    """A page in the middle of a file is rubbish; the footer is as it was."""
    path = config.parent / "data" / "part-1.parquet"
    content = bytearray(path.read_bytes())
    third = len(content) // 3
    content[third : third + 4000] = b"\xff" * 4000
    path.write_bytes(content)
    yield


@contextmanager
def _truncated(config: Path) -> Iterator[None]:
    path = config.parent / "data" / "part-1.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    yield


@contextmanager
def _other_input(config: Path) -> Iterator[None]:
    marquee("run", str(config))
    with _rewritten(config, lambda table: table.slice(1)):
        yield


@contextmanager
def _changed_journal(config: Path) -> Iterator[None]:
    with _killed_at(point("first answer, known to the ledger"))(config):
        (journal,) = config.parent.rglob("journal.jsonl")
        journal.write_text(journal.read_text().replace('"answer": "', '"answer": "A', 1))
        yield


def _killed_at(where: Point) -> Spoil:
    @contextmanager
    def killed(config: Path) -> Iterator[None]:
        corpse = kill_at(where, config, config.parent / "said" / "draws")
        (config.parent / "said" / "killed").write_text(corpse.stderr)
        if corpse.code != -signal.SIGKILL:
            raise AssertionError("the run was not killed")
        yield

    return killed


def _failing(place: str, kind: type[BaseException]) -> Spoil:
    """A library that quotes data in its message."""
    message = f"cannot parse {UNIT}-000017: {WORD}, {ITEM}, row {PEOPLE} of {PEOPLE:,}"
    return lambda config: mock.patch(place, side_effect=kind(message))


FAILURES: tuple[tuple[str, int, Spoil], ...] = (
    ("an unknown key", 2, lambda config: _changed(config, "privacy", "epsilno", 1)),
    ("an impossible budget", 2, lambda config: _changed(config, "privacy", "epsilon", -1.0)),
    ("more than the ledger has", 4, lambda config: _changed(config, "privacy", "epsilon", 50.0)),
    ("a dataset without a budget", 4, lambda config: _changed(config, "dataset", "name", "other")),
    ("a ledger out of reach", 5, lambda config: _changed(
        config, "privacy", "ledger", "postgresql+psycopg://nobody@127.0.0.1:1/none")),
    ("the engine fails", 6, _failing("pipelines.engines.local.accumulate", ValueError)),
    ("memory runs out in the engine", 6, _failing("pipelines.engines.local.accumulate", MemoryError)),
    ("writing fails", 70, _failing(_WRITING, KeyError)),
    ("interrupted", 130, _failing(_WRITING, KeyboardInterrupt)),
    ("a damaged page", 3, _damaged),
    ("a file cut short", 3, _truncated),
    ("a column of another type", 3, lambda config: _rewritten(config, lambda table: table.set_column(
        1, table.column_names[1], pa.array(["x"] * len(table)).dictionary_encode() if "item" in table.column_names
        else pa.array(np.zeros(len(table)))))),
    ("a column less", 3, lambda config: _rewritten(config, lambda table: table.drop_columns(table.column_names[1]))),
    ("other input under the same id", 7, _other_input),
    ("a changed journal", 7, _changed_journal),
)  # fmt: skip
FAST_FAILURES = (
    "more than the ledger has", "the engine fails", "writing fails", "a damaged page", "a column of another type",
    "other input under the same id", "a changed journal",
)  # fmt: skip
DISTRIBUTED = (
    Case("a whole run", "laplace"),
    Case("a whole run, JSON lines", "dual_query", options=("--log-format", "json")),
    Case("a damaged page", "laplace", 3, _damaged),
    *(Case(name, "mwem", code, spoil) for name, code, spoil in FAILURES if name == "a column of another type"),
)
