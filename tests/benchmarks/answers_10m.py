"""Exact answers of 50,000 3-way conjunctions over 10 million (user, film) pairs by the local engine, with reading."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.exact_statistics import QueryAnswers
from dpcore.queries import Conjunctions
from dpcore.queries.generation import random_conjunctions
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.generate.baskets import ITEM, UNIT, write_baskets
from pipelines.layout import BasketLayout
from pipelines.source import open_source
from tests.benchmarks.case import Case, Inputs, Judgement, Peer, Target, mean_cpu_seconds
from tests.benchmarks.generated import kept

USERS, FILMS, FILES = 48_000, 17_770, 16
ASKED_PAIRS = 10_180_000  # Of these, tastes leave 10.05 million.
QUERIES, ORDER = 50_000, 3
PAIRS_AT_LEAST = 10_000_000
LAYOUT = BasketLayout(UNIT, ITEM, FILMS, clustered_by_unit=True)


@dataclass(frozen=True)
class State:
    """folder: Parquet files. queries: What is asked."""

    folder: Path
    queries: Conjunctions


def inputs(data: Path) -> Inputs:
    def make(folder: Path) -> None:
        write_baskets(folder, users=USERS, films=FILMS, pairs=ASKED_PAIRS, files=FILES, seed=1)

    return {"baskets": kept(data, f"baskets-{USERS}x{FILMS}-{ASKED_PAIRS}-seed1", make)}


def prepare(paths: Inputs, seed: int) -> State:
    queries = random_conjunctions(LAYOUT.view, QUERIES, ORDER, np.random.default_rng(seed))
    return State(paths["baskets"], queries)


def work(state: State) -> NDArray[np.int64]:
    source = open_source(str(state.folder), LAYOUT, salt=bytes(16))
    return EngineStatistics(LocalEngine(), source).aggregate(QueryAnswers(state.queries))


def with_numpy(state: State) -> NDArray[np.int64]:
    """The same answers by plain numpy: one packed row of users for each film, AND, popcount."""
    held = np.zeros((FILMS, -(-USERS // 64)), dtype=np.uint64)
    for file in sorted(state.folder.glob("*.parquet")):
        table = pq.read_table(file)
        users, films = table[UNIT].to_numpy(), table[ITEM].to_numpy()
        np.bitwise_or.at(held, (films, users >> 6), np.uint64(1) << (users & 63).astype(np.uint64))
    answers = np.empty(state.queries.size, dtype=np.int64)
    for start in range(0, state.queries.size, 1_000):
        chosen = held[state.queries.columns[start : start + 1_000]]
        answers[start : start + 1_000] = np.bitwise_count(np.bitwise_and.reduce(chosen, axis=1)).sum(axis=1)
    return answers


def judge(state: State, answers: NDArray[np.int64]) -> Judgement:
    """Error against numpy in units; baselines in fractions of the users."""
    wrong = np.abs(answers - with_numpy(state))
    popularity = np.zeros(FILMS, dtype=np.int64)
    for file in state.folder.glob("*.parquet"):
        popularity += np.bincount(pq.read_table(file)[ITEM].to_numpy(), minlength=FILMS)
    product = (popularity / USERS)[state.queries.columns].prod(axis=1)
    truth = answers / USERS
    guesses = {"zeros": 0.0, "uniform": math.pow(0.5, ORDER), "product": product}
    return Judgement(
        error={"max": wrong.max(), "mean": wrong.mean()},
        baselines={
            name: {"max": np.abs(truth - guess).max(), "mean": np.abs(truth - guess).mean()}
            for name, guess in guesses.items()
        },
        facts={"pairs": float(popularity.sum()), "answers_above_0": float(np.count_nonzero(answers))},
    )


CASE = Case(
    params={
        "users": USERS,
        "films": FILMS,
        "asked_pairs": ASKED_PAIRS,
        "files": FILES,
        "queries": QUERIES,
        "order": ORDER,
        "engine": "local",
    },
    seeds=(1, 2, 3),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    peer=Peer("numpy over pyarrow", with_numpy),
    targets=(
        Target("CPU seconds, Parquet reading included", "<", 3.0, mean_cpu_seconds),
        Target("largest difference to numpy", "==", 0.0, lambda runs: max(run.error["max"] for run in runs)),
        Target("pairs", ">=", PAIRS_AT_LEAST, lambda runs: min(run.facts["pairs"] for run in runs)),
    ),
)
