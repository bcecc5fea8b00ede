"""Processes that race for one budget, and processes that are killed while they spend it, on SQLite and PostgreSQL."""

from __future__ import annotations

import hashlib
import multiprocessing
import random
import secrets
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier
from pathlib import Path

from dpcore.errors import BudgetExceededError, ConfigError, IntegrityError, LedgerUnavailableError
from dpcore.kernel.budget import Budget
from jobs.ledger import SqlLedger
from jobs.ledger.pricing import Request, priced
from jobs.ledger.records import State
from jobs.ledger.releases import _charge
from jobs.ledger.rows import existing_release, find_dataset, protection_of, set_release
from tests.audit.section import Cell, Row, Size
from tests.support.ledgers import past_the_ledger, planned
from tests.support.postgres import server

TITLE = "Ledger races"
CLAIM = (
    "8 processes reserve random amounts at once, a quarter of them releases that another process asks for too, some "
    "for two consumers, against a total that admits about half: nothing is overspent, every reservation that returned "
    "is charged exactly once, nothing that was refused is charged, and running sums equal the charges. The same after "
    "20 SIGKILLs at random moments, with every reservation cut short asked for again. No statistical error: each count "
    "must be 0. Files lie in memory where the system has such a place, and the server does not wait for its disk: "
    "locks are tested here, not a loss of power. A planted reserve that reads and then writes in two transactions must "
    "be caught on each database."
)

PROCESSES = 8
DATASET = "adult"
CONSUMERS = ("small", "large", None)  # Of each release, by the hash of its id.
_UNIT = 10**6
_MEMORY = Path("/dev/shm")
_PATIENCE = 120.0  # Seconds; beyond them a worker tries again, as the error says.
_METHODS = multiprocessing.get_context("forkserver")
# Imported once, by a process without connections or threads.
_METHODS.set_forkserver_preload([__name__, "sqlalchemy.dialects.postgresql.psycopg", "sqlalchemy.dialects.sqlite"])

Reserve = Callable[[SqlLedger, str, Budget], None]


@dataclass(frozen=True)
class Race:
    """One run of the race.

    Attributes:
        salt: New for each run, and what amounts and consumers are derived from.
        meeting: Of all processes, for the planted error: each waits here once, after it read and before it writes.
    """

    url: str
    attempts: int
    salt: str
    meeting: Barrier | None = None

    def ids(self, process: int) -> Iterator[str]:
        """What a process asks for, in order: every fourth release its neighbour asks for as well."""
        for number in range(self.attempts):
            owner = f"pair {process // 2}" if number % 4 == 0 else f"process {process}"
            yield self.release(f"{owner}, {number}")

    def release(self, name: str) -> str:
        return hashlib.sha256(f"{self.salt} {name}".encode()).hexdigest()


def amount_of(release_id: str) -> Fraction:
    return Fraction(1 + int(release_id[:8], 16) % 1000, _UNIT)


def consumer_of(release_id: str) -> str | None:
    return CONSUMERS[int(release_id[8:16], 16) % len(CONSUMERS)]


def run(size: Size) -> list[Row]:
    full = size is Size.FULL
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None)))
        running = stack.enter_context(server(durable=False))
        urls: dict[str, Callable[[str], str]] = {
            "SQLite": lambda name: f"sqlite:///{folder / name}.db",
            "PostgreSQL": lambda _: running.database(),
        }
        rows = []
        for database, url in urls.items():
            rows.append(race_row(database, Race(url("race"), 10_000 if full else 50, secrets.token_hex(8))))
            rows.append(killed_row(database, url("killed"), 20 if full else 4))
            planted = Race(url("planted"), 50, secrets.token_hex(8), meeting=_METHODS.Barrier(PROCESSES))
            rows.append(planted_row(database, planted))
    return rows


def race_row(database: str, race: Race) -> Row:
    figures = raced(race)
    cells = _cells(database, f"{PROCESSES} processes, {race.attempts} attempts each", figures)
    spread = figures["accepted"] > 0 and figures["refused"] > 0
    return Row(cells, sound(figures) and spread and figures["unanswered"] == 0)


