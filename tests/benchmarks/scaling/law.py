"""How CPU seconds and memory grow with the pairs, the queries and the tasks: measured on a grid, and fitted.

The model of the CPU seconds of one aggregation, less those of an empty session, is

    start + pair * pairs + word * queries * units / 64 + sent * queries * tasks,

with coefficients >= 0: reading and grouping the pairs, counting queries on bitmaps of 64 units a word, and the counts
that every task sends. The model of the peak memory of the process tree in MB is start + pair * pairs per file + query *
queries. Both are fitted to relative errors, so that small and large points count alike.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from pipelines.generate.baskets import ITEM, UNIT, write_baskets
from tests.benchmarks.engine_costs import cost
from tests.benchmarks.generated import kept

FILMS, PAIRS_PER_USER = 17_770, 50
ENGINES = ("local", "spark", "beam")
PAIRS, QUERIES, FILES = (1_000_000, 10_000_000, 100_000_000), (1_000, 100_000, 1_000_000), (2, 16)
MANY_QUERIES = 10_000_000
_NOISE = 0.1  # CPU seconds by which two empty sessions differ.
CPU = ("start", "pair", "word", "sent")
MEMORY = ("start", "pair", "query")


def measured(data: Path) -> dict[str, Any]:
    """The points, and for each engine the fitted coefficients with the largest relative errors."""
    points = []
    for engine in ENGINES:
        for pairs, queries, files in _grid(engine):
            points.append(_point(data, engine, pairs, queries, files))
            print(json.dumps(points[-1]), flush=True)
    return {
        "points": points,
        "fits": {engine: _fit([p for p in points if p["engine"] == engine]) for engine in ENGINES},
    }


def _grid(engine: str) -> list[tuple[int, int, int]]:
    """Pairs, queries and files. Starting Spark and Beam takes longer than counting, so they have fewer points."""
    if engine == "local":
        grid = [point for point in product(PAIRS, QUERIES, FILES) if point[0] < PAIRS[-1] or point[2] == FILES[-1]]
    else:
        grid = list(product(PAIRS, QUERIES[::2], FILES[-1:])) + [
            (PAIRS[1], queries, FILES[0]) for queries in QUERIES[::2]
        ]
    return grid + ([(pairs, MANY_QUERIES, FILES[-1]) for pairs in PAIRS[:2]] if engine != "beam" else [])


def _point(data: Path, engine: str, pairs: int, queries: int, files: int) -> dict[str, Any]:
    users = pairs // PAIRS_PER_USER

    def make(folder: Path) -> None:
        write_baskets(folder, users=users, films=FILMS, pairs=pairs, files=files, seed=1)

    dataset = {
        "name": "law",
        "snapshot": "1",
        "path": str(kept(data, f"baskets-{users}x{FILMS}-{pairs}-{files}files-seed1", make)),
        "shape": "baskets",
        "unit": UNIT,
        "item": ITEM,
        "items": FILMS,
        "clustered_by_unit": True,
    }
    workload = {"conjunctions": {"count": queries, "order": 3, "seed": 1}}
    output = {"path": "out", "synthetic_rows": 0}
    config = {"dataset": dataset, "workload": workload, "mechanism": {"name": "gaussian"}, "output": output}
    run = cost(config, engine, "--count")
    tasks = min(files, 6) if engine == "spark" else files
    facts = {"engine": engine, "pairs": pairs, "users": users, "queries": queries, "files": files, "tasks": tasks}
    return {**facts, "cpu": run["cpu"], "wall": run["wall"], "peak_mb": run["peak_mb"], "counts": run["counts"]}


def _fit(points: list[dict[str, Any]]) -> dict[str, Any]:
    columns = {name: np.array([float(point[name]) for point in points]) for name in points[0] if name not in _TEXTS}
    ones = np.ones(len(points))
    words, sent = columns["queries"] * columns["users"] / 64, columns["queries"] * columns["tasks"]
    cpu = _fitted(np.stack([ones, columns["pairs"], words, sent], axis=1), columns["cpu"], CPU)
    per_file = columns["pairs"] / columns["files"]
    seen = columns["peak_mb"] > 0  # Of a very short run, no look at its memory may be recorded.
    features = np.stack([ones, per_file, columns["queries"]], axis=1)
    memory = _fitted(features[seen], columns["peak_mb"][seen], MEMORY)
    return {"cpu_seconds": cpu, "peak_mb": memory}


_TEXTS = ("engine", "counts")


def _fitted(features: Any, got: Any, names: tuple[str, ...]) -> dict[str, float]:
    """Coefficients >= 0 that minimise the squared relative errors, and the largest of these errors."""
    got = np.maximum(got, _NOISE)
    coefficients, _ = nnls(features / got[:, None], np.ones(got.size))
    errors = np.abs(features @ coefficients / got - 1)
    fitted = dict(zip(names, map(float, coefficients), strict=True))
    return {**fitted, "median relative error": float(np.median(errors)), "largest relative error": float(errors.max())}
