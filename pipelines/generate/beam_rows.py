# Beam annotates only part of its interface.
# mypy: allow-untyped-calls
"""Synthetic rows on Beam's workers, one element per run of parts.

Importing Beam takes seconds, so this module is imported only where the engine is asked for.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import final
from uuid import uuid4

import apache_beam as beam
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions
from apache_beam.runners.runner import PipelineState

from dpcore.errors import EngineError
from pipelines.engines.beam_files import StoredTask, load_task, new_folder, store_task
from pipelines.engines.failures import guarded
from pipelines.foreign_errors import described
from pipelines.generate.parallel_rows import RowsTask
from pipelines.generate.row_files import part_name


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
        shared = new_folder(self._shared or str(folder.parent), ".rows-")
        try:
            pipeline = beam.Pipeline(options=self._options)
            # Reshuffle keeps Beam from making all parts in the one task that lists them.
            runs = pipeline | "Runs" >> beam.Create(task.runs()) | "Spread runs" >> beam.Reshuffle()
            _ = runs | "Write rows" >> beam.FlatMap(_written, store_task(shared, task))
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
            load_task.cache_clear()
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


def _written(run: range, stored: StoredTask) -> Iterator[int]:
    """Writes some parts. Beam may do this more than once, so a file gets its name when it is complete."""

    def parts() -> Iterator[int]:
        task: RowsTask = load_task(stored)
        for part, content in task.contents(run):
            unfinished = FileSystems.join(stored.folder, uuid4().hex)
            with FileSystems.create(unfinished) as file:
                file.write(content)
            FileSystems.rename([unfinished], [FileSystems.join(stored.folder, part_name(part))])
            yield part

    return guarded(parts())
