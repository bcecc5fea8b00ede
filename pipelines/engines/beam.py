# Beam annotates only part of its interface.
# mypy: allow-untyped-calls
"""The Beam engine: one element per file of whole units, or rows grouped by a hash of their unit.

The tasks themselves are in ``worker_tasks``. Importing Beam takes seconds, so this module is imported only for configs
that name the engine.
"""

from __future__ import annotations

import base64
import io
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from tempfile import gettempdir
from typing import Any, NamedTuple, TypeVar, final
from uuid import uuid4

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, StandardOptions
from apache_beam.pvalue import PCollection, TaggedOutput
from apache_beam.runners.runner import PipelineState

from dpcore.errors import ConfigError, EngineError
from pipelines.aggregators.item_sums import AnyAggregator
from pipelines.engines import worker_tasks
from pipelines.engines.beam_files import StoredTask, load_task, new_folder, store_task
from pipelines.engines.claim import ClaimCheck, Counted, line_of, range_from
from pipelines.engines.failures import failure
from pipelines.engines.parts import Part, parts_of
from pipelines.engines.worker_tasks import Counts, Slice, Work
from pipelines.source import AnySource, DataFile, FrameSource, Source

T = TypeVar("T")

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
        self._claim = ClaimCheck()
        self._local = runner in _LOCAL_RUNNERS and "://" not in self._folder

    def reduce(self, source: AnySource, aggregator: AnyAggregator) -> Counts:
        """The merged accumulator over all units, before ``extract``. SENSITIVE.

        Raises: The exceptions of ``Engine``.
        """
        if isinstance(source, FrameSource):
            raise ConfigError("the data are a frame, which Beam cannot read; want files, or the engine local or spark")
        try:
            if source.layout.counted_by_file:
                return self._of_files(source, aggregator)
            parts = parts_of(source)
            buckets = worker_tasks.buckets_for(sum(part.rows for part in parts), _MIN_BUCKETS)
            work = Work(replace(source, files=()), aggregator, buckets)
            with _temporary_folder(self._folder) as folder:
                pipeline = beam.Pipeline(options=self._options)
                task = store_task(folder, work)
                spread = _spread(pipeline, "parts", parts)
                slices = _spilled_slices(spread, task) if self._local else _grouped_slices(spread, task)
                return self._counted(pipeline, spread, slices, task, work, len(parts))
        except Exception as error:  # noqa: BLE001 - every runner has its own exceptions
            raise failure("Beam", "".join(traceback.format_exception_only(error))) from None

    def each(self, task: Callable[[T], bytes], items: Sequence[T]) -> list[bytes]:
        """The results of a task for all items, in their order. SENSITIVE if they are.

        Raises: The exceptions of ``Engine``.
        """
        try:
            with _temporary_folder(self._folder) as folder:
                pipeline = beam.Pipeline(options=self._options)
                stored = store_task(folder, task)
                numbered = _spread(pipeline, "items", list(enumerate(items)))
                results = numbered | "Results" >> beam.Map(_result_line, stored)
                lines = FileSystems.join(folder, "results")
                _ = results | "Write results" >> _written(lines)
                _run(pipeline)
                return worker_tasks.in_order(map(_numbered_line, _lines(lines)), len(items))  # SENSITIVE
        except Exception as error:  # noqa: BLE001 - every runner has its own exceptions
            raise failure("Beam", "".join(traceback.format_exception_only(error))) from None

    def _of_files(self, source: Source, aggregator: AnyAggregator) -> Counts:
        """The counts of files of whole units, with one pipeline unless units must be compared. SENSITIVE."""
        buckets = worker_tasks.buckets_for_files(len(source.files), _MIN_BUCKETS)
        work = Work(replace(source, files=()), aggregator, buckets)

        def count(dropped: pa.Array | None) -> Counted:
            with _temporary_folder(self._folder) as folder:
                pipeline = beam.Pipeline(options=self._options)
                task = store_task(folder, replace(work, dropped=dropped))
                spread = _spread(pipeline, "files", source.files)
                counted = spread | "Count files" >> beam.FlatMap(_count_file, task).with_outputs(
                    "ranges", main="slices"
                )
                ranges = FileSystems.join(folder, "ranges")
                _ = counted.ranges | "Ranges" >> _written(ranges)
                counts = self._counted(pipeline, spread, counted.slices, task, work, len(source.files))
                return counts, [range_from(line) for line in _lines(ranges)]  # SENSITIVE

        def find() -> pa.Array | None:
            with _temporary_folder(self._folder) as folder:
                pipeline = beam.Pipeline(options=self._options)
                task = store_task(folder, work)
                units = _spread(pipeline, "files", source.files) | "Split units" >> beam.FlatMap(_split_units, task)
                broken = units | "Meet units" >> beam.GroupByKey() | "Broken units" >> beam.FlatMap(_broken_units)
                pieces = FileSystems.join(folder, "broken")
                _ = broken | "As lines" >> beam.Map(base64.b64encode) | "Write units" >> _written(pieces)
                _run(pipeline)
                return worker_tasks.joined_units(map(base64.b64decode, _lines(pieces)))  # SENSITIVE

        return self._claim.counts(source, count, find)

    def _counted(
        self,
        pipeline: beam.Pipeline,
        inputs: PCollection[Any],
        slices: PCollection[Slice],
        task: StoredTask,
        work: Work,
        sent: int,
    ) -> Counts:
        """Runs a pipeline, and reads the counts that it has written beside its task. SENSITIVE.

        sent: Number of inputs.
        """
        counts = FileSystems.join(task.folder, "counts")
        _sum_into(counts, inputs, slices, task)
        _run(pipeline)
        sums = dict(_read(counts))  # SENSITIVE
        _check_arrived(sums.pop(_ARRIVED, None), sent)
        return worker_tasks.joined_counts(work.aggregator, sums.items())


