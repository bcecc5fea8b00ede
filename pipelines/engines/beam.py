# Beam annotates only part of its interface.
# mypy: allow-untyped-calls
"""The Beam engine: one element per file of whole units, or rows grouped by a hash of their unit.

The tasks themselves are in ``worker_tasks``. Importing Beam takes seconds, so this module is imported only for configs
that name the engine.
"""

from __future__ import annotations

import io
import os
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from tempfile import gettempdir
from typing import Any, NamedTuple, final
from uuid import uuid4

import apache_beam as beam
import numpy as np
from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, StandardOptions
from apache_beam.pvalue import AsList, PCollection
from apache_beam.runners.runner import PipelineState

from dpcore.errors import ConfigError, EngineError
from pipelines.aggregators.protocol import Aggregator
from pipelines.engines import worker_tasks
from pipelines.engines.beam_files import StoredTask, load_task, new_folder, store_task
from pipelines.engines.failures import failure
from pipelines.engines.parts import Part, parts_of
from pipelines.engines.worker_tasks import Counts, Slice, Work
from pipelines.source import AnySource, DataFile, FrameSource

_MIN_BUCKETS = 8
# Slices are numbered from 0.
_ARRIVED = -1
# Runners whose workers see this machine's temporary folder.
_LOCAL_RUNNERS = ("", "DirectRunner", "BundleBasedDirectRunner", "SwitchingDirectRunner", "FnApiRunner")


class SpilledPiece(NamedTuple):
    """Where the rows of a bucket are that one task has split off. SENSITIVE: the file holds rows.

    path: A file beside the task.
    start: First byte.
    size: Number of bytes.
    """

    path: str
    start: int
    size: int


@final
class BeamEngine:
    """Sums an aggregator with one Beam pipeline.

    options: Beam's command-line options. ``--temp_location`` names a folder that all workers can reach; it is required
        unless the runner is local. During the run, a new folder in it holds the task and the exact counts, and for a
        local runner all rows that are not clustered. SENSITIVE.

    Raises: ConfigError when a runner that is not local has no ``--temp_location``, or when there is a
        ``--template_location``.
    """

    name = "beam"

    def __init__(self, options: Sequence[str] = ()) -> None:
        self._options = PipelineOptions(list(options))
        runner = self._options.view_as(StandardOptions).runner or ""
        cloud = self._options.view_as(GoogleCloudOptions)
        folder = cloud.temp_location
        if folder is None and runner not in _LOCAL_RUNNERS:
            raise ConfigError(
                f"Beam runner {runner!r} has no --temp_location; want a folder that all its workers can reach"
            )
        if cloud.template_location:
            # Beam would say that the pipeline is done.
            raise ConfigError(
                "Beam option --template_location makes a template of a pipeline and does not run it; want options "
                "without it, because a release needs the counts of each pipeline"
            )
        self._folder: str = folder or gettempdir()
        self._local = runner in _LOCAL_RUNNERS and "://" not in self._folder

    def reduce(self, source: AnySource, aggregator: Aggregator) -> Counts:
        """The merged accumulator over all units, before ``extract``. SENSITIVE.

        Raises: The exceptions of ``Engine``.
        """
        if isinstance(source, FrameSource):
            raise ConfigError("the data are a frame, which Beam cannot read; want files, or the engine local or spark")
        clustered = source.layout.clustered_by_unit
        parts = [] if clustered else parts_of(source)
        if clustered:
            buckets = worker_tasks.buckets_for_files(len(source.files), _MIN_BUCKETS)
        else:
            buckets = worker_tasks.buckets_for(sum(part.rows for part in parts), _MIN_BUCKETS)
        try:
            with _temporary_folder(self._folder) as folder:
                counts = FileSystems.join(folder, "counts")
                task = store_task(folder, Work(replace(source, files=()), aggregator, buckets))
                pipeline = beam.Pipeline(options=self._options)
                inputs, slices = (
                    _clustered(pipeline, source.files, task)
                    if clustered
                    else _unclustered(pipeline, parts, task, spill=self._local)
                )
                _sum_into(counts, inputs, slices, task)
                _run(pipeline)
                sums = dict(_read(counts))  # SENSITIVE
                _check_arrived(sums.pop(_ARRIVED, None), len(source.files) if clustered else len(parts))
                return worker_tasks.joined_counts(aggregator, sums.items())
        except Exception as error:  # noqa: BLE001 - every runner has its own exceptions
            raise failure("Beam", "".join(traceback.format_exception_only(error))) from None


