"""``python -m tests.benchmarks.graphical.bounds_runs --runs 10`` adds ten runs of AIM with its confidence bounds.

A run is stored in results/bounds when it is done and never computed again, up to 50 runs in all.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.confidence.bounds import bounds
from dpcore.evaluation import exact_answers
from dpcore.mechanisms.api import Mechanism, Release
from dpcore.queries import Marginals
from dpcore.workload import Workload
from tests.benchmarks.figures import datasets
from tests.benchmarks.figures.datasets import Table
from tests.benchmarks.figures.runs import Remembered
from tests.benchmarks.graphical.definition26 import distances
from tests.benchmarks.graphical.releases import DELTA, mechanism, private_of
from tests.benchmarks.graphical.workloads import all_three_way
from tests.benchmarks.harness import FOLDER, ROOT
from tests.benchmarks.provenance import commit, digest, machine

DATASET: Final = "adult"
EPSILON: Final = 10.0
CONFIDENCE: Final = 0.95
RUNS: Final = 50
SETTINGS: Final = {"max_model_mb": 1.0, "rounds_per_attribute": 4}
STORED: Final = FOLDER / "results" / "bounds" / f"{DATASET}.json"


@dataclass(frozen=True)
class Coverage:
    """One run: how many marginals of the workload their bounds cover, and how far those are above the errors.

    supported, others: Marginals that a measured one contains, and the rest; *_covered: of which the bound holds,
    *_ratio: median of bound over error, NaN without any.
    cells_covered: Share of all cells whose interval holds the exact count.
    error: Mean over marginals of the L1 error, as a part of the rows.
    """

    seed: int
    supported: int
    supported_covered: int
    supported_ratio: float
    others: int
    others_covered: int
    others_ratio: float
    cells_covered: float
    error: float
    measurements: int
    cpu_seconds: float
    bounds_cpu_seconds: float
    commit: str


def main(arguments: Sequence[str], path: Path = STORED, data: Path = FOLDER / "data") -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.graphical.bounds_runs", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="at most so many new ones")
    compute(path, datasets.tabular_inputs(DATASET, data)["table"], parser.parse_args(arguments).runs)
    return 0


def compute(path: Path, folder: Path, more: int) -> list[Coverage]:
    """All stored runs, after at most ``more`` new ones of those that lack."""
    found = read(path)
    lacking = [seed for seed in range(1, RUNS + 1) if seed not in {run.seed for run in found}][:more]
    if not lacking:
        return found
    table = datasets.tabular({"table": folder})
    workload = all_three_way(DATASET, table)
    table = Table(Remembered(table.statistics), table.domain, table.units)
    exact = exact_answers(table.statistics, workload.queries)
    for seed in lacking:
        run = covered(table, workload, exact, mechanism("aim", SETTINGS), seed)
        found = sorted([*read(path), run], key=lambda one: one.seed)
        _store(path, found, folder)
        print(f"seed {seed}: {run}", file=sys.stderr, flush=True)
    return found


def covered(
    table: Table, workload: Workload, exact: NDArray[np.int64], asked: Mechanism, seed: int, epsilon: float = EPSILON
) -> Coverage:
    """One release with bounds for all marginals of the workload."""
    queries = workload.queries
    assert isinstance(queries, Marginals)
    private, start = private_of(table.statistics, asked, epsilon), time.process_time()
    release = asked.run(private, workload, generator=np.random.default_rng(seed))
    done = time.process_time()
    limits, supported = _bounds(release, queries)
    seconds = time.process_time() - done
    errors = distances(queries, release.answers.values, exact)
    holds, ratios = errors <= limits, limits / errors
    within = (release.answers.lower <= exact) & (exact <= release.answers.upper)
    return Coverage(
        seed,
        int(supported.sum()),
        int(holds[supported].sum()),
        _median(ratios[supported]),
        int((~supported).sum()),
        int(holds[~supported].sum()),
        _median(ratios[~supported]),
        float(within.mean()),
        float(errors.mean() / table.units),
        len(release.measurements),
        done - start,
        seconds,
        commit(ROOT),
    )


def read(path: Path) -> list[Coverage]:
    return [Coverage(**run) for run in json.loads(path.read_text())["runs"]] if path.exists() else []


def _bounds(release: Release, queries: Marginals) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Of each marginal, in counts, and whether a measured one contains it."""
    assert isinstance(release.model, GraphicalModel)
    found = bounds(
        release.model,
        release.measurements,
        release.rounds,
        queries.cliques,
        CONFIDENCE,
        horizon=release.horizon,
        batch=release.batch,
    )
    return np.array([bound.l1 for bound in found]), np.array([bound.supported for bound in found])


def _median(ratios: NDArray[np.float64]) -> float:
    return float(np.median(ratios)) if ratios.size else float("nan")


def _store(path: Path, runs: Sequence[Coverage], folder: Path) -> None:
    about = {
        "dataset": f"tabular/{DATASET}", "workload": "all 3-way marginals", "mechanism": "aim", "settings": SETTINGS,
        "epsilon": EPSILON, "delta": DELTA, "neighbours": "add or remove one unit, n private",
        "confidence": CONFIDENCE, "machine": machine(), "inputs": {"table": digest(folder)},
    }  # fmt: skip
    lines = ",\n".join(f"    {json.dumps(asdict(run))}" for run in runs)
    head = json.dumps(about, indent=2).removesuffix("\n}")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(f'{head},\n  "runs": [\n{lines}\n  ]\n}}\n')
    partial.rename(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
