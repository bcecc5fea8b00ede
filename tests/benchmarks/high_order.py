"""Classifiers that learn from synthetic rows of tables whose structure no low-order marginal holds.

The label of the first two tables is the XOR of two or three of ten bits; the classes of the others are dense Gaussians
of 10 and 50 dimensions. A release gets what `docs/mechanisms.md` says for rows for classifiers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.mechanisms.api import Mechanism
from dpcore.mechanisms.recommendation import recommended
from dpcore.workload import Workload, all_k_way, target
from tests.benchmarks.case import Case, Figures, Inputs, Judgement, Run, Target
from tests.benchmarks.downstream import accuracies
from tests.benchmarks.figures import datasets
from tests.benchmarks.figures.datasets import Table
from tests.benchmarks.figures.runs import Remembered
from tests.benchmarks.generated import kept
from tests.benchmarks.graphical.releases import made, mechanism, private_of
from tests.benchmarks.high_order_tables import LABEL, TABLES
from tests.benchmarks.rivals.gem import Gem
from tests.benchmarks.rivals.gsd import Gsd
from tests.benchmarks.rivals.rap import Rap

ROWS, JUDGED, EPSILON = 20_000, 5_000, 1.0
RECOMMENDED: Final = "recommended"
_ONCE: Final = 3  # The seed of the runs that a case needs once.
_LEARNED, _UNSEEN = 1, 2  # Seeds of the rows that are released, and of those that are predicted.
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Asked:
    """mechanism: The mechanism for the table, with the workload of all marginals of ``order`` that contain the label.

    aim_order: Of all marginals without regard to the label, which AIM gets beside it.
    """  # fmt: skip

    mechanism: str
    order: int
    aim_order: int = 3


ASKED: Final = {
    "xor2": Asked(RECOMMENDED, 3),
    "xor3": Asked(RECOMMENDED, 4),
    "gauss10": Asked("gaussian_copula", 2),
    "gauss50": Asked("gaussian_copula", 2, aim_order=2),
}
# AIM, and others beside, select among marginals of so many attributes with the label.
_TARGET_ORDER: Final = {"xor2": 3, "xor3": 4, "gauss10": 3, "gauss50": 2}
RIVALS: Final[tuple[Mechanism, ...]] = (Gsd(rows=1_000, generations=1_000), Rap(rows=400, steps=60), Gem(steps=60))


@dataclass(frozen=True, eq=False)
class State:
    tables: dict[str, Table]
    seed: int


def inputs(data: Path) -> Inputs:
    def make(name: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        rows = TABLES[name](ROWS, _LEARNED)
        columns = {attribute: pa.array(rows.codes[:, axis]) for axis, attribute in enumerate(rows.sizes)}
        pq.write_table(pa.table(columns | {"row": pa.array(np.arange(ROWS))}), folder / "part-0.parquet")
        (folder / "domain.json").write_text(json.dumps(rows.sizes))

    return {name: kept(data, f"high-order-{name}", partial(make, name)) for name in ASKED}


def prepare(paths: Inputs, seed: int) -> State:
    return State({name: datasets.tabular({"table": path}) for name, path in paths.items()}, seed)


def work(state: State) -> dict[str, tuple[Codes, float]]:
    """The rows of each table, and the CPU seconds of their release."""
    released = {}
    for name, table in state.tables.items():
        asked = ASKED[name]
        workload = target(table.domain, asked.order, LABEL)
        chosen = asked.mechanism
        if chosen == RECOMMENDED:
            chosen = recommended(
                private_of(table.statistics, mechanism("aim"), EPSILON).terms, workload, rows=True
            ).name
        start = time.process_time()
        codes = rows_of(table, mechanism(chosen), workload, state.seed)
        released[name] = (codes, time.process_time() - start)
    return released


def rows_of(table: Table, asked: Mechanism, workload: Workload, seed: int) -> Codes:
    """Synthetic rows of one release."""
    rows = made(asked, private_of(Remembered(table.statistics), asked, EPSILON), workload, seed).rows
    assert rows is not None
    return rows.codes.astype(np.int64)


def judge(state: State, released: dict[str, tuple[Codes, float]]) -> Judgement:
    """Mean accuracies of five classifiers by table; ``facts`` has each classifier's, and CPU seconds."""
    accuracy: dict[str, float] = {}
    beside: dict[str, dict[str, float]] = {}
    facts: dict[str, float] = {}
    for name, table in state.tables.items():
        unseen = TABLES[name](JUDGED, _UNSEEN).codes

        def judged(label: str, codes: Codes, name: str = name, unseen: Codes = unseen) -> float:
            scores = accuracies(codes, unseen)
            facts.update({f"{name}/{label}/{classifier}": score for classifier, score in scores.items()})
            return float(np.mean(list(scores.values())))

        codes, facts[f"{name}: CPU s"] = released[name]
        accuracy[name] = judged("ours", codes)
        beside.setdefault("real rows", {})[name] = judged("real", TABLES[name](ROWS, _LEARNED).codes)
        beside.setdefault("majority", {})[name] = float(np.bincount(unseen[:, -1]).max() / JUDGED)
        for label, asked, workload in _beside(name, table, state.seed):
            start = time.process_time()
            rows = rows_of(table, asked, workload, state.seed)
            facts[f"{name}/{label}: CPU s"] = time.process_time() - start
            beside.setdefault(label, {})[name] = judged(label, rows)
    return Judgement(accuracy, {label: dict(cells) for label, cells in beside.items()}, facts)


