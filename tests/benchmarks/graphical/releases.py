"""Releases of mechanisms by name on the thesis's tables, with their errors and cost; cases and the grid share them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.model import TableRows
from dpcore.exact_statistics import Statistics
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.api import Mechanism, Release
from dpcore.mechanisms.registry import MECHANISMS
from dpcore.queries import Marginals
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from dpcore.workload import Workload
from jobs.config import Privacy
from jobs.planning.job import currency_of
from tests.benchmarks.graphical.definition26 import counted, workload_error

DELTA: Final = 1e-9
Settings = Mapping[str, object]


@dataclass(frozen=True, eq=False)
class Made:
    """A release and rows of its model, as many as the model stands for; None where it has no model.

    cpu_seconds: Of the release, counting included, and of the rows; all threads.
    """

    release: Release
    rows: TableRows | None
    release_seconds: float
    rows_seconds: float


def mechanism(name: str, settings: Settings | None = None) -> Mechanism:
    """A registered mechanism, or a rival, with its defaults but for ``settings``."""
    if name in MECHANISMS:
        return MECHANISMS[name](**(settings or {}))
    from tests.benchmarks.rivals import RIVALS  # What it imports would be memory of every case.

    return RIVALS[name](**(settings or {}))


def private_of(
    statistics: Statistics, asked: Mechanism, epsilon: float, delta: float = DELTA, units: int | None = None
) -> PrivateStatistics:
    """A fresh kernel, accounted as a release of the product would be: units are added or removed.

    units: Their number where it is public.
    """
    neighbours = Neighbours.ADD_REMOVE_UNIT
    privacy = Privacy(epsilon=epsilon, delta=delta, neighbours=neighbours.value, units=units or "private")
    budget = budget_of(epsilon, delta, currency_of(privacy, asked))
    unit = PrivacyUnit(neighbours, statistics.contribution, units)
    return PrivateStatistics(statistics, unit=unit, budget=budget, ledger=MemoryLedger(budget), journal=MemoryJournal())


def made(asked: Mechanism, private: PrivateStatistics, workload: Workload, seed: int, *, rows: bool = True) -> Made:
    """One release, and rows from its model. The kernel's noise has no seed: ``seed`` is that of post-processing."""
    generator = np.random.default_rng(seed)
    start = time.process_time()
    release = asked.run(private, workload, generator=generator)
    released = time.process_time()
    del private  # With the exact answers that it kept: rows need none.
    drawn = synthetic(release, generator) if rows else None
    return Made(release, drawn, released - start, time.process_time() - released)


def synthetic(release: Release, generator: np.random.Generator) -> TableRows | None:
    """Rounded rows of a graphical model, independent rows of another; None without a model."""
    model = release.model
    if model is None:
        return None
    units = max(1, round(model.total))
    rows = model.rows(units, generator) if isinstance(model, GraphicalModel) else model.sample(units, generator)
    assert isinstance(rows, TableRows)
    return rows


def errors_of(found: Made, workload: Workload, exact: NDArray[np.int64], units: int) -> dict[str, float]:
    """Definition 26 of the answers (mean) and, where there are rows, of those (rows)."""
    errors = {"mean": workload_error(workload, found.release.answers.values, exact, units)}
    if found.rows is not None:
        assert isinstance(workload.queries, Marginals)
        errors["rows"] = workload_error(workload, counted(found.rows, workload.queries), exact, units)
    return errors


def facts_of(found: Made) -> dict[str, float]:
    """What the release cost, what it measured, and the size of its junction tree in MB where it has one."""
    facts = {
        "release_cpu_seconds": found.release_seconds,
        "rows_cpu_seconds": found.rows_seconds,
        "measurements": float(len(found.release.measurements)),
    }
    if isinstance(found.release.model, GraphicalModel):
        facts["model_mb"] = found.release.model.tree.cells * 8 / 2**20
    return facts
