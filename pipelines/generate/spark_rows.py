"""Synthetic rows on the executors of a Spark session, one task per part.

The tasks use nothing but DataFrames, so that they also run on Spark Connect.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final, final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession

from dpcore.errors import EngineError
from pipelines.engines.failures import guarded
from pipelines.generate.parallel_rows import RowsTask
from pipelines.generate.row_files import part_name

_BYTES_IN_MEMORY: Final = 256 << 20  # Of files that are on their way to the driver: below spark.driver.maxResultSize.
_LARGEST_WAVE: Final = 256  # Parts of one Spark job, after which there is progress.
_MARK: Final = "mark"
_RESULT: Final = "part long, bytes long, content binary"
_RESULT_IN_ARROW: Final = pa.schema([("part", pa.int64()), ("bytes", pa.int64()), ("content", pa.binary())])


@final
class SparkRowWorkers:
    """Executors of one Spark session, classic or of Spark Connect.

    Executors that see the driver's folder, as on one machine or a shared file system, write their files beside it. The
    others return them, and the driver writes them; the parts of one job then take at most 256 MiB, or are a single one.

    session: The session.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def write(self, task: RowsTask, folder: Path) -> Iterator[int]:
        """See ``RowWorkers``.

        Raises: EngineError when Spark does not finish.
        """
        # A task that Spark has given up may still write. What it writes stays outside the folder.
        scratch = Path(mkdtemp(prefix=".rows-", dir=folder.parent))
        try:
            mark = uuid4().hex
            (scratch / _MARK).write_text(mark)
            made, wave = 0, 1  # The first job, of one part, shows how large a part is.
            while made < task.parts:
                parts = range(made, min(made + wave, task.parts))
                sizes = [self._move(scratch, folder, *row) for row in self._made(task, str(scratch), mark, parts)]
                if len(sizes) != len(parts):
                    raise EngineError(f"Spark returned {len(sizes)} of {len(parts)} parts of the synthetic rows")
                made = parts.stop
                wave = min(_LARGEST_WAVE, max(1, _BYTES_IN_MEMORY // max(sizes)))
                yield made
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _made(self, task: RowsTask, scratch: str, mark: str, parts: range) -> list[Any]:
        """One row per part: its number, the size of its file, and the file's content unless it was written."""
        tasks = sum(run.start in parts for run in task.runs()) or 1  # Spark gives each task consecutive numbers.
        frame = self._session.range(parts.start, parts.stop, 1, tasks)
        try:
            return frame.mapInArrow(_task(task, scratch, mark), _RESULT).collect()
        except Exception as error:  # noqa: BLE001 - those of py4j, of a client without it, and of its transport
            raise EngineError(
                f"Spark did not finish the synthetic rows ({type(error).__name__}); see its own log for the reason"
            ) from None

    @staticmethod
    def _move(scratch: Path, folder: Path, part: int, size: int, content: bytes | None) -> int:
        """Moves or writes the file of one part into the folder; returns its size in bytes."""
        path = scratch / part_name(part)
        if content is not None:
            path.write_bytes(content)
        if not path.exists() or path.stat().st_size != size:
            raise EngineError(f"a Spark task wrote {path}, but the driver does not see all {size:,} bytes of it")
        os.replace(path, folder / path.name)
        return size


def _task(task: RowsTask, scratch: str, mark: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return guarded(_results(task, Path(scratch), mark, batches))

    return run


def _results(task: RowsTask, scratch: Path, mark: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        numbers = batch.column(0).to_pylist()
        for part, content in task.contents(range(numbers[0], numbers[-1] + 1)):
            yield pa.RecordBatch.from_pylist([_result(scratch, mark, part, content)], schema=_RESULT_IN_ARROW)


def _result(scratch: Path, mark: str, part: int, content: bytes) -> dict[str, object]:
    """Writes one part to the driver's folder, or returns its content if this is another machine's or user's."""
    result: dict[str, object] = {"part": part, "bytes": len(content), "content": None}
    try:
        if (scratch / _MARK).read_text() == mark:
            unfinished = scratch / uuid4().hex
            unfinished.write_bytes(content)
            os.replace(unfinished, scratch / part_name(part))
            return result
    except OSError:
        pass  # The folder is not shared with this worker, or is full: the driver writes the file, or says why not.
    return {**result, "content": content}