def _clustered(
    pipeline: beam.Pipeline, files: Sequence[DataFile], task: StoredTask
) -> tuple[PCollection[DataFile], PCollection[Slice]]:
    """The files after they are spread, and the slices of their counts."""
    # Reshuffle keeps Beam from processing all files in the one task that lists them.
    spread = pipeline | "Files" >> beam.Create(files) | "Spread files" >> beam.Reshuffle()
    units = spread | "Split units" >> beam.FlatMap(_split_units, task) | "Meet units" >> beam.GroupByKey()
    broken = units | "Broken units" >> beam.FlatMap(_broken_units)
    slices: PCollection[Slice] = spread | "Count files" >> beam.FlatMap(_count_file, task, AsList(broken))
    return spread, slices


def _unclustered(
    pipeline: beam.Pipeline, parts: Sequence[Part], task: StoredTask, *, spill: bool
) -> tuple[PCollection[Part], PCollection[Slice]]:
    """The parts of files after they are spread, and the slices of their counts.

    spill: Whether rows meet in files, because the runner would group them in the memory of one process.
    """
    spread = pipeline | "Parts" >> beam.Create(parts) | "Spread parts" >> beam.Reshuffle()
    if spill:
        places = spread | "Spill rows" >> beam.FlatMap(_spill_rows, task) | "Meet places" >> beam.GroupByKey()
        spilled: PCollection[Slice] = places | "Count units" >> beam.FlatMap(_count_spilled_bucket, task)
        return spread, spilled
    rows = spread | "Split rows" >> beam.FlatMap(_split_rows, task) | "Meet rows" >> beam.GroupByKey()
    slices: PCollection[Slice] = rows | "Count units" >> beam.FlatMap(_count_bucket, task)
    return spread, slices


def _sum_into(path: str, inputs: PCollection[Any], slices: PCollection[Slice], task: StoredTask) -> None:
    """Sums the slices with the same number, and writes the sums through Beam, which renames whole files into place.

    The number of inputs that have arrived at the workers is written beside them, under the number ``_ARRIVED``.
    """
    write = beam.io.WriteToText(
        path,
        append_trailing_newlines=False,
        coder=beam.coders.BytesCoder(),
        compression_type=CompressionTypes.UNCOMPRESSED,
    )
    arrived = inputs | "Arrived" >> beam.Map(lambda _: (_ARRIVED, 1)) | "How many" >> beam.CombinePerKey(sum)
    sums = slices | "Sum" >> beam.CombinePerKey(_Sum(task))
    records = (
        sums | "Records" >> beam.MapTuple(_record),
        arrived | "Record of arrivals" >> beam.MapTuple(lambda number, count: _record(number, np.array([count]))),
    )
    _ = records | "Together" >> beam.Flatten() | "Write" >> write


def _check_arrived(arrived: Counts | None, sent: int) -> None:
    """Raises an EngineError unless every input has arrived: a runner that loses elements would publish zeros."""
    found = 0 if arrived is None else int(arrived[0])
    if found != sent:
        raise EngineError(
            "Beam's runner says that it is done, but not all tasks have arrived at its workers; want a runner that "
            "loses none"
        )


def _run(pipeline: beam.Pipeline) -> None:
    state = pipeline.run().wait_until_finish()
    if state != PipelineState.DONE:
        raise EngineError(f"Beam's pipeline ended in state {state}; want {PipelineState.DONE}")


