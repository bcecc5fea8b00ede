# py4j has no annotations.
# mypy: disable-error-code="import-untyped"
"""The Spark engine: classic sessions read files with RDDs; Spark Connect, and every frame, use ``spark_frames``.

The tasks themselves are in ``worker_tasks``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar, final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dpcore.errors import ConfigError
from pipelines.aggregators.item_sums import AnyAggregator
from pipelines.aggregators.units import Units
from pipelines.engines import spark_frames, worker_tasks
from pipelines.engines.claim import ClaimCheck, Counted
from pipelines.engines.failures import failure, without_values
from pipelines.engines.parts import Part, parts_of
from pipelines.engines.spark_session import context_of, open_session, send_packages
from pipelines.engines.worker_tasks import Counts, SlicePart, TaskResult, Work
from pipelines.source import AnySource, DataFile, FrameSource, Source
from pipelines.source.frames import is_spark_frame

if TYPE_CHECKING:  # Spark 3.5 has these types in other modules.
    from pyspark.core.broadcast import Broadcast
    from pyspark.core.rdd import RDD

__all__ = ["SparkEngine", "open_session"]

T = TypeVar("T")

# Tasks of a Spark Connect server, whose number of cores a client cannot ask for.
_TASKS = 16
# Each task sends its counts to the driver or a shuffle, whatever the number of its files.
_TASKS_PER_CORE = 3


@final
class SparkEngine:
    """Sums an aggregator on the executors of one Spark session.

    session: A classic session, or one of Spark Connect. Workers of a Spark Connect server get this project's code.
    partitions: Number of buckets of units, at least 1. The default is about one per million rows.

    Raises: ConfigError when partitions is below 1; EngineError when a Spark Connect server refuses the code.
    """

    name = "spark"

    def __init__(self, session: SparkSession, partitions: int | None = None) -> None:
        if partitions is not None and partitions < 1:
            raise ConfigError(f"engine partitions is {partitions}; want >= 1")
        self._session = session
        self._context = context_of(session)
        self._partitions = partitions
        self._claim = ClaimCheck()
        if self._context is None:
            send_packages(session)

    def reduce(self, source: AnySource, aggregator: AnyAggregator) -> Counts:
        """The merged accumulator over all units, before ``extract``. SENSITIVE.

        Raises: The exceptions of ``Engine``.
        """
        with without_values("Spark's driver"):
            try:
                with ExitStack() as cleanup:
                    if self._context is not None:
                        self._context.setJobDescription(f"marquee: {_described(source)}")
                        cleanup.callback(self._context.setJobDescription, None)  # type: ignore[arg-type]
                    if isinstance(source, FrameSource):
                        return self._of_frame(source, aggregator)
                    if self._context is None:
                        return self._by_frames(source, aggregator)
                    files = _Files(self._context, self._partitions, self._claim, cleanup)
                    count = files.clustered if source.layout.counted_by_file else files.unclustered
                    return count(source, aggregator)
            except (Py4JError, PySparkException) as error:
                raise failure("Spark", str(error)) from None

    def each(self, task: Callable[[T], bytes], items: Sequence[T]) -> list[bytes]:
        """The results of a task for all items, in their order. SENSITIVE if they are.

        Raises: The exceptions of ``Engine``.
        """
        with without_values("Spark's driver"):
            try:
                if self._context is None:
                    return spark_frames.each(self._session, task, items, self._tasks)
                with ExitStack() as cleanup:
                    self._context.setJobDescription("marquee: count new or changed files")
                    cleanup.callback(self._context.setJobDescription, None)  # type: ignore[arg-type]
                    sent = self._context.broadcast(task)
                    cleanup.callback(sent.destroy)
                    numbered = self._context.parallelize(list(enumerate(items)), max(len(items), 1))
                    results = numbered.map(partial(_numbered_result, sent)).collect()  # SENSITIVE
                    return worker_tasks.in_order(results, len(items))
            except (Py4JError, PySparkException) as error:
                raise failure("Spark", str(error)) from None

    def over_whole_units(
        self, source: AnySource, task: Callable[[Iterable[pa.RecordBatch]], Counts]
    ) -> Iterator[Counts]:
        """Yields the results of ``task`` over groups of batches of a DataFrame. A group holds whole units.

        Raises: The exceptions of ``Engine``; ConfigError for files, which the local engine reads.
        """
        if not isinstance(source, FrameSource):
            raise ConfigError("the data are files; want the local engine to inspect them")
        with without_values("Spark's driver"):
            try:
                yield from spark_frames.read_buckets(source.frame, self._frame_work(source, Units(1)), task)
            except (Py4JError, PySparkException) as error:
                raise failure("Spark", str(error)) from None

    def broken_units(self, _: AnySource) -> pa.Array:
        """The units that contradict ``clustered_by_unit``: none, because frames make no such claim."""
        return pa.nulls(0)

    def _of_frame(self, source: FrameSource, aggregator: AnyAggregator) -> Counts:
        return spark_frames.count_rows(source.frame, self._frame_work(source, aggregator))

    def _frame_work(self, source: FrameSource, aggregator: AnyAggregator) -> Work:
        if not is_spark_frame(source.frame):
            raise ConfigError("the frame is no Spark DataFrame; want engine: {name: local}, or a Spark DataFrame")
        rows = source.rows  # SENSITIVE
        if rows is None:
            rows = 0 if self._partitions else source.frame.count()
        buckets = self._partitions or worker_tasks.buckets_for(rows, self._tasks)
        return Work(Source((), source.layout, source.salt), aggregator, buckets)

    def _by_frames(self, source: Source, aggregator: AnyAggregator) -> Counts:
        tasks, bare = self._tasks, replace(source, files=())
        if source.layout.counted_by_file:
            buckets = self._partitions or worker_tasks.buckets_for_files(len(source.files), tasks)
            work = Work(bare, aggregator, buckets)
            return self._claim.counts(
                source,
                lambda dropped: spark_frames.count_files(
                    self._session, replace(work, dropped=dropped), source.files, tasks
                ),
                lambda: spark_frames.broken_units(self._session, work, source.files, tasks),
            )
        parts = parts_of(source)
        buckets = self._partitions or worker_tasks.buckets_for(sum(part.rows for part in parts), tasks)
        return spark_frames.count_parts(self._session, Work(bare, aggregator, buckets), parts, tasks)

    @property
    def session(self) -> SparkSession:
        """The session."""
        return self._session

    @property
    def _tasks(self) -> int:
        """Number of tasks that run at once, as far as it is known."""
        return _TASKS if self._context is None else self._context.defaultParallelism


class _Files:
    """Files on a classic session, with RDDs: one task per file of whole units, or a shuffle of serialised rows.

    context: The context of the session.
    partitions: Number of buckets of units; None for about one per million rows.
    claim: Knows which units of the last source break the claim of clustered files.
    broadcasts: Removes what was sent to the executors when it closes.
    """

    def __init__(self, context: SparkContext, partitions: int | None, claim: ClaimCheck, broadcasts: ExitStack) -> None:
        self._context = context
        self._claim = claim
        self._partitions = partitions
        self._broadcasts = broadcasts

    def clustered(self, source: Source, aggregator: AnyAggregator) -> Counts:
        buckets = worker_tasks.buckets_for_files(len(source.files), self._context.defaultParallelism)
        work = Work(replace(source, files=()), aggregator, self._partitions or buckets)
        tasks = min(len(source.files), _TASKS_PER_CORE * self._context.defaultParallelism)
        files = self._context.parallelize(source.files, tasks)

        def count(dropped: pa.Array | None) -> Counted:
            sent = self._broadcast(replace(work, dropped=dropped))
            return self._summed(files.flatMap(partial(_count_file, sent)), sent, tasks)

        def find() -> pa.Array | None:
            self._context.setJobDescription("marquee: find units with rows in several files")
            units_by_bucket = files.flatMap(partial(_split_units, self._broadcast(work))).groupByKey(work.buckets)
            return worker_tasks.joined_units(units_by_bucket.flatMap(_broken_units).collect())  # SENSITIVE

        return self._claim.counts(source, count, find)

    def unclustered(self, source: Source, aggregator: AnyAggregator) -> Counts:
        parts = parts_of(source)
        rows = sum(part.rows for part in parts)
        buckets = self._partitions or worker_tasks.buckets_for(rows, self._context.defaultParallelism)
        work = self._broadcast(Work(replace(source, files=()), aggregator, buckets))
        pieces = self._context.parallelize(parts, max(len(parts), 1)).flatMap(partial(_split_rows, work))
        slices = pieces.partitionBy(buckets, _identity).mapPartitions(partial(_count_bucket, work))
        return self._summed(slices, work, buckets)[0]

    def _summed(self, slices: RDD[TaskResult], work: Broadcast[Work], tasks: int) -> Counted:
        """Sums the results of all tasks: on the driver if it is little, and otherwise slice by slice on executors.

        tasks: Number of tasks. Each executor first sums those of many tasks, because each sends a whole accumulator.
        """
        slices = slices.mapPartitions(partial(_summed_in_task, work))
        if tasks * worker_tasks.bytes_of(work.value.aggregator) > worker_tasks.DRIVER_BYTES:
            if tasks > (enough := _TASKS_PER_CORE * self._context.defaultParallelism):
                slices = slices.coalesce(enough).mapPartitions(partial(_summed_in_task, work))
            slices = slices.reduceByKey(partial(_joined_parts, work), self._context.defaultParallelism)
        return worker_tasks.joined(work.value, slices.collect())  # SENSITIVE

    def _broadcast(self, value: T) -> Broadcast[T]:
        """Sends a value once to each executor instead of with each task. It is removed at the end."""
        broadcast = self._context.broadcast(value)
        self._broadcasts.callback(broadcast.destroy)
        return broadcast


def _described(source: AnySource) -> str:
    """What an operator reads on Spark's pages about the jobs of an aggregation."""
    if isinstance(source, FrameSource) or not source.layout.counted_by_file:
        return "bring the rows of each unit together, and count them"
    return "count files of whole units"


