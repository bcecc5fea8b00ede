"""Frequent itemsets: precision of the top 100 pairs and triples on five datasets, and the cost of 2 million pairs.

The command ``marquee run`` is under the clock: all pairs of 2,000 films at Netflix size. Precision is that of further
releases, each with its own budget. Beside it stands the precision of an oracle, which knows the exact counts of the
500 most frequent itemsets, adds the noise of the release's last stage to them, and takes the 100 largest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.estimation.itemsets.candidates import Candidates, candidate_triples
from dpcore.estimation.itemsets.supports import FrequentItemsets as Found
from dpcore.exact_statistics import QueryAnswers, Statistics
from dpcore.kernel.budget import Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.itemsets.frequent_itemsets import FrequentItemsets
from dpcore.queries import ClippedSums, Conjunctions, Itemsets
from dpcore.queries.itemsets import all_pairs, positive
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from dpcore.workload import frequent
from jobs.ledger import SqlLedger
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.layout import BasketLayout
from pipelines.source import open_source
from tests.benchmarks import netflix
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target
from tests.support.checks import ROOT
from tests.support.datasets import folder

EPSILON, DELTA, TOP, CANDIDATES, PAIRED_FILMS, ORACLES = 1.0, 1e-6, 100, 500, 2_000, 20
ITEMS = {"groceries": 169, "msweb": 285, "retail": 16_470, "mushroom": 119}
RELEASES = {**dict.fromkeys(ITEMS, 10), "netflix": 1}  # Of each order, per seed.
PLACES = {2: "pairs", 3: "triples"}
_FIRST_ITEMS, _FIRST_TRIPLES = 300, 2_000  # Starting points of the exact search.
CONFIG = """\
version: 1
dataset: {{name: netflix, snapshot: bench, path: "{data}", shape: baskets, unit: user_id, item: movie_id,
  items: {films}, clustered_by_unit: true}}