def planted_row(database: str, race: Race) -> Row:
    figures = raced(race)
    return Row(_cells(database, "planted: reads, then writes; wrong counts wanted", figures), not sound(figures))


def killed_row(database: str, url: str, kills: int) -> Row:
    figures = killed(url, kills)
    return Row(_cells(database, f"1 process, killed {kills} times", figures), sound(figures))


_WRONG = ("overspent", "lost", "charged twice", "charged though refused", "wrong sums")


def sound(figures: Mapping[str, float]) -> bool:
    return not any(figures[name] for name in _WRONG)


def _cells(database: str, what: str, figures: Mapping[str, float]) -> dict[str, Cell]:
    counted = ("asked", "accepted", "refused", *_WRONG)
    return {"database": database, "what": what} | {name: figures[name] for name in (*counted, "seconds")}


def raced(race: Race) -> dict[str, float]:
    """Lets all processes spend at once, and counts."""
    demanded = {release_id for process in range(PROCESSES) for release_id in race.ids(process)}
    _create(race.url, demanded)
    with tempfile.TemporaryDirectory() as place:
        logs = [Path(place) / str(process) for process in range(PROCESSES)]
        workers = [_started(race, process, log) for process, log in enumerate(logs)]
        began = time.monotonic()
        for worker in workers:
            worker.join()
        seconds = time.monotonic() - began
        outcomes = [line for log in logs for line in _read(log)]
    crashed = sum(worker.exitcode != 0 for worker in workers)
    figures = _count(race.url, outcomes) | {"seconds": round(seconds, 1)}
    figures["unanswered"] = crashed + PROCESSES * race.attempts - len(outcomes)
    return figures


def killed(url: str, kills: int) -> dict[str, float]:
    """Kills one process after another while they spend; each begins with what the one before may not have ended."""
    race = Race(url, 1_000_000, secrets.token_hex(8))
    _create(url, set(), epsilon=1000.0)
    began, chance = time.monotonic(), random.SystemRandom()
    with tempfile.TemporaryDirectory() as place:
        log, asked = Path(place) / "log", Path(place) / "asked"
        for _ in range(kills):
            before = len(_read(log))
            worker = _METHODS.Process(target=spend_on, args=(race, log, asked))
            worker.start()
            while len(_read(log)) < before + 3 and worker.is_alive():
                time.sleep(0.01)
            time.sleep(chance.random() / 20)
            worker.kill()
            worker.join()
            if worker.exitcode != -9:
                raise RuntimeError(f"the process ended by itself with {worker.exitcode}; want it killed")
        outcomes = _read(log)
        last = asked.read_text().split()[-1]
        # What was asked for last is charged or not; asked for again it is charged once.
        attempt(SqlLedger(url), last, SqlLedger.reserve)
        outcomes.append((last, "reserved"))
    return _count(url, outcomes) | {"seconds": round(time.monotonic() - began, 1)}


def _create(url: str, demanded: set[str], epsilon: float | None = None) -> None:
    """A total of half of what will be asked for; the small consumer may have a tenth of what it will ask for."""
    ledger = SqlLedger(url)
    total = float(sum(amount_of(one) for one in demanded) / 2) if epsilon is None else epsilon
    small = float(sum(amount_of(one) for one in demanded if consumer_of(one) == "small") / 10)
    ledger.create_dataset(DATASET, total, 0.0)
    ledger.grant_consumer(DATASET, "small", small or total, 0.0)
    ledger.grant_consumer(DATASET, "large", total, 0.0)


def _started(race: Race, process: int, log: Path) -> BaseProcess:
    worker = _METHODS.Process(target=spend, args=(race, process, log))
    worker.start()
    return worker


def spend(race: Race, process: int, log: Path) -> None:
    """A worker of the race: asks for its releases, one after another, and writes down what it was told."""
    ledger = SqlLedger(race.url, lock_seconds=_PATIENCE)
    reserve = SqlLedger.reserve if race.meeting is None else CarelessReserve(race.meeting)
    with open(log, "a", buffering=1, encoding="ascii") as file:
        for release_id in race.ids(process):
            file.write(f"{release_id} {attempt(ledger, release_id, reserve)}\n")


