"""MWEM on the eight categorical attributes of Adult: a dense table of 38.1 million cells, by a release config."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpcore.evaluation import Errors, baselines, errors
from dpcore.exact_statistics import QueryAnswers, Statistics
from dpcore.kernel.memory import MemoryJournal, MemoryLedger
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.mechanisms.api import Release
from jobs.job import Job, load_job
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.source import open_source
from tests.benchmarks.case import Case, Inputs, Judgement, Target, mean_cpu_seconds
from tests.support.datasets import ROOT, folder

CONFIG = ROOT / "tests/support/configs/adult8.yaml"


@dataclass(frozen=True)
class State:
    """The release that the config describes, and its data behind an engine."""

    job: Job
    statistics: Statistics


def inputs(data: Path) -> Inputs:
    return {"adult": folder() / "raw/adult", "config": CONFIG, "schema": CONFIG.with_name("adult.schema.yaml")}


def prepare(paths: Inputs, seed: int) -> State:
    job = load_job(paths["config"])
    source = open_source(str(paths["adult"]), job.layout, salt=bytes(16))
    return State(job, EngineStatistics(LocalEngine(), source))


def work(state: State) -> Release:
    job = state.job
    private = PrivateStatistics(
        state.statistics, unit=job.unit, budget=job.budget, ledger=MemoryLedger(job.budget), journal=MemoryJournal()
    )
    return job.mechanism.run(private, job.stand_in, generator=np.random.default_rng(0))


def judge(state: State, made: Release) -> Judgement:
    """Errors of all cells of the 56 marginals, as fractions of the rows."""
    queries = state.job.stand_in.queries
    exact = state.statistics.aggregate(QueryAnswers(queries))
    rows = float(exact.sum() / 56)
    guesses = baselines(queries, state.statistics, rows)
    return Judgement(
        error=_figures(errors(queries, made.answers.values, exact, rows)),
        baselines={name: _figures(errors(queries, guess, exact, rows)) for name, guess in guesses.items()},
        facts={"cells": float(queries.domain.size()), "answers": float(queries.size)},
    )


def _figures(found: Errors) -> dict[str, float]:
    return {"max": found.max, "mean": found.mean, "total_variation": found.total_variation or 0.0}


CASE = Case(
    params={"config": "tests/support/configs/adult8.yaml", "engine": "local", "fractions_of": "rows"},
    seeds=(1, 2),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target("cells of the dense table", "==", 38_102_400, lambda runs: runs[0].facts["cells"]),
        Target("CPU seconds", "<=", 180, mean_cpu_seconds),
        Target("peak memory, MB", "<=", 2_000, lambda runs: max(run.peak_rss_mb for run in runs)),
        Target(
            "mean error over that of the product of exact one-way marginals",
            "<",
            1.0,
            lambda runs: max(run.error["mean"] / run.baselines["product"]["mean"] for run in runs),
        ),
    ),
)