privacy: {{epsilon: {epsilon}, delta: {delta}, ledger: "sqlite:///marquee.db"}}
workload: {{itemsets: {{order: 2, min_support: 0.001}}}}  # Half of the films have so many users.
mechanism: {{name: frequent_itemsets, max_paired_items: {paired}}}
output: {{path: out}}
"""


@dataclass(frozen=True)
class State:
    """seed: Of the post-processing. films: Folder of the generated data."""

    films: Path
    statistics: Mapping[str, Statistics]
    seed: int


@dataclass(frozen=True, eq=False)
class Exact:
    """Exact counts of itemsets of one size, of which the most frequent ones are certainly among them. SENSITIVE."""

    itemsets: NDArray[np.int32]
    counts: NDArray[np.int64]

    def threshold(self, rank: int) -> int:
        """The count of this rank, or of the last one."""
        return int(np.sort(self.counts)[-min(rank, self.counts.size)])

    def precision(self, itemsets: NDArray[np.int32]) -> float:
        """Which part of the itemsets is among the most frequent ones; ties count."""
        known, least = (
            dict(zip(map(tuple, self.itemsets.tolist()), self.counts.tolist(), strict=True)),
            self.threshold(TOP),
        )
        return float(np.mean([known.get(tuple(items), -1) >= least for items in itemsets.tolist()]))

    def oracle(self, stddev: float, draw: np.random.Generator) -> float:
        """Precision of the largest exact counts with this noise, on average."""
        candidates = np.sort(self.counts)[-CANDIDATES:]
        noisy = candidates + draw.normal(0.0, stddev, (ORACLES, candidates.size))
        chosen = np.argpartition(-noisy, TOP - 1, axis=1)[:, :TOP]
        return float((candidates[chosen] >= self.threshold(TOP)).mean())


def inputs(data: Path) -> Inputs:
    return {**{name: folder() / "baskets" / name for name in ITEMS}, "netflix": netflix.inputs(data)["baskets"]}


def prepare(paths: Inputs, seed: int) -> State:
    layouts = {name: BasketLayout("unit_id", "item_id", items) for name, items in ITEMS.items()}
    layouts["netflix"] = netflix.LAYOUT
    statistics = {
        name: EngineStatistics(LocalEngine(), open_source(str(paths[name]), layout, salt=bytes(16)))
        for name, layout in layouts.items()
    }
    return State(paths["netflix"], statistics, seed)


def work(state: State) -> None:
    """``marquee run`` of all pairs of 2,000 films."""
    with tempfile.TemporaryDirectory() as place:
        config = CONFIG.format(
            data=state.films / "*.parquet", films=netflix.FILMS, epsilon=EPSILON, delta=DELTA, paired=PAIRED_FILMS,
        )  # fmt: skip
        Path(place, "netflix.yaml").write_text(config)
        SqlLedger(f"sqlite:///{place}/marquee.db").create_dataset("netflix", EPSILON, DELTA)
        command = [sys.executable, "-m", "jobs", "--quiet", "run", "netflix.yaml"]
        subprocess.run(command, cwd=place, check=True, env=_environment(), capture_output=True)


def judge(state: State, made: None) -> Judgement:
    """Precision, and that of the oracle under the name of a baseline."""
    error: dict[str, float] = {}
    oracle: dict[str, float] = {}
    for name, statistics in state.statistics.items():
        view = BinaryView(netflix.FILMS if name == "netflix" else ITEMS[name])
        exact = exact_itemsets(statistics, view)
        for order, what in PLACES.items():
            found = [_released(state, name, view, order, number) for number in range(RELEASES[name])]
            parts = [release.listed[-1] for release in found]
            draw = np.random.default_rng(state.seed)
            error[f"{name}/{what}"] = float(np.mean([exact[order].precision(part.items) for part in parts]))
            oracle[f"{name}/{what}"] = float(np.mean([exact[order].oracle(part.stddev, draw) for part in parts]))
    return Judgement(error, {"oracle": oracle})


def exact_itemsets(statistics: Statistics, view: BinaryView) -> dict[int, Exact]:
    """Exact counts of pairs and triples by Apriori, whose threshold is that of rank CANDIDATES. SENSITIVE."""
    items = statistics.aggregate(QueryAnswers(Conjunctions.single_columns(view)))
    pairs = _pairs_of(statistics, view, _most_frequent(items, _FIRST_ITEMS))
    pairs = _pairs_of(statistics, view, np.flatnonzero(items >= pairs.threshold(CANDIDATES)).astype(np.int32))
    likely = candidate_triples(
        Candidates(pairs.itemsets, pairs.counts.astype(np.float64)),
        items.astype(np.float64),
        least=0.0,
        rank=_FIRST_TRIPLES,
        part=1.0,
        largest=_FIRST_TRIPLES,
    )
    triples = _counted(statistics, view, likely.itemsets)
    least = triples.threshold(CANDIDATES)
    wider = _pairs_of(statistics, view, np.flatnonzero(items >= least).astype(np.int32))
    possible = _triples_of(wider.itemsets[wider.counts >= least])
    return {2: pairs, 3: _counted(statistics, view, possible)}


def _most_frequent(counts: NDArray[np.int64], number: int) -> NDArray[np.int32]:
    return np.sort(np.argsort(-counts, kind="stable")[:number]).astype(np.int32)


def _pairs_of(statistics: Statistics, view: BinaryView, items: NDArray[np.int32]) -> Exact:
    """All pairs of the items: sums in which every unit counts as 1."""
    queries = positive(view, all_pairs(items))
    sums = ClippedSums(queries, np.ones((1, queries.size + 1), dtype=np.int64))
    return Exact(queries.columns, statistics.aggregate(sums))


def _counted(statistics: Statistics, view: BinaryView, itemsets: NDArray[np.int32]) -> Exact:
    return Exact(itemsets, statistics.aggregate(QueryAnswers(positive(view, itemsets))))


def _triples_of(pairs: NDArray[np.int32]) -> NDArray[np.int32]:
    """All triples whose three pairs are among ``pairs``."""
    joined: dict[int, set[int]] = {}
    for first, second in pairs.tolist():
        joined.setdefault(first, set()).add(second)
    triples = [
        (first, second, third)
        for first, later in joined.items()
        for second, third in combinations(sorted(later), 2)
        if third in joined.get(second, ())
    ]
    return np.array(triples, dtype=np.int32)


def _released(state: State, name: str, view: BinaryView, order: int, number: int) -> Found:
    budget, statistics = budget_of(EPSILON, DELTA, Currency.GDP), state.statistics[name]
    unit = PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, statistics.contribution)
    private = PrivateStatistics(
        statistics, unit=unit, budget=budget, ledger=MemoryLedger(budget), journal=MemoryJournal()
    )
    generator = np.random.default_rng([state.seed, number])
    release = FrequentItemsets().run(private, frequent(Itemsets(view, order, top=TOP)), generator=generator)
    assert release.itemsets is not None
    return release.itemsets


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def _lead(runs: Sequence[Run]) -> float:
    """By how much the precision is above the oracle's, where it is least."""
    leads = {name: [run.error[name] - run.baselines["oracle"][name] for run in runs] for name in runs[0].error}
    return min(float(np.mean(values)) for values in leads.values())


CASE = Case(
    params={
        "top": TOP,
        "epsilon": EPSILON,
        "delta": DELTA,
        "neighbours": "add_remove",
        "releases": RELEASES,
        "paired_films": PAIRED_FILMS,
        "engine": "local",
        **netflix.PARAMS,
    },
    seeds=(1, 2, 3),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target(
            "least precision above that of the oracle",
            ">=",
            -0.02,
            _lead,
        ),
        Target("CPU seconds, all pairs of 2,000 films", "<=", 60, lambda runs: max(run.cpu_seconds for run in runs)),
        Target("peak memory in MB", "<=", 2_000, lambda runs: max(run.peak_rss_mb for run in runs)),
    ),
)
