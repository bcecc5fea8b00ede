"""Parts of the synthetic rows as tasks, which any process can do alone, and the threads that do all of them here.

``spark_rows`` and ``beam_rows`` do the same tasks on workers. A task holds public values only: counts that were rounded
from a model, the layout, and a seed.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, final

import pyarrow as pa

from dpcore.errors import ConfigError
from dpcore.estimation.model import RoundedRows
from dpcore.estimation.row_partitions import partition_rows
from pipelines.generate.row_files import part_name, rows_table, write_file
from pipelines.layout import Layout

_RUN: Final = 4  # Parts that one worker makes one after the other.


@final
@dataclass(frozen=True, eq=False)
class RowsTask:
    """Everything that a worker needs for any parts of the rows. Public.

    rounded: The counts of all rows.
    layout: The public layout of the data.
    size: Number of units of each part but the last, at least 1.
    seed: Public seed.
    """

    rounded: RoundedRows
    layout: Layout
    size: int
    seed: int

    @property
    def parts(self) -> int:
        """Number of parts."""
        return -(-self.rounded.units // self.size)

    def units_before(self, part: int) -> int:
        """Number of units in all parts before this one; for ``part`` = ``parts``, the number of all units."""
        return min(self.rounded.units, part * self.size)

    def runs(self, workers: int | None = None) -> list[range]:
        """The parts in runs of up to ``_RUN``, which one worker makes faster than single parts.

        workers: Number of workers; runs are short enough that each gets one. Unknown when None.
        """
        length = _RUN if workers is None else max(1, min(_RUN, self.parts // workers))
        return [range(first, min(first + length, self.parts)) for first in range(0, self.parts, length)]

    def tables(self, run: range) -> Iterator[tuple[int, pa.Table]]:
        """Yields some consecutive parts with their numbers; equal tasks give equal rows on every machine."""
        made = partition_rows(self.rounded, self.size, self.seed, run.start, run.stop)
        for part, rows in zip(run, made, strict=True):
            yield part, rows_table(rows, self.units_before(part), self.layout)

    def contents(self, run: range) -> Iterator[tuple[int, bytes]]:
        """Yields the content of the Parquet file of some consecutive parts, with their numbers."""
        for part, table in self.tables(run):
            file = io.BytesIO()
            write_file(table, self.layout, file)
            yield part, file.getvalue()


class RowWorkers(Protocol):
    """Who does the tasks. The rows never depend on it."""

    def write(self, task: RowsTask, folder: Path) -> Iterator[int]:
        """Writes every part to ``folder``, which exists, as ``part_name`` names it.

        Yields: Now and then, the number of parts that are written.
        """
        ...


@final
@dataclass(frozen=True)
class LocalRowWorkers:
    """Threads of this process.

    threads: Number of threads, at least 1; each has one part in memory. The default is one per core that this process
        may use.
    """

    threads: int | None = None

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise ConfigError(f"engine threads is {self.threads}; want >= 1")

    def write(self, task: RowsTask, folder: Path) -> Iterator[int]:
        """See ``RowWorkers``."""

        def write_run(run: range) -> int:
            for part, table in task.tables(run):
                write_file(table, task.layout, folder / part_name(part))
            return run.stop

        threads = self.threads or len(os.sched_getaffinity(0))
        with ThreadPoolExecutor(threads) as pool:
            yield from pool.map(write_run, task.runs(threads))
