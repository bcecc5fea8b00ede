"""The tasks of Spark and Beam: each public function is the body of one task.

With clustered files, ``split_units`` and ``broken_units`` find the units with rows in several files, and ``count_file``
counts each file without these units. With other files, ``split_rows`` sends rows to buckets of whole units, and
``count_bucket`` counts a bucket. In both cases, ``joined_counts`` assembles the result on the driver.

Every task is deterministic and reads only its arguments and the files, so an engine may run a task more than once.
Counts are sent in slices, so that no message is as large as the whole answer and slices can be summed in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcore.errors import EngineError
from pipelines.aggregators.item_sums import SLICES, AnyAggregator, ItemSums
from pipelines.arrow import decoded, without_views
from pipelines.engines.accumulation import accumulate, split_by_unit, units_in_many_files, units_of_file
from pipelines.engines.claim import Counted, RangeSeen, UnitRange
from pipelines.engines.failures import guarded, without_values
from pipelines.engines.parts import Part
from pipelines.partition_rows import rows_and_pairs
from pipelines.source import DataFile, Source
from pipelines.source.batches import read_batches

T = TypeVar("T")

Counts = NDArray[np.int64]
Slice = tuple[int, Counts]
"""Number of a slice, from 0, and its counts."""

SlicePart = Counts | list[UnitRange]
TaskResult = tuple[int, SlicePart]
"""A slice, or ``RANGES`` and the ranges of the units of files."""

RANGES = -1
"""Number of what is no slice, but the ranges of the units of files."""

DRIVER_BYTES = 1 << 26
"""Less than this many bytes of counts of all tasks go to the driver as they are; more are summed by executors first."""

_SLICE = 1 << 20  # Counts per slice: 8 MiB.
_JOINED_ROWS = 1 << 18
_PIECE_ROWS = 1 << 8  # Fewer rows in a piece would be more of its header than of rows.
_BUCKET_ROWS = 1 << 20
_BUCKET_FILES = 16


@dataclass(frozen=True)
class Work:
    """Arguments of every task. SENSITIVE: the source holds the salt.

    source: The checked files.
    aggregator: The aggregator to sum.
    buckets: Number of buckets of units, for steps that bring rows of several files together.
    dropped: Units with rows in several clustered files, which ``count_file`` leaves out; None for none.
    """

    source: Source
    aggregator: AnyAggregator
    buckets: int
    dropped: pa.Array | None = None


def buckets_for(rows: int, workers: int) -> int:
    """Number of buckets for ``rows`` rows: about one per million rows, and at least one per worker."""
    return max(workers, -(-rows // _BUCKET_ROWS), 1)


def buckets_for_files(files: int, workers: int) -> int:
    """Number of buckets for the units of clustered files: fewer than files, because each file sends a piece to each."""
    return max(workers, -(-files // _BUCKET_FILES))


def count_file(work: Work, file: DataFile) -> Iterator[TaskResult]:
    """Counts one file of whole units, without the dropped ones. SENSITIVE.

    work: Arguments of every task.
    file: The file.

    Returns: Slices of the accumulator, and then the range of the file's units under the number ``RANGES``.
    """
    seen = RangeSeen()
    batches = seen.over(read_batches(work.source, file), work.source.layout.unit)
    yield from guarded(_slices(work, lambda: accumulate(batches, work.source, work.aggregator, work.dropped)))
    if seen.range is not None:
        yield RANGES, [seen.range]


def count_bucket(work: Work, pieces: Iterable[bytes]) -> Iterator[Slice]:
    """Counts one bucket of whole units. SENSITIVE.

    work: Arguments of every task.
    pieces: All pieces of the bucket from ``split_rows``, in any order.

    Returns: Slices of the accumulator.
    """
    return guarded(_slices(work, lambda: accumulate(map(_unpacked, pieces), work.source, work.aggregator)))


def split_rows(work: Work, part: Part) -> Iterator[tuple[int, bytes]]:
    """Sends the rows of one part to buckets, with all rows of a unit in the same bucket. SENSITIVE.

    Rows without a unit are left out.

    Returns: (bucket, serialised rows) pieces.
    """
    batches = map(_decoded, read_batches(work.source, part.file, part.row_groups))
    joined = _joined_batches(batches, _PIECE_ROWS * work.buckets)
    return guarded(piece for batch in joined for piece in _pieces(batch, work))


def split_batches(
    work: Work, batches: Iterable[pa.RecordBatch], *, unitless: bool = False
) -> Iterator[tuple[int, bytes]]:
    """As ``split_rows``, for rows that an engine has read itself. SENSITIVE.

    batches: Rows with the columns of the layout and of its filter.
    unitless: Whether rows without a unit go to the first bucket instead of being left out.
    """
    layout = work.source.layout
    rows = (counted for batch in batches for counted in rows_and_pairs(without_views(batch), layout))
    joined = _joined_batches(map(_decoded, rows), max(_JOINED_ROWS, _PIECE_ROWS * work.buckets))
    return guarded(piece for batch in joined for piece in _pieces(batch, work, unitless))


def read_bucket(pieces: Iterable[bytes], task: Callable[[Iterable[pa.RecordBatch]], Counts]) -> Iterator[bytes]:
    """The result of another task than counting over the rows of one bucket, as bytes. SENSITIVE.

    pieces: All pieces of the bucket from ``split_batches``, in any order.
    task: Turns batches of whole units into counts, int64.
    """
    return guarded(task(map(_unpacked, pieces)).tobytes() for _ in range(1))


def split_units(work: Work, file: DataFile) -> Iterator[tuple[int, bytes]]:
    """Sends the distinct units of one file to buckets. SENSITIVE.

    Returns: (bucket, serialised units) pieces, at most one per bucket.
    """

    def pieces() -> Iterator[tuple[int, bytes]]:
        units = units_of_file(work.source, file)
        if len(units):
            yield from _pieces(pa.record_batch([units], names=[work.source.layout.unit]), work)

    return guarded(pieces())


def broken_units(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The units of one bucket that have rows in more than one file, as at most one piece. SENSITIVE."""

    def broken() -> Iterator[bytes]:
        units = units_in_many_files(_unpacked(piece).column(0) for piece in pieces)
        if len(units):
            yield _packed(pa.record_batch([units], names=["unit"]))

    return guarded(broken())


