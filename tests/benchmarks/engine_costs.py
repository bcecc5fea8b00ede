"""What releases cost on Spark and Beam, in CPU seconds of the local engine.

``python -m tests.benchmarks.engine_costs [CASE ...]`` makes releases of the same generated data by the local engine and
by another one, in fresh processes. The cost of a release is the CPU time of its whole process tree, less that of the
same program which opens the engine and releases nothing. The order of the engines changes from one repetition to the
next, and ratios are those of medians.

It exits with 0 when all targets are met, and 1 when one is missed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import yaml

from jobs.ledger import SqlLedger
from pipelines.engines.code_archive import write_archive
from pipelines.engines.java import find_java
from pipelines.generate.baskets import ITEM, UNIT, write_baskets
from tests.benchmarks import process_tree
from tests.benchmarks.generated import kept
from tests.benchmarks.provenance import commit, machine
from tests.support.spark_cluster import connect_server

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).resolve().parent
ROWS, ATTRIBUTES, VALUES, FILES = 10_000_000, 10, 8, 16
USERS, FILMS, PAIRS = 480_189, 17_770, 101_800_000
WIDE_ROWS, WIDE = 1_000_000, 110


@dataclass(frozen=True)
class CostCase:
    """One engine on one dataset.

    data: Writes the dataset and returns its section of the config.
    workload: Section of the config.
    engine: ``spark``, ``beam``, ``submit`` for spark-submit with the code in an archive, or ``connect`` for a Spark
        Connect server, whose cost is that of one aggregation of a DataFrame.
    limit: Largest cost in costs of the local engine.
    largest_mb: Largest peak memory of the process tree in MB; None for no limit.
    mechanism: Section of the config.
    most_passes: Largest number of times that a release may read the data; None for no limit.
    repeats: Number of runs of each engine.
    """

    data: Callable[[Path], dict[str, Any]]
    workload: dict[str, Any]
    engine: str
    limit: float
    largest_mb: float | None = None
    mechanism: dict[str, Any] = field(default_factory=lambda: {"name": "gaussian"})
    most_passes: int | None = None
    repeats: int = 3


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


def baskets(clustered: bool) -> Callable[[Path], dict[str, Any]]:
    """100 million pairs of 480,189 users and 17,770 films, in 16 files by user: the size of Netflix."""

    def make(folder: Path) -> None:
        write_baskets(folder, users=USERS, films=FILMS, pairs=PAIRS, files=FILES, seed=1)

    def data(cache: Path) -> dict[str, Any]:
        folder = kept(cache, f"baskets-{USERS}x{FILMS}-{PAIRS}-seed1", make)
        return {"path": str(folder), "shape": "baskets", "unit": UNIT, "item": ITEM, "items": FILMS,
                "clustered_by_unit": clustered}  # fmt: skip

    return data


def wide_table(cache: Path) -> dict[str, Any]:
    """A million rows of 110 attributes with 2 to 8 values, which share a hidden cause; one row per unit, in 4 files."""
    sizes = [2 + number * 5 % 7 for number in range(WIDE)]

    def make(folder: Path) -> None:
        folder.mkdir(parents=True)
        draw, size = np.random.default_rng(3), WIDE_ROWS // 4
        for file in range(4):
            cause = draw.integers(0, 4, size)
            columns = {}
            for number, values in enumerate(sizes):
                follows = draw.random(size) < 0.4
                value = np.where(follows, (cause * (number % 5 + 1) + number) % values, draw.integers(0, values, size))
                columns[f"a{number:03}"] = value.astype(np.int16)
            person = np.arange(file * size, (file + 1) * size)
            pq.write_table(pa.table({"person": person, **columns}), folder / f"part-{file}.parquet")

    folder = kept(cache, f"table-{WIDE_ROWS}x{WIDE}", make)
    attributes = [
        {"name": f"a{number:03}", "type": "categorical", "values": list(range(values)), "other": False, "null": False}
        for number, values in enumerate(sizes)
    ]
    schema = cache / f"table-{WIDE_ROWS}x{WIDE}.schema.yaml"
    schema.write_text(yaml.safe_dump({"version": 1, "attributes": attributes}))
    return {"path": str(folder), "shape": "table", "unit": "person", "schema": str(schema), "clustered_by_unit": True}


MARGINALS = {"marginals": {"order": 3}}
TRIPLES = {"conjunctions": {"count": 500_000, "order": 3, "seed": 1}}
CASES = {
    "spark_table": CostCase(table(clustered=True), MARGINALS, "spark", 1.8),
    "spark_table_unclustered": CostCase(table(clustered=False), MARGINALS, "spark", 2.5),
    "spark_baskets": CostCase(baskets(clustered=True), TRIPLES, "spark", 1.6),
    "spark_baskets_archive": CostCase(baskets(clustered=True), TRIPLES, "submit", 2.0),
    "spark_baskets_unclustered": CostCase(baskets(clustered=False), TRIPLES, "spark", 2.5),
    "beam_table": CostCase(table(clustered=True), MARGINALS, "beam", 1.3),
    "beam_table_unclustered": CostCase(table(clustered=False), MARGINALS, "beam", 1.3, largest_mb=2048),
    "beam_baskets": CostCase(baskets(clustered=True), TRIPLES, "beam", 1.8),
    "connect_table": CostCase(table(clustered=False), MARGINALS, "connect", 2.5),
    # A small model and few rounds: they cost the driver the same on every engine, and hide what Spark costs.
    "wide_adaptive": CostCase(
        wide_table,
        {"marginals": {"order": 2}},
        "spark",
        2.0,
        most_passes=3,
        repeats=1,
        mechanism={"name": "aim", "rounds_per_attribute": 1, "max_model_mb": 2.0},
    ),
}


def cost(config: dict[str, Any], engine: str, work: str) -> dict[str, Any]:
    """CPU and wall seconds of one release or aggregation in a fresh folder, less those of the empty program."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        ledger = f"sqlite:///{folder}/ledger.db"
        SqlLedger(ledger).create_dataset(config["dataset"]["name"], 1.0, 1e-9)
        own = {**config, "privacy": {"epsilon": 1.0, "delta": 1e-9, "ledger": ledger}}
        (folder / "release.yaml").write_text(yaml.safe_dump(own))
        if engine != "connect":
            empty, full = _job(folder, engine, "--empty"), _job(folder, engine, work)
            return {**full, "empty": empty["cpu"], "cpu": full["cpu"] - empty["cpu"]}
        # As deploy/README.md has it for servers on which Marquee is installed.
        with connect_server(folder, {"spark.python.daemon.module": "pipelines.engines.spark_daemon"}) as remote:
            # The server is a child of this process, and so is the client: both count.
            before = process_tree.cpu_seconds()
            _job(folder, f"spark:{remote}", "--empty")
            between = process_tree.cpu_seconds()
            full = _job(folder, f"spark:{remote}", work)
            after = process_tree.cpu_seconds()
            return {**full, "empty": between - before, "cpu": (after - between) - (between - before)}


