"""What releases cost on Spark and Beam, in CPU seconds of the local engine.

``python -m tests.benchmarks.engine_costs [CASE ...]`` makes releases of the same generated data by the local engine and
by another one, in fresh processes. The cost of a release is the CPU time of its whole process tree, less that of the
same program which opens the engine and releases nothing. The order of the engines changes from one repetition to the
next, and ratios are those of medians. That both count the same bits is a matter of tests.

It exits with 0 when all targets are met, and 1 when one is missed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from jobs.ledger import SqlLedger
from pipelines.generate.baskets import ITEM, UNIT, write_baskets
from tests.benchmarks.generated import kept
from tests.benchmarks.provenance import commit, machine

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).resolve().parent
ROWS, ATTRIBUTES, VALUES, FILES = 10_000_000, 10, 8, 16
USERS, FILMS, PAIRS = 480_189, 17_770, 101_800_000
REPEATS = 3


@dataclass(frozen=True)
class CostCase:
    """One engine on one dataset.

    data: Writes the dataset and returns its section of the config.
    workload: Section of the config.
    engine: ``spark`` or ``beam``.
    limit: Largest cost in costs of the local engine.
    """

    data: Callable[[Path], dict[str, Any]]
    workload: dict[str, Any]
    engine: str
    limit: float


def table(clustered: bool) -> Callable[[Path], dict[str, Any]]:
    """10 million rows of 10 attributes with 8 values, one row per unit, in 16 files."""

    def make(folder: Path) -> None:
        folder.mkdir(parents=True)
        draw, size = np.random.default_rng(1), ROWS // FILES
        for file in range(FILES):
            person = np.arange(file * size, (file + 1) * size) if clustered else np.arange(size) * FILES + file
            columns = {f"a{number}": draw.integers(0, VALUES, size).astype(np.int16) for number in range(ATTRIBUTES)}
            pq.write_table(pa.table({"person": person, **columns}), folder / f"part-{file:02}.parquet")

    def data(cache: Path) -> dict[str, Any]:
        folder = kept(cache, f"table-{ROWS}-{'clustered' if clustered else 'spread'}", make)
        attributes = [
            {"name": f"a{number}", "type": "categorical", "values": list(range(VALUES)), "other": False, "null": False}
            for number in range(ATTRIBUTES)
        ]
        schema = cache / f"table-{ROWS}.schema.yaml"
        schema.write_text(yaml.safe_dump({"version": 1, "attributes": attributes}))
        return {"path": str(folder), "shape": "table", "unit": "person", "schema": str(schema),
                "clustered_by_unit": clustered}  # fmt: skip

    return data


def baskets(cache: Path) -> dict[str, Any]:
    """100 million pairs of 480,189 users and 17,770 films, in 16 files by user: the size of Netflix."""

    def make(folder: Path) -> None:
        write_baskets(folder, users=USERS, films=FILMS, pairs=PAIRS, files=FILES, seed=1)

    folder = kept(cache, f"baskets-{USERS}x{FILMS}-{PAIRS}-seed1", make)
    return {"path": str(folder), "shape": "baskets", "unit": UNIT, "item": ITEM, "items": FILMS,
            "clustered_by_unit": True}  # fmt: skip


MARGINALS = {"marginals": {"order": 3}}
TRIPLES = {"conjunctions": {"count": 500_000, "order": 3, "seed": 1}}
CASES = {
    "spark_table": CostCase(table(clustered=True), MARGINALS, "spark", 1.8),
    "spark_table_unclustered": CostCase(table(clustered=False), MARGINALS, "spark", 2.5),
    "spark_baskets": CostCase(baskets, TRIPLES, "spark", 1.6),
    "beam_table": CostCase(table(clustered=True), MARGINALS, "beam", 1.3),
    "beam_table_unclustered": CostCase(table(clustered=False), MARGINALS, "beam", 1.3),
    "beam_baskets": CostCase(baskets, TRIPLES, "beam", 1.8),
}


def cost(config: dict[str, Any], engine: str) -> dict[str, float]:
    """CPU and wall seconds of one release in a fresh folder, and of the empty program."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        ledger = f"sqlite:///{folder}/ledger.db"
        SqlLedger(ledger).create_dataset(config["dataset"]["name"], 1.0, 1e-9)
        own = {**config, "privacy": {"epsilon": 1.0, "delta": 1e-9, "ledger": ledger}}
        (folder / "release.yaml").write_text(yaml.safe_dump(own))
        empty, full = _job(folder, engine, "--empty"), _job(folder, engine)
        return {"empty": empty["cpu"], "cpu": full["cpu"] - empty["cpu"], "wall": full["wall"]}


def _job(folder: Path, engine: str, *options: str) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.engine_job", str(folder / "release.yaml"), engine, *options]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise SystemExit(finished.stderr)
    measured: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    return measured


def measured(name: str, data: Path) -> dict[str, Any]:
    """The result of a case, as stored."""
    case = CASES[name]
    dataset = {"name": name, "snapshot": "1", **case.data(data)}
    config = {"dataset": dataset, "workload": case.workload, "mechanism": {"name": "gaussian"},
              "output": {"path": "out", "synthetic_rows": 0}}  # fmt: skip
    runs: dict[str, list[dict[str, float]]] = {"local": [], case.engine: []}
    cost(config, "local")  # Compiles the kernels, once.
    for repeat in range(REPEATS):
        for engine in sorted(runs, reverse=bool(repeat % 2)):
            runs[engine].append(cost(config, engine))
    medians = {engine: median(run["cpu"] for run in found) for engine, found in runs.items()}
    ratio = medians[case.engine] / medians["local"]
    return {
        "case": name,
        "commit": commit(ROOT),
        "machine": machine(),
        "runs": runs,
        "median_cpu_seconds": medians,
        "targets": [{"name": f"CPU of {case.engine} / local", "got": ratio, "limit": case.limit,
                     "met": ratio <= case.limit}],
    }  # fmt: skip


def main(names: list[str], results: Path = FOLDER / "results", data: Path = FOLDER / "data") -> int:
    met = True
    for name in names or list(CASES):
        result = measured(name, data)
        (results / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")
        print(json.dumps({"case": name, **result["median_cpu_seconds"], **result["targets"][0]}))
        met &= result["targets"][0]["met"]
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
