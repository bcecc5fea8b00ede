"""The Spark engine's own behaviour: its partitions, its failures and its session."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from dpcore.errors import ConfigError, EngineError, InputError
from pipelines.aggregators import aggregator_for
from pipelines.aggregators.protocol import Aggregator
from pipelines.engines import worker_tasks
from pipelines.engines.local import LocalEngine
from pipelines.engines.spark import SparkEngine, open_session
from pipelines.source import Source, open_source
from tests.support import engine_cases, engines
from tests.support.engine_cases import SALT
from tests.support.quoting import SECRET, Quoting

PLACE = r"^a task failed with ValueError at pipelines/engines/accumulation\.py:\d+$"
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session() -> SparkSession:
    engines.spark_engine()
    return open_session()


@pytest.fixture(params=[True, False], ids=["clustered", "shuffled"])
def task(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Source, Aggregator]:
    case = engine_cases.messy_table()
    layout = case.clustered() if request.param else case.layout
    engine_cases.write(case.rows, tmp_path, 3)
    return open_source(str(tmp_path), layout, SALT), aggregator_for(case.requests[0], layout)


@pytest.mark.parametrize("partitions", [1, 5])
def test_partitions_do_not_change_a_bit(
    session: SparkSession, task: tuple[Source, Aggregator], partitions: int
) -> None:
    np.testing.assert_array_equal(SparkEngine(session, partitions).reduce(*task), LocalEngine(1).reduce(*task))


@pytest.mark.parametrize("partitions", [1, 20])
def test_executors_sum_what_is_too_much_for_the_driver(
    session: SparkSession, task: tuple[Source, Aggregator], partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_tasks, "DRIVER_BYTES", 0)
    np.testing.assert_array_equal(SparkEngine(session, partitions).reduce(*task), LocalEngine(1).reduce(*task))


def test_a_failed_task_quotes_no_value(session: SparkSession, task: tuple[Source, Aggregator]) -> None:
    with pytest.raises(EngineError, match=PLACE) as caught:
        SparkEngine(session).reduce(task[0], Quoting())
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_damaged_file_is_named(session: SparkSession, task: tuple[Source, Aggregator]) -> None:
    source, aggregator = task
    path = Path(source.paths[1])
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"^{path} .*; it is damaged or truncated: want a whole file$"):
        SparkEngine(session).reduce(source, aggregator)


def test_there_is_one_session(session: SparkSession) -> None:
    assert open_session({"spark.app.name": "another"}) is session


def _parent(_: object) -> str:
    return Path(f"/proc/{os.getppid()}/cmdline").read_text()


def test_workers_are_forked_from_a_daemon_that_has_this_code(session: SparkSession) -> None:
    (command,) = set(session.sparkContext.parallelize(range(2), 2).map(_parent).collect())
    assert "pipelines.engines.spark_daemon" in command.split("\0")


def test_no_partition_is_refused(session: SparkSession) -> None:
    with pytest.raises(ConfigError, match="engine partitions is 0; want >= 1"):
        SparkEngine(session, 0)