def _job(folder: Path, engine: str, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmarks.engine_job"]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    if engine == "submit":
        # The archive comes before everything else that can be imported.
        archive, engine = folder / "marquee.zip", "spark"
        write_archive(archive)
        spark = Path(pyspark.__file__).parent
        command = [str(spark / "bin" / "spark-submit"), "--master", "local[2]", "--py-files", str(archive)]
        command += ["--conf", "spark.ui.enabled=false", str(FOLDER / "engine_job.py")]
        environment |= {"JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    command += [str(folder / "release.yaml"), engine, *options]
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise SystemExit(finished.stderr)
    measured: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return measured


def measured(name: str, data: Path) -> dict[str, Any]:
    """The result of a case, as stored."""
    case = CASES[name]
    dataset = {"name": name, "snapshot": "1", **case.data(data)}
    config = {"dataset": dataset, "workload": case.workload, "mechanism": case.mechanism,
              "output": {"path": "out", "synthetic_rows": 0}}  # fmt: skip
    work = "--aggregate" if case.engine == "connect" else "--release"
    runs: dict[str, list[dict[str, Any]]] = {"local": [], case.engine: []}
    cost(config, "local", work)  # Compiles the kernels, once.
    for repeat in range(case.repeats):
        for engine in sorted(runs, reverse=bool(repeat % 2)):
            runs[engine].append(cost(config, engine, work))
    medians = {engine: median(run["cpu"] for run in found) for engine, found in runs.items()}
    return {
        "case": name,
        "commit": commit(ROOT),
        "machine": machine(),
        "runs": runs,
        "median_cpu_seconds": medians,
        "targets": _targets(case, runs, medians[case.engine] / medians["local"]),
    }


def _targets(case: CostCase, runs: dict[str, list[dict[str, Any]]], ratio: float) -> list[dict[str, Any]]:
    peak = max(run["peak_mb"] for run in runs[case.engine])
    kinds = len({run["counts"] for found in runs.values() for run in found})
    found: list[tuple[str, float, float | None]] = [
        (f"CPU of {case.engine} / local", ratio, case.limit),
        (f"peak MB of {case.engine}", peak, case.largest_mb),
        ("different exact counts", kinds, 1),
        ("passes over the data", max(run["passes"] for run in runs[case.engine]), case.most_passes),
    ]
    held = [(name, got, limit) for name, got, limit in found if limit is not None]
    return [{"name": name, "got": got, "limit": limit, "met": got <= limit} for name, got, limit in held]


def main(names: list[str], results: Path = FOLDER / "results", data: Path = FOLDER / "data") -> int:
    met = True
    for name in names or list(CASES):
        result = measured(name, data)
        (results / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")
        print(json.dumps({"case": name, **result["median_cpu_seconds"], "targets": result["targets"]}))
        met &= all(target["met"] for target in result["targets"])
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