@without_values("a task")
def joined_units(pieces: Iterable[bytes]) -> pa.Array | None:
    """All units in the pieces of ``broken_units``; None if there are none. SENSITIVE."""
    arrays = [_unpacked(piece).column(0) for piece in pieces]
    return pa.concat_arrays(arrays) if arrays else None


@without_values("a task")
def summed(work: Work, results: Iterable[TaskResult]) -> dict[int, SlicePart]:
    """Adds the slices with the same number, and joins the ranges. SENSITIVE."""
    sums: dict[int, SlicePart] = {}
    for number, part in results:
        if number in sums:
            sums[number] = joined_parts(work, sums[number], part)
        else:  # Slices of counts are views of arrays that others may own.
            sums[number] = part if isinstance(part, list) else part.copy()
    return sums


@without_values("a task")
def joined_parts(work: Work, left: SlicePart, right: SlicePart) -> SlicePart:
    """Adds two slices with the same number, or joins the ranges of two tasks; may change ``left``. SENSITIVE."""
    if isinstance(left, list) or isinstance(right, list):
        return [*left, *right]
    return merged(work, left, right)


@without_values("a task")
def merged(work: Work, left: Counts, right: Counts) -> Counts:
    """Adds the counts of two tasks; changes and returns ``left``. SENSITIVE."""
    return work.aggregator.merge(left, right)


def joined_counts(aggregator: AnyAggregator, slices: Iterable[Slice]) -> Counts:
    """Assembles the whole accumulator from its summed slices. A missing slice counts as zeros. SENSITIVE."""
    if isinstance(aggregator, ItemSums):
        return aggregator.join(slices)
    counts = aggregator.create()
    for number, values in slices:
        counts[number * _SLICE : number * _SLICE + values.size] = values
    return counts


def joined(work: Work, results: Iterable[TaskResult]) -> Counted:
    """The whole accumulator and all ranges, from the results of all tasks. SENSITIVE."""
    sums = summed(work, results)
    ranges = sums.pop(RANGES, [])
    slices = ((number, part) for number, part in sums.items() if isinstance(part, np.ndarray))
    return joined_counts(work.aggregator, slices), ranges if isinstance(ranges, list) else []


def bytes_of(aggregator: AnyAggregator) -> int:
    """The size of an accumulator in bytes. That of items is not known, so executors share the slices of their sums."""
    return DRIVER_BYTES * SLICES if isinstance(aggregator, ItemSums) else aggregator.create().nbytes


@without_values("a task")
def numbered_result(task: Callable[[T], bytes], item: tuple[int, T]) -> tuple[int, bytes]:
    """The number of an item, and the result of a task for it. SENSITIVE if the result is."""
    return item[0], task(item[1])


def in_order(results: Iterable[tuple[int, bytes]], count: int) -> list[bytes]:
    """Results without their numbers, in the order of these.

    results: Numbered results, each once or more often.
    count: Number of items that were sent.

    Raises: EngineError when the result of an item is missing.
    """
    by_number = dict(results)
    if len(by_number) != count:
        raise EngineError("not every task has sent its result; want an engine that loses none")
    return [by_number[number] for number in range(count)]


def _slices(work: Work, count: Callable[[], Counts]) -> Iterator[Slice]:
    counts = count()
    if isinstance(work.aggregator, ItemSums):
        yield from work.aggregator.split(counts)
        return
    for number, start in enumerate(range(0, counts.size, _SLICE)):
        yield number, counts[start : start + _SLICE]


def _joined_batches(batches: Iterable[pa.RecordBatch], least: int) -> Iterator[pa.RecordBatch]:
    """Joins batches to at least ``least`` rows, because a piece costs as much as some thousand rows, however small.

    batches: Rows, and pairs of units and partitions, each with one schema.
    """
    waiting: dict[tuple[str, ...], list[pa.RecordBatch]] = {}
    for batch in batches:
        held = waiting.setdefault(tuple(batch.schema.names), [])
        held.append(batch)
        if sum(part.num_rows for part in held) >= least:
            yield _joined(waiting.pop(tuple(batch.schema.names)))
    yield from map(_joined, waiting.values())


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _pieces(batch: pa.RecordBatch, work: Work, unitless: bool = False) -> Iterator[tuple[int, bytes]]:
    for bucket, piece in enumerate(split_by_unit(batch, work.source, work.buckets, unitless=unitless)):
        if piece.num_rows:
            yield bucket, _packed(piece)


def _decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Decodes dictionaries, because each piece of the batch would otherwise contain them completely."""
    columns = [decoded(column) if pa.types.is_dictionary(column.type) else column for column in batch.columns]
    return pa.record_batch(columns, names=batch.schema.names)


def _packed(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def _unpacked(piece: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(piece) as stream:
        return stream.read_next_batch()