class _Sum(beam.CombineFn):
    """The aggregator's ``merge`` as a Beam combiner of slices."""

    def __init__(self, task: StoredTask) -> None:
        self._task = task

    def create_accumulator(self) -> Counts:
        """An empty vector, which stands for zeros of any length."""
        return np.zeros(0, dtype=np.int64)

    def add_input(self, mutable_accumulator: Counts, element: Counts) -> Counts:
        """Adds one slice."""
        if not mutable_accumulator.size:
            return element.copy()  # Beam does not allow an element to be changed.
        return worker_tasks.merged(load_task(self._task), mutable_accumulator, element)

    def merge_accumulators(self, accumulators: Iterable[Counts]) -> Counts:
        """Adds the sums of several workers."""
        merged = self.create_accumulator()
        for accumulator in accumulators:
            merged = self.add_input(merged, accumulator) if accumulator.size else merged
        return merged

    def extract_output(self, accumulator: Counts) -> Counts:
        """The sum itself."""
        return accumulator


def _split_units(file: DataFile, task: StoredTask) -> Iterator[tuple[int, bytes]]:
    return worker_tasks.split_units(load_task(task), file)


def _broken_units(bucket: tuple[int, Iterable[bytes]]) -> Iterator[bytes]:
    return worker_tasks.broken_units(bucket[1])


def _count_file(file: DataFile, task: StoredTask, broken: Sequence[bytes]) -> Iterator[Slice]:
    return worker_tasks.count_file(load_task(task), worker_tasks.joined_units(broken), file)


def _split_rows(part: Part, task: StoredTask) -> Iterator[tuple[int, bytes]]:
    return worker_tasks.split_rows(load_task(task), part)


def _spill_rows(part: Part, task: StoredTask) -> Iterator[tuple[int, SpilledPiece]]:
    """As ``_split_rows``, with the pieces in a file beside the task. A task that runs again writes another file."""
    path = os.path.join(task.folder, f"rows-{uuid4()}")
    with open(path, "xb") as file:
        for bucket, piece in worker_tasks.split_rows(load_task(task), part):
            start = file.tell()
            file.write(piece)
            yield bucket, SpilledPiece(path, start, len(piece))


def _count_bucket(bucket: tuple[int, Iterable[bytes]], task: StoredTask) -> Iterator[Slice]:
    return worker_tasks.count_bucket(load_task(task), bucket[1])


def _count_spilled_bucket(bucket: tuple[int, Iterable[SpilledPiece]], task: StoredTask) -> Iterator[Slice]:
    return worker_tasks.count_bucket(load_task(task), map(_spilled, bucket[1]))


def _spilled(piece: SpilledPiece) -> bytes:
    """The bytes of a piece. SENSITIVE."""
    with open(piece.path, "rb") as file:
        file.seek(piece.start)
        content = file.read(piece.size)
    if len(content) != piece.size:
        raise EngineError(f"{piece.path} is shorter than it was written; want more space in --temp_location")
    return content


def _record(number: int, counts: Counts) -> bytes:
    file = io.BytesIO()
    np.save(file, np.concatenate(([number], counts)), allow_pickle=False)
    return file.getvalue()


def _read(path: str) -> Iterator[Slice]:
    for metadata in FileSystems.match([f"{path}-*"])[0].metadata_list:
        with FileSystems.open(metadata.path) as opened:
            file = io.BytesIO(opened.read())
        while file.tell() < file.getbuffer().nbytes:
            record = np.load(file, allow_pickle=False)
            yield int(record[0]), record[1:]


@contextmanager
def _temporary_folder(parent: str) -> Iterator[str]:
    """A new folder that is removed afterwards. A local folder can be read only by its owner."""
    folder = new_folder(parent)
    try:
        yield folder
    finally:
        load_task.cache_clear()
        try:
            FileSystems.delete([folder])
        except BeamIOError:
            raise EngineError(
                f"{folder} could not be removed; remove it by hand, because it holds exact counts"
            ) from None