def _beside(name: str, table: Table, seed: int) -> list[tuple[str, Mechanism, Workload]]:
    """AIM with both workloads; once other mechanisms, and the rivals, with that of the label."""
    labelled = target(table.domain, _TARGET_ORDER[name], LABEL)
    plain = all_k_way(table.domain, ASKED[name].aim_order)
    releases = [("aim", mechanism("aim"), plain), ("aim, target", mechanism("aim"), labelled)]
    if seed == _ONCE:
        releases += [(f"{label}, target", mechanism(label), labelled) for label in ("clique_tree", "mst")]
        releases += [(f"{rival.traits.name}, target", rival, labelled) for rival in RIVALS]
    return releases


def _mean(figures: Sequence[Figures], table: str) -> float:
    return float(np.mean([figure[table] for figure in figures]))


def beyond_halfway(runs: Sequence[Run], table: str, start: str) -> float:
    """Mean accuracy of the rows, less the middle of those of AIM's rows and of the real ones; 0 is halfway.

    As a part of the way it would mean nothing where AIM's rows are as good as the real ones.
    """
    first, real = (_mean([run.baselines[label] for run in runs], table) for label in (start, "real rows"))
    return _mean([run.error for run in runs], table) - (first + real) / 2


def _worst(tables: Sequence[str], start: str, runs: Sequence[Run]) -> float:
    return min(beyond_halfway(runs, table, start) for table in tables)


CASE = Case(
    params={
        "rows": ROWS,
        "judged": JUDGED,
        "epsilon": EPSILON,
        "delta": 1e-9,
        "neighbours": "add or remove one unit, n private",
        "engine": "local",
        "error": "no error: the mean accuracy on real rows of five classifiers that have learned from synthetic ones",
        "asked": {name: f"{asked.mechanism}, target: label, order: {asked.order}" for name, asked in ASKED.items()},
        "aim": {name: f"all {asked.aim_order}-way marginals" for name, asked in ASKED.items()},
        "others": {name: f"target: label, order: {order}" for name, order in _TARGET_ORDER.items()},
        "once": f"seed {_ONCE} alone: clique_tree, mst, and the rivals {', '.join(map(str, RIVALS))}",
    },
    seeds=(1, 2, 3),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        *(
            Target(f"{name}: beyond halfway from AIM to the real rows", ">=", 0.0, partial(_worst, [name], "aim"))
            for name in ASKED
        ),
        Target(
            "Gaussians: the same from AIM with target",
            ">=",
            0.0,
            partial(_worst, ["gauss10", "gauss50"], "aim, target"),
        ),
        Target("CPU seconds of the four releases", "<=", 60, lambda runs: max(run.cpu_seconds for run in runs)),
    ),
    cold=False,
)
