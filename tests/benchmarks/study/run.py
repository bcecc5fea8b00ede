"""Computes what the stored study lacks, cheap settings first, and stores each setting when it is complete."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from jobs.version import VERSION
from tests.benchmarks.study.comparison import Comparison
from tests.benchmarks.study.configurations import Configuration
from tests.benchmarks.study.facts import Facts, facts_of
from tests.benchmarks.study.store import Cell, Store
from tests.benchmarks.study.worker import CANDIDATES, EndedError, Task, Worker

RUNS: Final = 3  # At least, of mechanisms that may be the best; others are run once or twice.
MORE_RUNS: Final = 6  # Where all releases of a mechanism take at most so many CPU seconds together:
_SECONDS_OF_A_CELL: Final = 4.0
DECIDING_RUNS: Final = 24  # At most, of what is recommended and of the best, while chance may decide which is better.
_SECONDS_TO_DECIDE: Final = 30.0  # CPU seconds of all releases of one of them.
_SINGLE: Final = 1.6  # Error of a single release over the least error up to which a mechanism may be the best.
_CLOSE: Final = 1.05  # The same for several releases, after two standard errors are subtracted.
_FACTS_SECONDS: Final = 120.0


def study(settings: Iterable[Configuration], store: Store, worker: Worker, minutes: float, again: set[str]) -> None:
    """Ends after the setting with which the children have spent the CPU minutes.

    again: Candidates whose stored cells are computed again.
    """
    for setting in settings:
        if worker.spent >= 60 * minutes:
            break
        if (
            missing(setting, store, worker.seconds, again)
            or _lacks_runs(setting, store)
            or _is_undecided(setting, store)
        ):
            compute(setting, store, worker, again)
    worker.stop()


def refresh(settings: Iterable[Configuration], store: Store) -> None:
    """Computes the stored facts again, with what is recommended now. No release is made."""
    for setting in settings:
        if setting.key in store.facts:
            facts = facts_of(setting)
            if facts != store.facts[setting.key]:
                store.put_facts(facts)


def missing(setting: Configuration, store: Store, seconds: float, again: set[str]) -> list[str]:
    """Candidates without a cell, those to be computed again, and those that were cut off earlier than now allowed."""
    stored = store.cells.get(setting.key, {})
    return [
        name
        for name in CANDIDATES
        if name in again or name not in stored or (stored[name].cut and stored[name].cut < 0.9 * seconds)
    ]


def _lacks_runs(setting: Configuration, store: Store) -> bool:
    """Whether a mechanism that was not recommended before has too few releases."""
    cells = store.cells.get(setting.key, {})
    recommended = recommended_of(store.facts[setting.key])
    return any(name in cells and 0 < len(cells[name].errors) < RUNS and not cells[name].cut for name in recommended)


def compute(setting: Configuration, store: Store, worker: Worker, again: set[str]) -> None:
    """One release by each missing candidate, then more by those that may be the best, and by the recommended one.

    Where chance may decide whether the recommended one is as good as the best, both run again, whichever seems better.
    """
    if setting.key not in store.facts:
        store.put_facts(worker.ask(Task(setting.family, setting.number), _FACTS_SECONDS))
    facts, cells = store.facts[setting.key], dict(store.cells.get(setting.key, {}))
    changed = missing(setting, store, worker.seconds, again)
    for name in changed:
        cells[name] = _with_run(Cell(setting.key, name, version=VERSION), setting, worker)
    recommended = recommended_of(facts)
    for _ in range(MORE_RUNS):
        least = min(cell.error for cell in cells.values())
        for name, cell in cells.items():
            if _wants_more(cell) and (name in recommended or may_be_best(cell, least)):
                cells[name] = _with_run(cell, setting, worker)
                changed.append(name)
    while deciding := to_repeat(facts, cells):
        for name in deciding:
            cells[name] = _with_run(cells[name], setting, worker)
        changed.extend(deciding)
    store.put([cells[name] for name in dict.fromkeys(changed)])
    errors = ", ".join(f"{name} {cells[name].error:.4g}" for name in sorted(recommended))
    best = min(cells.values(), key=lambda cell: cell.error)
    said = f"{setting.key}: {best.mechanism} {best.error:.4g}, recommended {errors}"
    print(f"{said}, {worker.spent / 60:.1f} CPU minutes", file=sys.stderr, flush=True)


def to_repeat(facts: Facts, cells: Mapping[str, Cell]) -> list[str]:
    """What is recommended and the best of the others, as far as further releases of them may tell which is better.

    They may while the difference is uncertain, and while the recommended one seems worse, but not by much.
    """
    compared = Comparison(facts, cells)
    for name in sorted(recommended_of(facts)):
        rival = compared.rival(name)
        seems_worse = not compared.is_best(name) and compared.ratio(name) <= _SINGLE  # It may do so by chance.
        is_open = compared.is_undecided(name) or seems_worse
        deciding = [cell.mechanism for cell in (cells[name], rival) if cell and _may_decide(cell)]
        if rival and is_open and deciding:
            return deciding
    return []


def _may_decide(cell: Cell) -> bool:
    runs = len(cell.errors)
    return RUNS <= runs < DECIDING_RUNS and sum(cell.seconds) * (runs + 1) / runs <= _SECONDS_TO_DECIDE


def _is_undecided(setting: Configuration, store: Store) -> bool:
    return bool(to_repeat(store.facts[setting.key], store.cells[setting.key]))


def recommended_of(facts: Facts) -> set[str]:
    """What is recommended where the number of rows is private, and where it is public."""
    return {str(facts["recommended"]), str(facts["with_rows"])}


def _wants_more(cell: Cell) -> bool:
    runs = len(cell.errors)
    if cell.cut or not runs:
        return False
    return runs < RUNS or (runs < MORE_RUNS and sum(cell.seconds) * (runs + 1) / runs <= _SECONDS_OF_A_CELL)


def may_be_best(cell: Cell, least: float) -> bool:
    """Whether further releases may show that the mechanism has the least error."""
    if len(cell.errors) < 2:
        return cell.error <= _SINGLE * least
    return cell.error - 2 * cell.standard_error <= _CLOSE * least


def _with_run(cell: Cell, setting: Configuration, worker: Worker) -> Cell:
    task = Task(setting.family, setting.number, cell.mechanism, len(cell.errors) + 1)
    try:
        answer = worker.ask(task)
    except EndedError:
        return replace(cell, cut=worker.seconds)
    if isinstance(answer, str):
        return replace(cell, errors=(), seconds=(), refused=answer)
    return cell.with_run(*answer)
