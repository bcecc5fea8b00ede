"""DualQuery's loop over 2,000,000 3-way conjunctions of KDD99, with the parameters of the paper's Figure 3."""

from __future__ import annotations

import time
from dataclasses import replace

from dpcore.mechanisms.api import Release
from dpcore.mechanisms.query_game.dual_query import DualQuery
from tests.benchmarks import dual_loops, dual_release
from tests.benchmarks.case import Case, Inputs, Judgement, Target, mean_cpu_seconds
from tests.benchmarks.dual_loops import Loop

QUERIES = 2_000_000
PAPER = DualQuery(eta=1.2, samples=1750, rounds=170)


def prepare(paths: Inputs, seed: int) -> Loop:
    state = dual_release.prepare(paths, seed, QUERIES)
    return Loop.of(PAPER, state.statistics, state.queries, state.units, seed)


def judge(loop: Loop, made: Release) -> Judgement:
    """The paper's rounds; as facts also all rounds that the budget pays for."""
    judgement = dual_loops.judge(loop, made)
    longer = Loop.of(replace(PAPER, rounds=None), loop.statistics, loop.queries, loop.units, loop.seed)
    started = time.process_time()
    all_rounds = dual_loops.work(longer)
    seconds = time.process_time() - started
    found = dual_loops.judge(longer, all_rounds)
    facts = {
        **judgement.facts,
        "all_rounds": found.facts["rounds"],
        "all_rounds_cpu_seconds": seconds,
        "all_rounds_max": found.error["max"],
        "all_rounds_mean": found.error["mean"],
    }
    return Judgement(judgement.error, judgement.baselines, facts)


CASE = Case(
    params={**dual_release.PARAMS, "queries": QUERIES, "mechanism": repr(PAPER)},
    seeds=(1, 2),
    inputs=dual_release.kdd99,
    prepare=prepare,
    work=dual_loops.work,
    judge=judge,
    targets=(
        Target("CPU seconds of the paper's 170 rounds", "<", 12, mean_cpu_seconds),
        Target("rounds", "==", 170, lambda runs: min(run.facts["rounds"] for run in runs)),
        Target(
            "CPU seconds of query evaluation",
            "<",
            3,
            lambda runs: max(run.facts["evaluation_cpu_seconds"] for run in runs),
        ),
    ),
)
