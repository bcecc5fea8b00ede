"""Exact answers of 500,000 3-way conjunctions over generated Netflix by the local engine, reading included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.exact_statistics import QueryAnswers, Request
from dpcore.queries import ClippedSums, Conjunctions, SatisfactionHistogram
from dpcore.queries.generation import random_conjunctions
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.generate.baskets import ITEM, UNIT
from pipelines.source import open_source
from tests.benchmarks import netflix, process_tree
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target, mean_cpu_seconds

QUERIES, ORDER = 500_000, 3
CHECKED = 20_000  # Queries that numpy answers too, spread over all.
CLIP = 40


@dataclass(frozen=True)
class State:
    """folder: Parquet files. queries: What is asked."""

    folder: Path
    queries: Conjunctions


def prepare(paths: Inputs, seed: int) -> State:
    queries = random_conjunctions(netflix.LAYOUT.view, QUERIES, ORDER, np.random.default_rng(seed))
    return State(paths["baskets"], queries)


def work(state: State) -> NDArray[np.int64]:
    return asked(state.folder, QueryAnswers(state.queries))


def asked(folder: Path, request: Request) -> NDArray[np.int64]:
    source = open_source(str(folder / "*.parquet"), netflix.LAYOUT, salt=bytes(16))
    return EngineStatistics(LocalEngine(), source).aggregate(request)


def with_numpy(state: State, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Answers of some queries, file by file: one packed row of users for each film, AND, popcount."""
    answers = np.zeros(chosen.size, dtype=np.int64)
    for file in sorted(state.folder.glob("*.parquet")):
        table = pq.read_table(file)
        users, films = np.unique(table[UNIT].to_numpy(), return_inverse=True)[1], table[ITEM].to_numpy()
        held = np.zeros((netflix.FILMS, -(-(int(users.max()) + 1) // 64)), dtype=np.uint64)
        np.bitwise_or.at(held, (films, users >> 6), np.uint64(1) << (users & 63).astype(np.uint64))
        for start in range(0, chosen.size, 1_000):
            rows = held[state.queries.columns[chosen[start : start + 1_000]]]
            answers[start : start + 1_000] += np.bitwise_count(np.bitwise_and.reduce(rows, axis=1)).sum(
                axis=1, dtype=np.int64
            )
    return answers


def judge(state: State, answers: NDArray[np.int64]) -> Judgement:
    """Difference to numpy in units, and the CPU seconds of both passes of clipped answers over the same queries."""
    chosen = np.linspace(0, state.queries.size - 1, CHECKED).astype(np.int64)
    wrong = np.abs(answers[chosen] - with_numpy(state, chosen))
    facts = {"answers_above_0": float(np.count_nonzero(answers)), "sum_of_answers": float(answers.sum())}
    for name, request in {
        "satisfaction_histogram": SatisfactionHistogram(state.queries),
        "clipped_sums": ClippedSums.of(state.queries, [CLIP]),
    }.items():
        started = process_tree.cpu_seconds()
        asked(state.folder, request)
        facts[f"{name}_cpu_seconds"] = process_tree.cpu_seconds() - started
    truth = answers / netflix.USERS
    return Judgement(
        error={"max": wrong.max(), "mean": wrong.mean()},
        baselines={"zeros": {"max": truth.max(), "mean": truth.mean()}},
        facts=facts,
    )


def slowest(pass_: str) -> Callable[[Sequence[Run]], float]:
    """CPU seconds of one pass of clipped answers, the largest of all runs."""
    return lambda runs: max(run.facts[f"{pass_}_cpu_seconds"] for run in runs)


CASE = Case(
    params=netflix.PARAMS | {"queries": QUERIES, "order": ORDER, "checked": CHECKED, "clip": CLIP, "engine": "local"},
    seeds=(1, 2, 3),
    inputs=netflix.inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target("CPU seconds, Parquet reading included", "<", 10.0, mean_cpu_seconds),
        Target("peak memory, MB", "<", 1500.0, lambda runs: max(run.peak_rss_mb for run in runs)),
        Target("largest difference to numpy", "==", 0.0, lambda runs: max(run.error["max"] for run in runs)),
        Target("CPU seconds of the satisfaction histogram", "<", 12.0, slowest("satisfaction_histogram")),
        Target("CPU seconds of the clipped sums", "<", 12.0, slowest("clipped_sums")),
    ),
)