def _numbered_result(task: Broadcast[Callable[[T], bytes]], item: tuple[int, T]) -> tuple[int, bytes]:
    return worker_tasks.numbered_result(task.value, item)


def _split_units(work: Broadcast[Work], file: DataFile) -> Iterator[tuple[int, bytes]]:
    return worker_tasks.split_units(work.value, file)


def _broken_units(bucket: tuple[int, Iterable[bytes]]) -> Iterator[bytes]:
    return worker_tasks.broken_units(bucket[1])


def _count_file(work: Broadcast[Work], file: DataFile) -> Iterator[TaskResult]:
    return worker_tasks.count_file(work.value, file)


def _split_rows(work: Broadcast[Work], part: Part) -> Iterator[tuple[int, bytes]]:
    return worker_tasks.split_rows(work.value, part)


def _count_bucket(work: Broadcast[Work], pieces: Iterable[tuple[int, bytes]]) -> Iterator[TaskResult]:
    return worker_tasks.count_bucket(work.value, (rows for _, rows in pieces))


def _summed_in_task(work: Broadcast[Work], results: Iterable[TaskResult]) -> Iterable[TaskResult]:
    return worker_tasks.summed(work.value, results).items()


def _joined_parts(work: Broadcast[Work], left: SlicePart, right: SlicePart) -> SlicePart:
    return worker_tasks.joined_parts(work.value, left, right)


def _identity(bucket: int) -> int:
    return bucket
