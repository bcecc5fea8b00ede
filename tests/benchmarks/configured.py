"""What cases share that run a release config of tests/support/configs on the local engine, reading included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpcore.evaluation import Errors, baselines, errors, exact_answers
from dpcore.exact_statistics import Statistics
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.mechanisms.api import Release
from dpcore.queries import Marginals, UnitCount
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from jobs.planning.job import Job, load_job
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.source import open_source
from tests.benchmarks.case import Inputs, Judgement
from tests.support.acceptance import CONFIGS
from tests.support.datasets import folder


@dataclass(frozen=True)
class State:
    """The release that a config describes, and its data behind an engine."""

    job: Job
    statistics: Statistics


def inputs_of(config: str, schema: str, dataset: str) -> Callable[[Path], Inputs]:
    """The config and its schema in the repository, and a shared dataset."""

    def inputs(data: Path) -> Inputs:
        return {"config": CONFIGS / config, "schema": CONFIGS / schema, "dataset": folder() / dataset}

    return inputs


def prepare(paths: Inputs, seed: int) -> State:
    job = load_job(paths["config"])
    source = open_source(str(paths["dataset"]), job.layout, salt=bytes(16))
    return State(job, EngineStatistics(LocalEngine(), source))


def work(state: State) -> Release:
    job = state.job
    private = PrivateStatistics(
        state.statistics, unit=job.unit, budget=job.budget, ledger=MemoryLedger(job.budget), journal=MemoryJournal()
    )
    return job.mechanism.run(private, job.stand_in, generator=np.random.default_rng(0))


def judge(state: State, made: Release) -> Judgement:
    """Errors of all answers as fractions of the units, each of which holds one row."""
    queries = state.job.stand_in.queries
    exact = exact_answers(state.statistics, queries)
    units = float(exact_answers(state.statistics, UnitCount())[0])
    cells = {"cells": float(queries.domain.size())} if isinstance(queries, Marginals) else {}
    return Judgement(
        error=_figures(errors(queries, made.answers.values, exact, units)),
        baselines={
            name: _figures(errors(queries, guess, exact, units))
            for name, guess in baselines(queries, state.statistics, units).items()
        },
        facts=cells | {"answers": float(queries.size)},
    )


def _figures(found: Errors) -> dict[str, float]:
    variation = {} if found.total_variation is None else {"total_variation": found.total_variation}
    return {"max": found.max, "mean": found.mean} | variation
