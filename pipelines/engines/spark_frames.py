"""Aggregation by DataFrames alone, with ``mapInArrow``: for frames as sources, and for sessions without RDDs.

Spark Connect and serverless Spark have neither RDDs nor broadcasts nor caches, so nothing here uses them. The tasks are
those of ``worker_tasks``. A row of a frame between two steps is a key and bytes: a bucket with rows or units of it, or
the number of a slice with counts.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pipelines.arrow import integers
from pipelines.engines import worker_tasks
from pipelines.engines.claim import Counted
from pipelines.engines.parts import Part
from pipelines.engines.spark_filter import prefiltered
from pipelines.engines.worker_tasks import Counts, TaskResult, Work
from pipelines.source import DataFile

T = TypeVar("T")

_KEYED = "key bigint, content binary"


def broken_units(session: SparkSession, work: Work, files: Sequence[DataFile], tasks: int) -> pa.Array | None:
    """The units with rows in more than one file; None if there are none. SENSITIVE.

    session: Any session.
    work: Arguments of every task.
    files: The files.
    tasks: Number of tasks that share the files.
    """
    if len(files) < 2:
        return None
    units = _spread(session, len(files), tasks).mapInArrow(partial(_split_units, work, files), _KEYED)
    broken = units.repartition(min(work.buckets, tasks), "key").mapInArrow(_find_broken, _KEYED)
    return worker_tasks.joined_units(bytes(row["content"]) for row in broken.collect())  # SENSITIVE


def count_files(session: SparkSession, work: Work, files: Sequence[DataFile], tasks: int) -> Counted:
    """The summed counts of files of whole units, and the ranges of their units. SENSITIVE.

    The arguments are those of ``broken_units``.
    """
    counted = _spread(session, len(files), tasks).mapInArrow(partial(_count_files, work, files), _KEYED)
    return _summed(counted, work, tasks)


def count_parts(session: SparkSession, work: Work, parts: Sequence[Part], tasks: int) -> Counts:
    """The summed counts of parts of files, whose rows are first brought to buckets of whole units. SENSITIVE.

    parts: Parts of all files.

    The other arguments are those of ``broken_units``.
    """
    return _count_pieces(
        _spread(session, len(parts), tasks).mapInArrow(partial(_split_parts, work, parts), _KEYED), work
    )


def count_rows(frame: DataFrame, work: Work) -> Counts:
    """The summed counts of the rows of a frame, which are first brought to buckets of whole units. SENSITIVE.

    frame: Rows with the columns of the layout and of its filter.
    work: Arguments of every task.
    """
    return _count_pieces(_selected(frame, work).mapInArrow(partial(_split_batches, work), _KEYED), work)


def read_buckets(frame: DataFrame, work: Work, task: Callable[[Iterable[pa.RecordBatch]], Counts]) -> Iterator[Counts]:
    """The results of another task than counting, over buckets of whole units. SENSITIVE.

    frame: Rows with the columns of the layout and of its filter.
    work: Its source and its number of buckets are used.
    task: Turns batches of whole units, and of rows without a unit, into counts.
    """
    pieces = _selected(frame, work).mapInArrow(partial(_split_batches, work, unitless=True), _KEYED)
    read = pieces.repartition(work.buckets, "key").mapInArrow(partial(_read_buckets, task), _KEYED)
    for row in read.collect():  # SENSITIVE
        yield np.frombuffer(row["content"], dtype=np.int64)


def _selected(frame: DataFrame, work: Work) -> DataFrame:
    """The columns of the layout and of its filter, without some of the rows that do not pass.

    Where the partitions of a unit must be known, all of its rows are needed, because no filter decides about them.
    """
    layout = work.source.layout
    columns = [frame[_quoted(column)] for column in layout.columns_to_read]
    checked = layout.partition is not None and layout.partition.is_checked
    return (frame if checked else prefiltered(frame, layout.where)).select(*columns)


def each(session: SparkSession, task: Callable[[T], bytes], items: Sequence[T], tasks: int) -> list[bytes]:
    """The results of a task for all items, in their order. SENSITIVE if they are.

    session: Any session.
    task: A function of one item.
    items: Its arguments.
    tasks: Number of tasks that share the items.
    """
    numbered = _spread(session, len(items), tasks).mapInArrow(partial(_each, task, items), _KEYED)
    results = ((row["key"], bytes(row["content"])) for row in numbered.collect())  # SENSITIVE
    return worker_tasks.in_order(results, len(items))


def _count_pieces(pieces: DataFrame, work: Work) -> Counts:
    counted = pieces.repartition(work.buckets, "key").mapInArrow(partial(_count_buckets, work), _KEYED)
    return _summed(counted, work, work.buckets)[0]


def _summed(counted: DataFrame, work: Work, tasks: int) -> Counted:
    """Sums the results of all tasks: on the driver if it is little, and otherwise slice by slice on the workers."""
    size = worker_tasks.bytes_of(work.aggregator)
    if tasks * size > worker_tasks.DRIVER_BYTES:
        counted = counted.repartition(max(1, min(tasks, size // worker_tasks.DRIVER_BYTES + 1)), "key")
        counted = counted.mapInArrow(partial(_sum_found, work), _KEYED)
    return worker_tasks.joined(work, (_result(row["key"], row["content"]) for row in counted.collect()))  # SENSITIVE


def _spread(session: SparkSession, count: int, tasks: int) -> DataFrame:
    """The numbers 0 .. count - 1, spread over tasks."""
    return session.range(0, count, 1, max(1, min(count, tasks)))


def _each(
    task: Callable[[T], bytes], items: Sequence[T], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for item in _chosen(list(enumerate(items)), batches):
        yield from _keyed([worker_tasks.numbered_result(task, item)])


def _split_units(work: Work, files: Sequence[DataFile], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for file in _chosen(files, batches):
        yield from _keyed(worker_tasks.split_units(work, file))


def _find_broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _, pieces in _by_key(batches):
        yield from _keyed((0, piece) for piece in worker_tasks.broken_units(pieces))


def _count_files(work: Work, files: Sequence[DataFile], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    chosen = _chosen(files, batches)
    yield from _sent(work, (result for file in chosen for result in worker_tasks.count_file(work, file)))


def _split_parts(work: Work, parts: Sequence[Part], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for part in _chosen(parts, batches):
        yield from _keyed(worker_tasks.split_rows(work, part))


def _split_batches(
    work: Work, batches: Iterator[pa.RecordBatch], *, unitless: bool = False
) -> Iterator[pa.RecordBatch]:
    yield from _keyed(worker_tasks.split_batches(work, batches, unitless=unitless))


def _read_buckets(
    task: Callable[[Iterable[pa.RecordBatch]], Counts], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for bucket, pieces in _by_key(batches):
        yield from _keyed((bucket, content) for content in worker_tasks.read_bucket(pieces, task))


def _count_buckets(work: Work, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from _sent(
        work, (result for _, pieces in _by_key(batches) for result in worker_tasks.count_bucket(work, pieces))
    )


def _sum_found(work: Work, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from _sent(work, (_result(key, content) for batch in batches for key, content in _rows(batch)))


def _sent(work: Work, results: Iterable[TaskResult]) -> Iterator[pa.RecordBatch]:
    """The results of a task, summed, as rows."""
    for number, part in worker_tasks.summed(work, results).items():
        yield from _keyed([(number, pickle.dumps(part) if isinstance(part, list) else part.tobytes())])


def _result(number: int, content: Any) -> TaskResult:
    return number, pickle.loads(content) if number == worker_tasks.RANGES else np.frombuffer(content, dtype=np.int64)


def _chosen(items: Sequence[T], batches: Iterable[pa.RecordBatch]) -> Iterator[T]:
    """The items whose numbers a task was given."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield items[number]


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[int, Any]]:
    contents = batch.column(1)
    for row, key in enumerate(batch.column(0).to_pylist()):
        yield key, contents[row].as_buffer()


def _by_key(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, list[Any]]]:
    """The contents of each key that a task was given."""
    rows = sorted((row for batch in batches for row in _rows(batch)), key=lambda row: row[0])
    for key, group in groupby(rows, key=lambda row: row[0]):
        yield key, [content for _, content in group]


def _keyed(rows: Iterable[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
    """One batch per row, so that a task never holds all of its output."""
    for key, content in rows:
        stops = integers(np.array([0, len(content)], dtype=np.int32)).buffers()[1]
        binary = pa.Array.from_buffers(pa.binary(), 1, [None, stops, pa.py_buffer(content)])
        yield pa.record_batch([integers(np.array([key], dtype=np.int64)), binary], names=["key", "content"])


def _quoted(column: str) -> str:
    """A column's name for Spark, in which a dot would name a field of a struct."""
    return f"`{column.replace('`', '``')}`"
