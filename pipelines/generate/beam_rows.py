# Beam annotates only part of its interface.
# mypy: allow-untyped-calls
"""Synthetic rows on Beam's workers, one element per run of parts.

Importing Beam takes seconds, so this module is imported only where the engine is asked for.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple, final
from uuid import uuid4

import apache_beam as beam
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions
from apache_beam.runners.runner import PipelineState

from dpcore.errors import EngineError
from pipelines.engines.failures import guarded
from pipelines.foreign_errors import described
from pipelines.generate.parallel_rows import RowsTask
from pipelines.generate.row_files import part_name


class _StoredTask(NamedTuple):
    """A task in a file, because it may be too large for the pipeline.

    folder: A folder that all workers can reach. It holds the task, and the parts that are made.
    sha256: SHA-256 of the file of the task.
    """

    folder: str
    sha256: bytes

    @property
    def path(self) -> str:
        """The file of the task."""
        return FileSystems.join(self.folder, "task")


@final
class BeamRowWorkers:
    """Workers of one Beam pipeline.

    options: Beam's command-line options. ``--temp_location`` names a folder that all workers can reach; without it,
        they must reach the folder of the rows. The files of all parts pass through a new folder there.
    """

    def __init__(self, options: Sequence[str] = ()) -> None:
        self._options = PipelineOptions(list(options))
        self._shared: str | None = self._options.view_as(GoogleCloudOptions).temp_location

    def write(self, task: RowsTask, folder: Path) -> Iterator[int]:
        """See ``RowWorkers``.

        Raises: EngineError when Beam does not finish.
        """
        shared = _new_folder(self._shared or str(folder.parent))
        try:
            pipeline = beam.Pipeline(options=self._options)
            # Reshuffle keeps Beam from making all parts in the one task that lists them.
            runs = pipeline | "Runs" >> beam.Create(task.runs()) | "Spread runs" >> beam.Reshuffle()
            _ = runs | "Write rows" >> beam.FlatMap(_written, _stored(shared, task))
            _run(pipeline)
            for part in range(task.parts):
                path = FileSystems.join(shared, part_name(part))
                with FileSystems.open(path) as made, open(folder / part_name(part), "wb") as file:
                    shutil.copyfileobj(made, file)
                FileSystems.delete([path])
                yield part + 1
        except BeamIOError as error:
            raise EngineError(f"{shared} cannot be used for the synthetic rows ({described(error)})") from None
        finally:
            _task.cache_clear()
            FileSystems.delete([shared])


def _run(pipeline: beam.Pipeline) -> None:
    try:
        state = pipeline.run().wait_until_finish()
    except Exception as error:  # noqa: BLE001 - every runner has its own exceptions
        raise EngineError(
            f"Beam did not finish the synthetic rows ({type(error).__name__}); see its own log for the reason"
        ) from None
    if state != PipelineState.DONE:
        raise EngineError(f"Beam's pipeline ended in state {state}; want {PipelineState.DONE}")


def _new_folder(parent: str) -> str:
    """A new folder for the task and the parts. A local one can be written only by its owner."""
    if "://" not in parent:
        os.makedirs(parent, exist_ok=True)
        return mkdtemp(prefix=".rows-", dir=parent)
    folder: str = FileSystems.join(parent, f"marquee-rows-{uuid4().hex}")
    FileSystems.mkdirs(folder)
    return folder


def _stored(folder: str, task: RowsTask) -> _StoredTask:
    content = pickle.dumps(task)
    stored = _StoredTask(folder, hashlib.sha256(content).digest())
    with FileSystems.create(stored.path) as file:
        file.write(content)
    return stored


@lru_cache(maxsize=1)
def _task(stored: _StoredTask) -> RowsTask:
    """The task, read once per process. Unpickling runs whatever the bytes ask for, so their hash is checked first."""
    with FileSystems.open(stored.path) as file:
        content = file.read()
    if hashlib.sha256(content).digest() != stored.sha256:
        raise EngineError(f"{stored.path} is not the task of this run; want a --temp_location that nobody else writes")
    task: RowsTask = pickle.loads(content)
    return task


def _written(run: range, stored: _StoredTask) -> Iterator[int]:
    """Writes some parts. Beam may do this more than once, so a file gets its name when it is complete."""

    def parts() -> Iterator[int]:
        for part, content in _task(stored).contents(run):
            unfinished = FileSystems.join(stored.folder, uuid4().hex)
            with FileSystems.create(unfinished) as file:
                file.write(content)
            FileSystems.rename([unfinished], [FileSystems.join(stored.folder, part_name(part))])
            yield part

    return guarded(parts())
