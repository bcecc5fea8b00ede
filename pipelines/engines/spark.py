"""The Spark engine: one task per file of whole units, or rows shuffled by unit. Spark also sums the counts.

The tasks themselves are in ``worker_tasks``. They read Parquet with the same code as every other engine and not with
Spark's reader, whose types differ (it has no unsigned integers, and its own timestamps). The tasks are deterministic,
because Spark may run any task more than once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypeVar, final

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.core.broadcast import Broadcast
from pyspark.core.rdd import RDD
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dpcore.errors import ConfigError, EngineError
from pipelines.aggregators.protocol import Aggregator
from pipelines.engines import worker_tasks
from pipelines.engines.failures import failure, without_values
from pipelines.engines.java import find_java
from pipelines.engines.parts import Part, parts_of
from pipelines.engines.worker_tasks import Counts, Slice, Work
from pipelines.source import DataFile, Source

T = TypeVar("T")


def open_session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """The active session, or else a new one on the configured master (local[*] outside a cluster).

    settings: Spark settings of a new session, by name.

    Raises: EngineError when there is no Java, or Spark does not start.
    """
    if session := SparkSession.getActiveSession():
        return session
    # Under spark-submit the JVM is already running; otherwise this process starts it.
    if "PYSPARK_GATEWAY_PORT" not in os.environ and SparkContext._gateway is None:
        os.environ["JAVA_HOME"] = str(find_java().home)
    # Spark's default is the `python3` on PATH, which may lack the packages of this process.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        return SparkSession.builder.config(map={**_checkout(), **(settings or {})}).getOrCreate()
    except (Py4JError, PySparkException, OSError) as error:
        raise EngineError(f"Spark does not start ({type(error).__name__}); see its own log for the reason") from None


def _checkout() -> dict[str, str]:
    """The setting that lets workers import a checkout, if this code runs from one."""
    root = Path(__file__).parents[2]
    return {"spark.executorEnv.PYTHONPATH": str(root)} if (root / "pyproject.toml").is_file() else {}


@final
class SparkEngine:
    """Sums an aggregator on the executors of one Spark session.

    session: A classic session, because Spark Connect has no RDDs.
    partitions: Number of buckets of units, at least 1. The default is about one per million rows.

    Raises: EngineError for a session of Spark Connect; ConfigError when partitions is below 1.
    """

    name = "spark"

    def __init__(self, session: SparkSession, partitions: int | None = None) -> None:
        if not isinstance(getattr(session, "_sc", None), SparkContext):
            raise EngineError(
                "the session is one of Spark Connect; want a classic session, such as spark-submit creates"
            )
        if partitions is not None and partitions < 1:
            raise ConfigError(f"engine partitions is {partitions}; want >= 1")
        self._context = session.sparkContext
        self._partitions = partitions

    def reduce(self, source: Source, aggregator: Aggregator) -> Counts:
        """The merged accumulator over all units, before ``extract``. SENSITIVE.

        Raises: The exceptions of ``Engine``.
        """
        with without_values("Spark's driver"):
            try:
                with ExitStack() as broadcasts:
                    count = self._clustered if source.layout.clustered_by_unit else self._unclustered
                    return count(source, aggregator, broadcasts)
            except (Py4JError, PySparkException) as error:
                raise failure("Spark", str(error)) from None

    def _clustered(self, source: Source, aggregator: Aggregator, broadcasts: ExitStack) -> Counts:
        buckets = worker_tasks.buckets_for_files(len(source.files), self._context.defaultParallelism)
        work = self._broadcast(Work(source, aggregator, self._partitions or buckets), broadcasts)
        files = self._context.parallelize(source.files, len(source.files))
        broken: list[bytes] = []
        if len(source.files) > 1:
            units_by_bucket = files.flatMap(partial(_split_units, work)).groupByKey(work.value.buckets)
            broken = units_by_bucket.flatMap(_broken_units).collect()  # SENSITIVE
        dropped = self._broadcast(worker_tasks.joined_units(broken), broadcasts)
        return self._summed(files.flatMap(partial(_count_file, work, dropped)), work)

    def _unclustered(self, source: Source, aggregator: Aggregator, broadcasts: ExitStack) -> Counts:
        parts = parts_of(source)
        rows = sum(part.rows for part in parts)
        buckets = self._partitions or worker_tasks.buckets_for(rows, self._context.defaultParallelism)
        work = self._broadcast(Work(source, aggregator, buckets), broadcasts)
        pieces = self._context.parallelize(parts, max(len(parts), 1)).flatMap(partial(_split_rows, work))
        slices = pieces.partitionBy(buckets, _identity).mapPartitions(partial(_count_bucket, work))
        return self._summed(slices, work)

    def _summed(self, slices: RDD[Slice], work: Broadcast[Work]) -> Counts:
        summed = slices.reduceByKey(partial(_merged, work), self._context.defaultParallelism).collect()  # SENSITIVE
        return worker_tasks.joined_counts(work.value.aggregator, summed)

    def _broadcast(self, value: T, broadcasts: ExitStack) -> Broadcast[T]:
        """Sends a value once to each executor instead of with each task. It is removed when ``broadcasts`` closes."""
        broadcast = self._context.broadcast(value)
        broadcasts.callback(broadcast.destroy)
        return broadcast


def _split_units(work: Broadcast[Work], file: DataFile) -> Iterator[tuple[int, bytes]]:
    return worker_tasks.split_units(work.value, file)


def _broken_units(bucket: tuple[int, Iterable[bytes]]) -> Iterator[bytes]:
    return worker_tasks.broken_units(bucket[1])


def _count_file(work: Broadcast[Work], dropped: Broadcast[pa.Array | None], file: DataFile) -> Iterator[Slice]:
    return worker_tasks.count_file(work.value, dropped.value, file)


def _split_rows(work: Broadcast[Work], part: Part) -> Iterator[tuple[int, bytes]]:
    return worker_tasks.split_rows(work.value, part)


def _count_bucket(work: Broadcast[Work], pieces: Iterable[tuple[int, bytes]]) -> Iterator[Slice]:
    return worker_tasks.count_bucket(work.value, (rows for _, rows in pieces))


def _merged(work: Broadcast[Work], left: Counts, right: Counts) -> Counts:
    return worker_tasks.merged(work.value, left, right)


def _identity(bucket: int) -> int:
    return bucket
