"""One part of the synthetic rows as a task, which any process can do alone, and the threads that do all of them here.

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
from typing import BinaryIO, Protocol, final

from dpcore.errors import ConfigError
from dpcore.estimation.model import RoundedRows
from dpcore.estimation.row_partitions import partition_rows
from pipelines.generate.row_files import part_name, rows_table, write_file
from pipelines.layout import Layout


@final
@dataclass(frozen=True, eq=False)
class RowsTask:
    """Everything that a worker needs for any part of the rows. Public.

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

    def write(self, part: int, file: Path | BinaryIO) -> None:
        """Writes one part as a Parquet file; equal tasks give equal rows on every machine."""
        rows = partition_rows(self.rounded, self.size, self.seed, part)
        write_file(rows_table(rows, self.units_before(part), self.layout), self.layout, file)

    def content(self, part: int) -> bytes:
        """The content of the Parquet file of one part."""
        file = io.BytesIO()
        self.write(part, file)
        return file.getvalue()


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

        def write_part(part: int) -> None:
            task.write(part, folder / part_name(part))

        with ThreadPoolExecutor(self.threads or len(os.sched_getaffinity(0))) as pool:
            for part, _ in enumerate(pool.map(write_part, range(task.parts))):
                yield part + 1