def spend_on(race: Race, log: Path, asked: Path) -> None:
    """A worker that will be killed: goes on where the one before it was, beginning with its last release."""
    ledger = SqlLedger(race.url, lock_seconds=_PATIENCE)
    earlier = asked.read_text().split() if asked.exists() else []
    with open(log, "a", buffering=1, encoding="ascii") as file, open(asked, "a", buffering=1) as before:
        for number in range(max(0, len(earlier) - 1), race.attempts):
            release_id = race.release(str(number))
            if number >= len(earlier):
                before.write(f"{release_id}\n")
            file.write(f"{release_id} {attempt(ledger, release_id, SqlLedger.reserve)}\n")


def attempt(ledger: SqlLedger, release_id: str, reserve: Reserve) -> str:
    """Reserves as a run does, and says what came of it."""
    budget = Budget.pure(amount_of(release_id))
    release = planned(release_id, budget=budget, consumer=consumer_of(release_id))
    while True:
        try:
            ledger.plan(release)
            reserve(ledger, release_id, budget)
        except BudgetExceededError:
            return "refused"
        except LedgerUnavailableError:
            continue
        except (ConfigError, IntegrityError):
            if isinstance(reserve, CarelessReserve):  # Two charges of one release, or sums that no longer add up.
                return "refused"
            raise
        return "reserved"


@dataclass
class CarelessReserve:
    """The planted error: what remains is read in one transaction, and written in the next.

    Attributes:
        meeting: Where all processes wait between the two, once, so that at least one sum is wrong in every race.
    """

    meeting: Barrier | None

    def __call__(self, ledger: SqlLedger, release_id: str, budget: Budget) -> None:
        now = ledger._clock()
        with ledger._transaction() as connection:
            row = existing_release(connection, release_id)
            dataset = find_dataset(connection, row.dataset)
            assert dataset is not None
            if State(row.state) is not State.PLANNED:
                return
            price = priced(connection, dataset, Request(budget, protection_of(row), row.consumer), now)
        if self.meeting is not None:
            self.meeting.wait(_PATIENCE)
            self.meeting = None
        with ledger._transaction() as connection:
            _charge(connection, row, price, now)
            set_release(connection, release_id, now, state=State.RESERVED.value)


def _read(log: Path) -> list[tuple[str, str]]:
    """The whole lines of a log; a process may have died within the last."""
    if not log.exists():
        return []
    lines = log.read_text().split("\n")[:-1]
    return [(line[:64], line[65:]) for line in lines]


def _count(url: str, outcomes: list[tuple[str, str]]) -> dict[str, float]:
    """What the tables hold, read past the ledger's code, against what the processes were told."""
    charged = past_the_ledger(url, "SELECT release_id, consumer, amount FROM charges")
    times = Counter(row.release_id for row in charged)
    accepted = {release_id for release_id, outcome in outcomes if outcome == "reserved"}
    refused = {release_id for release_id, outcome in outcomes if outcome == "refused"}
    sums: dict[str | None, Fraction] = {None: Fraction(0), "small": Fraction(0), "large": Fraction(0)}
    for row in charged:
        sums[None] += Fraction(row.amount)
        if row.consumer is not None:
            sums[row.consumer] += Fraction(row.amount)
    held = past_the_ledger(
        url, "SELECT NULL AS name, total, spent FROM datasets UNION ALL SELECT name, total, spent FROM consumers"
    )
    wrong = sum(Fraction(row.spent) != sums[row.name] for row in held)
    wrong += sum(Fraction(row.amount) != amount_of(row.release_id) for row in charged)
    wrong += sum(row.consumer != consumer_of(row.release_id) for row in charged)
    paid = {row.release_id for row in past_the_ledger(url, "SELECT release_id FROM releases WHERE state = 'reserved'")}
    return {
        "asked": len(outcomes),
        "accepted": len(accepted),
        "refused": len(refused),
        "overspent": sum(sums[row.name] > Fraction(row.total) for row in held),
        "lost": len(accepted - set(times)),
        "charged twice": sum(count > 1 for count in times.values()),
        "charged though refused": len(set(times) - accepted) + len(set(times) & refused),
        "wrong sums": wrong + len(paid ^ set(times)),
    }
