"""Clocks that jump, runs that race, threads and processes of engines that die."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial

from jobs.ledger import SqlLedger
from jobs.ledger.windows import Window
from tests.audit.kill_points import look
from tests.audit.section import Row, Size
from tests.audit.small_releases import POSTGRES, SQLITE
from tests.reliability import injections
from tests.reliability.injections import arm_action
from tests.reliability.scene import KILLED, Scene, Trial, disturbed, healed, published_badly
from tests.reliability.trials import Place, Tally
from tests.support.faults import Point, When, arm, drawn, note_draws, point
from tests.support.ledgers import past_the_ledger

_JUMPS = ((0.0, 40.0), (0.0, -400.0), (40.0, -400.0), (-400.0, 40.0), (0.0, -0.5), (0.0, 1.0))  # Days, run by run.
_RACERS = 4


def rows(place: Place, size: Size) -> Iterator[Row]:
    """The lines of the table. The fast size has one race and one clock."""
    full = size is Size.FULL
    for ledger in (SQLITE, POSTGRES) if full else (SQLITE,):
        races = [race(place, ledger, kill=number % 2 == 1) for number in range(10 if full else 1)]
        yield Tally(races).row(f"{_RACERS} runs of one release at once", ledger, "some killed, from the start")
        jumps = [clock(place, ledger, *jump) for jump in (_JUMPS if full else _JUMPS[2:3])]
        yield Tally(jumps).row("clock jumps between runs", ledger, "after the 4th answer; windows of a day")
    if full:
        yield Tally([thread_fails(place, name, call) for name in _ERRORS for call in (1, 2, 3)]).row(
            "a thread of the local engine fails", SQLITE, "while it reads"
        )


def race(place: Place, ledger: str, *, kill: bool) -> Trial:
    """Several processes run one release at the same time; one of them may be killed while it holds the lock."""
    scene = place.scene(ledger)
    tallies = [scene.tally.with_suffix(f".{number}") for number in range(_RACERS)]
    started = []
    for number, tally in enumerate(tallies):
        prepare = partial(note_draws, tally)
        if kill and number == 0:
            prepare = partial(arm, point("4th answer, known to the ledger"), tally)
        started.append(place.drivers.start(scene.config, [prepare]))
    ended = [one.end() for one in started]
    made = [drawn(tally) for tally in tallies]
    scene.tally.write_text("".join(f"{amount}\n" for draws in made for amount in draws))
    codes = (0, 5, KILLED) if kill else (0, 5)
    trial = disturbed(scene, ended, max(made, key=lambda draws: sum(draws, Fraction(0))), codes)
    if not any(run.code in (0, KILLED) for run in ended):
        trial.wrong.append("none of the runs that raced came through")
    healed(scene, place.drivers, look(scene.config), trial)
    return trial


def clock(place: Place, ledger: str, first: float, second: float) -> Trial:
    """Killed on one day and continued on another, and then a second release, for a consumer with one release a day."""
    scene = place.scene(ledger)
    budget = SqlLedger(scene.ledger)
    privacy = scene.job().config.privacy
    budget.raise_total("people", 2.1 * privacy.epsilon, privacy.delta, "two releases")
    with injections.shifted_clock(first):
        SqlLedger(scene.ledger).grant_consumer("people", "team", privacy.epsilon, privacy.delta, Window.DAY)
    scene.change("privacy", consumer="team")
    killing = partial(arm, point("4th answer, known to the ledger"), scene.tally)
    ended = place.drivers.run(scene.config, partial(injections.shift_clock, first), killing)
    trial = disturbed(scene, [ended], drawn(scene.tally), [KILLED])
    healed(scene, place.drivers, look(scene.config), trial)
    _second_release(place, scene, first, second, trial)
    return trial


def _second_release(place: Place, scene: Scene, first: float, second: float, trial: Trial) -> None:
    """Another release of the same consumer with the clock at ``second``: refused unless its day is a later one."""
    scene.change("dataset", snapshot="another")
    scene.change("output", path=str(scene.out / "another"))
    ended = place.drivers.run(scene.config, partial(injections.shift_clock, second))
    trial.codes.append(ended.code)
    if ended.code != (0 if second >= first + 1 else 4):
        trial.wrong.append(f"the second release ends with {ended.code}: {ended.said[-300:]}")
    if ended.code == 0:
        trial.lost += published_badly(scene.job(), scene.ledger)
    trial.overspent += over_the_limit(scene.ledger)


def over_the_limit(url: str) -> list[str]:
    """Windows of consumers that hold more charges than their limit, and datasets, read past the ledger."""
    charges = past_the_ledger(url, "SELECT dataset, consumer, window_start, amount FROM charges")
    totals = past_the_ledger(url, "SELECT name, NULL AS consumer, total FROM datasets")
    limits = {row.name: Fraction(row.total) for row in totals if row.total is not None}
    by_consumer = past_the_ledger(url, "SELECT name, total FROM consumers")
    limits |= {row.name: Fraction(row.total) for row in by_consumer if row.total is not None}
    sums: dict[tuple[str, str], Fraction] = {}
    for charge in charges:
        for key in ((charge.dataset, ""), (charge.consumer, charge.window_start)):
            if key[0] is not None:
                sums[key] = sums.get(key, Fraction(0)) + Fraction(charge.amount)
    return [
        f"{name} {start} is charged more than its limit"
        for (name, start), spent in sums.items()
        if spent > limits[name]
    ]


_ERRORS: tuple[type[Exception], ...] = (MemoryError, OSError, RuntimeError)


def thread_fails(place: Place, error: type[Exception], call: int) -> Trial:
    """The local engine has no processes of its own; a thread that fails is what can happen to it."""
    action = partial(
        arm_action, Point("", "pipelines.engines.local:read_batches", When.BEFORE, call), partial(fail, error)
    )
    return place.disturb(place.scene(), [action], (6,), lambda: None)


def fail(error: type[Exception]) -> None:
    raise error("secret in the message")
