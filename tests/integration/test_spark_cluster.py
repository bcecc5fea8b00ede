"""A release through spark-submit on a real standalone cluster of two workers."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from jobs.ledger import SqlLedger
from tests.support.datasets import ROOT
from tests.support.spark_cluster import SparkCluster, spark_cluster, tasks_by_worker

pytestmark = [pytest.mark.spark, pytest.mark.slow]

UNITS = 3000
# So much that the discrete Laplace noise is zero but for a chance below 1e-40: answers are exact counts.
EPSILON = 100.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The three packages as one archive for --py-files."""
    archive = tmp_path_factory.mktemp("packages") / "marquee.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for package in ("dpcore", "pipelines", "jobs"):
            for path in sorted((ROOT / package).rglob("*.py")):
                file.write(path, path.relative_to(ROOT))
    return archive


def write_release(folder: Path, *, clustered: bool) -> tuple[Path, list[int]]:
    """Data in four files, a schema, a ledger and a config; and the exact counts of its one attribute."""
    units = np.repeat(np.arange(UNITS), 2)
    colours = np.random.default_rng(1).choice(["red", "green", "blue"], UNITS, p=[0.5, 0.3, 0.2])
    rows = pa.table({"person": units, "colour": np.repeat(colours, 2)})
    order = np.arange(2 * UNITS) if clustered else np.random.default_rng(2).permutation(2 * UNITS)
    (folder / "data").mkdir()
    for number, part in enumerate(np.array_split(order, 4)):
        pq.write_table(rows.take(part), folder / "data" / f"{number}.parquet")
    attribute = {"name": "colour", "type": "categorical", "values": ["red", "green", "blue"]}
    (folder / "schema.yaml").write_text(yaml.safe_dump({"version": 1, "attributes": [attribute]}))
    ledger = f"sqlite:///{folder / 'ledger.db'}"
    SqlLedger(ledger).create_dataset("paint", EPSILON, 0.0)
    config = {
        "dataset": {
            "name": "paint",
            "snapshot": "first",
            "path": str(folder / "data"),
            "shape": "table",
            "unit": "person",
            "schema": "schema.yaml",
            "clustered_by_unit": clustered,
        },
        "privacy": {"epsilon": EPSILON, "delta": 0.0, "ledger": ledger},
        "workload": {"marginals": {"order": 1}},
        "mechanism": {"name": "laplace"},
        "engine": {"name": "spark", "options": {"partitions": 4}},
        "output": {"path": str(folder / "out")},
    }
    (folder / "paint.yaml").write_text(yaml.safe_dump(config))
    return folder / "paint.yaml", [int((colours == colour).sum()) for colour in ("red", "green", "blue")]


@pytest.mark.parametrize(
    ("clustered", "archive"), [(True, True), (False, False)], ids=["clustered, --py-files", "shuffled, checkout"]
)
def test_both_workers_count_and_the_release_is_published(
    cluster: SparkCluster, packages: Path, tmp_path: Path, clustered: bool, archive: bool
) -> None:
    config, exact = write_release(tmp_path, clustered=clustered)
    events = tmp_path / "events"
    events.mkdir()
    finished = cluster.submit(
        ROOT / "jobs" / "spark_release.py",
        ["--config", str(config)],
        py_files=packages if archive else None,
        events=events,
        cwd=tmp_path,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert pq.read_table(tmp_path / "out" / "answers.parquet")["answer"].to_pylist()[:3] == exact
    assert (tmp_path / "out" / "_SUCCESS").exists()
    tasks = tasks_by_worker(events)
    assert len(tasks) == 2
    assert min(tasks.values()) >= 1


def test_the_exit_code_of_a_refusal_passes_through(cluster: SparkCluster, tmp_path: Path) -> None:
    config, _ = write_release(tmp_path, clustered=True)
    (tmp_path / "ledger.db").unlink()
    events = tmp_path / "events"
    events.mkdir()
    script = ROOT / "jobs" / "spark_release.py"
    finished = cluster.submit(script, ["--config", str(config)], py_files=None, events=events, cwd=tmp_path)
    assert finished.returncode == 4
    assert "marquee budget create" in finished.stdout + finished.stderr
    assert not (tmp_path / "out").exists()