def _spread(pipeline: beam.Pipeline, what: str, items: Sequence[T]) -> PCollection[T]:
    """The inputs of tasks. Reshuffle keeps Beam from processing all of them in the one task that lists them."""
    spread: PCollection[T] = pipeline | f"List {what}" >> beam.Create(items) | f"Spread {what}" >> beam.Reshuffle()
    return spread


def _grouped_slices(parts: PCollection[Part], task: StoredTask) -> PCollection[Slice]:
    """Counts rows that the runner brings together by the bucket of their unit."""
    rows = parts | "Split rows" >> beam.FlatMap(_split_rows, task) | "Meet rows" >> beam.GroupByKey()
    slices: PCollection[Slice] = rows | "Count units" >> beam.FlatMap(_count_bucket, task)
    return slices


def _spilled_slices(parts: PCollection[Part], task: StoredTask) -> PCollection[Slice]:
    """Counts rows that meet in files, because a local runner would group them in the memory of one process."""
    places = parts | "Spill rows" >> beam.FlatMap(_spill_rows, task) | "Meet places" >> beam.GroupByKey()
    slices: PCollection[Slice] = places | "Count units" >> beam.FlatMap(_count_spilled_bucket, task)
    return slices


def _sum_into(path: str, inputs: PCollection[Any], slices: PCollection[Slice], task: StoredTask) -> None:
    """Sums the slices with the same number, and writes the sums through Beam, which renames whole files into place.

    The number of inputs that have arrived at the workers is written beside them, under the number ``_ARRIVED``.
    """
    arrived = inputs | "Arrived" >> beam.Map(lambda _: (_ARRIVED, 1)) | "How many" >> beam.CombinePerKey(sum)
    sums = slices | "Sum" >> beam.CombinePerKey(_Sum(task))
    records = (
        sums | "Records" >> beam.MapTuple(_record),
        arrived | "Record of arrivals" >> beam.MapTuple(lambda number, count: _record(number, np.array([count]))),
    )
    _ = records | "Together" >> beam.Flatten() | "Write" >> _written(path, lines=False)


def _written(path: str, *, lines: bool = True) -> beam.io.WriteToText:
    """Writes bytes to files whose names begin with a path. Beam renames whole files into place."""
    return beam.io.WriteToText(
        path,
        append_trailing_newlines=lines,
        coder=beam.coders.BytesCoder(),
        compression_type=CompressionTypes.UNCOMPRESSED,
    )


def _check_arrived(arrived: Counts | None, sent: int) -> None:
    """Raises an EngineError unless every input has arrived: a runner that loses elements would publish zeros."""
    received = 0 if arrived is None else int(arrived[0])
    if received != sent:
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


def _result_line(item: tuple[int, T], task: StoredTask) -> bytes:
    number, result = worker_tasks.numbered_result(load_task(task), item)
    return b"%d %s" % (number, base64.b64encode(result))


def _numbered_line(line: bytes) -> tuple[int, bytes]:
    number, _, result = line.partition(b" ")
    return int(number), base64.b64decode(result)


def _split_units(file: DataFile, task: StoredTask) -> Iterator[tuple[int, bytes]]:
    return worker_tasks.split_units(load_task(task), file)


def _broken_units(bucket: tuple[int, Iterable[bytes]]) -> Iterator[bytes]:
    return worker_tasks.broken_units(bucket[1])


def _count_file(file: DataFile, task: StoredTask) -> Iterator[Slice | TaggedOutput[str, bytes]]:
    for number, part in worker_tasks.count_file(load_task(task), file):
        if isinstance(part, list):
            yield from (TaggedOutput("ranges", line_of(unit_range)) for unit_range in part)
        else:
            yield number, part


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
    for content in _contents(path):
        file = io.BytesIO(content)
        while file.tell() < len(content):
            record = np.load(file, allow_pickle=False)
            yield int(record[0]), record[1:]


def _lines(path: str) -> Iterator[bytes]:
    return (line for content in _contents(path) for line in content.splitlines())


def _contents(path: str) -> Iterator[bytes]:
    """The files whose names begin with a path."""
    for metadata in FileSystems.match([f"{path}-*"])[0].metadata_list:
        with FileSystems.open(metadata.path) as file:
            yield file.read()


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
