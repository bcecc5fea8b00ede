"""DualQuery's loop over 500,000 uniform 3-way conjunctions of generated Netflix, all rounds that (1, 1e-3) allows."""

from __future__ import annotations

import numpy as np

from dpcore.domain import BinaryView
from dpcore.mechanisms.query_game.dual_query import DualQuery
from dpcore.queries.generation import random_conjunctions
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.source import open_source
from tests.benchmarks import netflix
from tests.benchmarks.case import Case, Inputs, Target, mean_cpu_seconds
from tests.benchmarks.dual_loops import DELTA, EPSILON, Loop, judge, work

QUERIES, QUERY_SEED = 500_000, 7
MECHANISM = DualQuery(eta=2.0, samples=5000)


def prepare(paths: Inputs, seed: int) -> Loop:
    source = open_source(str(paths["baskets"]), netflix.LAYOUT, salt=bytes(16))
    queries = random_conjunctions(BinaryView(netflix.FILMS), QUERIES, 3, np.random.default_rng(QUERY_SEED))
    return Loop.of(MECHANISM, EngineStatistics(LocalEngine(), source), queries, netflix.USERS, seed)


CASE = Case(
    params={
        **netflix.PARAMS,
        "epsilon": EPSILON,
        "delta": DELTA,
        "queries": QUERIES,
        "neighbours": "replace one unit, n public",
        "mechanism": repr(MECHANISM),
        "fractions_of": "units",
    },
    seeds=(1, 2, 3),
    inputs=netflix.inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(Target("CPU seconds of the loop", "<", 8, mean_cpu_seconds),),
)
