"""The local engine, which aggregates with threads of this process."""

from __future__ import annotations

import functools
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from pipelines.aggregators.item_sums import AnyAggregator
from pipelines.engines.accumulation import accumulate, split_by_unit, units_in_many_files, units_of_file
from pipelines.engines.claim import ClaimCheck, Counted, RangeSeen, UnitRange
from pipelines.engines.failures import without_values
from pipelines.engines.parts import Part, parts_of
from pipelines.engines.progress import told
from pipelines.source import AnySource, FrameSource, Source
from pipelines.source.batches import read_batches
from pipelines.source.frames import frame_batches, is_spark_frame

T = TypeVar("T")
R = TypeVar("R")

# More rows than this are split into shards of about this size, so that temporary arrays stay small.
_SHARD_ROWS = 2_000_000


@dataclass(frozen=True)
class LocalEngine:
    """Threads over files, row groups and shards of units.

    threads: Number of threads, at least 1. The default is one per core that this process may use. With clustered data,
        each thread holds one file in memory.
    rows_in_memory: Maximum number of rows in memory, at least 1, for data that are not clustered. More rows need
        several passes over the files. The default, 200 million, takes about 10 GB for a unit column of 8 bytes and ten
        columns of 4 bytes.
    """

    threads: int | None = None
    rows_in_memory: int = 200_000_000
    _claim: ClaimCheck = field(default_factory=ClaimCheck, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise ConfigError(f"engine threads is {self.threads}; want >= 1")
        if self.rows_in_memory < 1:
            raise ConfigError(f"engine rows_in_memory is {self.rows_in_memory}; want >= 1")

    @property
    def name(self) -> str:
        """Name of the engine, as in configs."""
        return "local"

    def reduce(self, source: AnySource, aggregator: AnyAggregator) -> NDArray[np.int64]:
        """The merged accumulator over all units, before ``extract``. SENSITIVE.

        Raises: InputError for unreadable files; EngineError for any other failure.
        """
        with without_values("the local engine"):
            if isinstance(source, FrameSource) or not source.layout.counted_by_file:
                task = functools.partial(accumulate, source=source, aggregator=aggregator)
                counted = functools.reduce(aggregator.merge, self.over_whole_units(source, task), aggregator.create())
            else:
                count = functools.partial(self._count_files, source, aggregator)
                counted = self._claim.counts(source, count, lambda: self.broken_units(source))
            # The driver needs the memory of the rows for its own tables.
            pa.default_memory_pool().release_unused()
            return counted

    def each(self, task: Callable[[T], bytes], items: Sequence[T]) -> list[bytes]:
        """The results of a task for all items, in their order. SENSITIVE if they are.

        Raises: The exceptions of ``Engine``.
        """
        with without_values("the local engine"), ThreadPoolExecutor(self._workers) as pool:
            return list(_mapped(pool, self._workers, task, items))

    def _count_files(self, source: Source, aggregator: AnyAggregator, dropped: pa.Array | None) -> Counted:
        """The counts of files of whole units, and the ranges of their units. SENSITIVE."""
        counts, ranges = aggregator.create(), []

        def count(batches: Iterable[pa.RecordBatch]) -> tuple[NDArray[np.int64], UnitRange | None]:
            seen = RangeSeen()
            return accumulate(seen.over(batches, source.layout.unit), source, aggregator, dropped), seen.range

        for file_counts, unit_range in self.over_whole_units(source, count):
            counts = aggregator.merge(counts, file_counts)
            ranges += [] if unit_range is None else [unit_range]
        return counts, ranges

    def broken_units(self, source: AnySource) -> pa.Array:
        """The units that contradict ``clustered_by_unit``; empty without this claim. SENSITIVE."""
        if isinstance(source, FrameSource) or len(source.files) == 1 or not source.layout.counted_by_file:
            return pa.nulls(0)
        with ThreadPoolExecutor(self._workers) as pool:
            return units_in_many_files(pool.map(functools.partial(units_of_file, source), source.files))

    def over_whole_units(self, source: AnySource, task: Callable[[Iterable[pa.RecordBatch]], R]) -> Iterator[R]:
        """Yields the results of ``task`` over groups of batches. A group holds whole units, each row once."""
        with ThreadPoolExecutor(self._workers) as pool:
            if isinstance(source, FrameSource):
                yield from self._over_frame(source, task, pool)
            elif source.layout.counted_by_file:
                read = _mapped(pool, self._workers, lambda file: task(read_batches(source, file)), source.files)
                yield from told(read, len(source.files))
            else:
                yield from self._over_shards(source, task, pool)

    def _over_shards(
        self, source: Source, task: Callable[[Iterable[pa.RecordBatch]], R], pool: ThreadPoolExecutor
    ) -> Iterator[R]:
        parts = parts_of(source)
        rows = sum(part.rows for part in parts)
        passes = math.ceil(rows / self.rows_in_memory) or 1
        shards_per_pass = 1 if rows <= _SHARD_ROWS else max(self._workers, math.ceil(rows / passes / _SHARD_ROWS))
        for number, first in enumerate(range(0, passes * shards_per_pass, shards_per_pass)):
            wanted = range(first, first + shards_per_pass)
            split = functools.partial(_split, source, passes * shards_per_pass, wanted)
            shards: list[list[pa.RecordBatch]] = [[] for _ in wanted]
            read = _mapped(pool, self._workers, split, parts)
            for split_part in told(read, passes * len(parts), number * len(parts)):
                for shard, batches in zip(shards, split_part, strict=True):
                    shard.extend(batches)
            yield from _mapped(pool, self._workers, task, shards)

    def _over_frame(
        self, source: FrameSource, task: Callable[[Iterable[pa.RecordBatch]], R], pool: ThreadPoolExecutor
    ) -> Iterator[R]:
        """As ``_over_shards``, for a stream of Arrow batches, which is read once."""
        if is_spark_frame(source.frame):
            raise ConfigError("the frame is a Spark DataFrame; want engine: {name: spark}")
        batches = list(frame_batches(source))
        rows = sum(batch.num_rows for batch in batches)
        if rows <= _SHARD_ROWS:
            yield task(batches)
            return
        wanted = range(max(self._workers, math.ceil(rows / _SHARD_ROWS)))
        whole = Source((), source.layout, source.salt)
        split = functools.partial(split_by_unit, source=whole, shards=len(wanted), unitless=True)
        shards = zip(*_mapped(pool, self._workers, split, batches), strict=True)
        yield from _mapped(pool, self._workers, task, map(list, shards))

    @property
    def _workers(self) -> int:
        allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        return self.threads or allowed or 1


def _split(source: Source, shards: int, wanted: range, part: Part) -> list[list[pa.RecordBatch]]:
    """Splits the batches of a part into the wanted shards."""
    batches = read_batches(source, part.file, part.row_groups)
    if shards == 1:
        return [list(batches)]
    split = [split_by_unit(batch, source, shards, wanted, unitless=True) for batch in batches]
    return [list(batches) for batches in zip(*split, strict=True)] or [[] for _ in wanted]


def _mapped(pool: ThreadPoolExecutor, ahead: int, task: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yields results in order, with at most ``ahead`` items in progress, which limits the memory."""
    running: deque[Future[R]] = deque()
    try:
        for item in items:
            if len(running) == ahead:
                yield running.popleft().result()
            running.append(pool.submit(task, item))
        while running:
            yield running.popleft().result()
    finally:
        for future in running:
            future.cancel()
