"""A release through spark-submit on a real standalone cluster of two workers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.engines.code_archive import write_archive
from tests.support.acceptance import AS_THEY_ARE, Arrangement, write_config
from tests.support.acceptance import answers as answers_of
from tests.support.datasets import ROOT
from tests.support.small_release import EXACT, answers, write_release
from tests.support.spark_cluster import SparkCluster, spark_cluster, tasks_by_worker

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The three packages as one archive for --py-files."""
    archive = tmp_path_factory.mktemp("packages") / "marquee.zip"
    write_archive(archive)
    return archive


@pytest.mark.full
@pytest.mark.parametrize(
    ("clustered", "archive"), [(True, True), (False, False)], ids=["clustered, --py-files", "shuffled, checkout"]
)
def test_both_workers_count_and_the_release_is_published(
    cluster: SparkCluster, packages: Path, tmp_path: Path, clustered: bool, archive: bool
) -> None:
    config = write_release(tmp_path, clustered=clustered)
    events = tmp_path / "events"
    events.mkdir()
    finished = cluster.submit(
        ROOT / "jobs" / "spark_release.py",
        ["--config", str(config), "--set", "dataset.snapshot=second"],
        py_files=packages if archive else None,
        events=events,
        cwd=tmp_path,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert answers(tmp_path) == EXACT
    assert (tmp_path / "out" / "_SUCCESS").exists()
    certificate = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert certificate["dataset"]["snapshot"] == "second"
    tasks = tasks_by_worker(events)
    assert len(tasks) == 2
    assert min(tasks.values()) >= 1


@pytest.mark.full
def test_real_datasets_give_the_bits_of_the_local_engine(cluster: SparkCluster, tmp_path: Path) -> None:
    arrangements = {
        "adult": Arrangement(3, clustered=False),
        "kdd99": Arrangement(16, clustered=True),
        "retail": Arrangement(3, clustered=False),
    }
    configs = [write_config(name, tmp_path, "spark-submit", chosen) for name, chosen in arrangements.items()]
    events, result = tmp_path / "events", tmp_path / "result.json"
    events.mkdir()
    script = ROOT / "tests" / "support" / "submitted_statistics.py"
    finished = cluster.submit(script, [str(result), *map(str, configs)], py_files=None, events=events, cwd=tmp_path)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    here = [answers_of(write_config(name, tmp_path, "local", AS_THEY_ARE)).tobytes() for name in arrangements]
    assert json.loads(result.read_text()) == [hashlib.sha256(bits).hexdigest() for bits in here]
    assert len(tasks_by_worker(events)) == 2


def test_the_exit_code_of_a_refusal_passes_through(cluster: SparkCluster, tmp_path: Path) -> None:
    config = write_release(tmp_path, clustered=True)
    (tmp_path / "ledger.db").unlink()
    events = tmp_path / "events"
    events.mkdir()
    script = ROOT / "jobs" / "spark_release.py"
    finished = cluster.submit(script, ["--config", str(config)], py_files=None, events=events, cwd=tmp_path)
    assert finished.returncode == 4
    assert "marquee budget create" in finished.stdout + finished.stderr
    assert not (tmp_path / "out").exists()
