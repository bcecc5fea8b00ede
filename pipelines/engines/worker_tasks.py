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

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.aggregators.protocol import Aggregator
from pipelines.arrow import without_views
from pipelines.engines.accumulation import accumulate, split_by_unit, units_in_many_files, units_of_file
from pipelines.engines.claim import Counted, RangeSeen, UnitRange
from pipelines.engines.failures import guarded, without_values
from pipelines.engines.parts import Part
from pipelines.partition_rows import rows_and_pairs
from pipelines.source import DataFile, Source
from pipelines.source.batches import read_batches

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
    aggregator: Aggregator
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
    yield from guarded(_slices(lambda: accumulate(batches, work.source, work.aggregator, work.dropped)))
    if seen.range is not None:
        yield RANGES, [seen.range]


def count_bucket(work: Work, pieces: Iterable[bytes]) -> Iterator[Slice]:
    """Counts one bucket of whole units. SENSITIVE.

    work: Arguments of every task.
    pieces: All pieces of the bucket from ``split_rows``, in any order.

    Returns: Slices of the accumulator.
    """
    return guarded(_slices(lambda: accumulate(map(_unpacked, pieces), work.source, work.aggregator)))


def split_rows(work: Work, part: Part) -> Iterator[tuple[int, bytes]]:
    """Sends the rows of one part to buckets, with all rows of a unit in the same bucket. SENSITIVE.

    Rows without a unit are left out.

    Returns: (bucket, serialised rows) pieces.
    """
    batches = read_batches(work.source, part.file, part.row_groups)
    return guarded(piece for batch in batches for piece in _pieces(_decoded(batch), work))


def split_batches(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
    """As ``split_rows``, for rows that an engine has read itself. SENSITIVE.

    batches: Rows with the columns of the layout and of its filter.
    """
    joined = _joined_batches(without_views(batch) for batch in batches)
    rows = (counted for batch in joined for counted in rows_and_pairs(batch, work.source.layout))
    return guarded(piece for batch in rows for piece in _pieces(_decoded(batch), work))


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


def joined_counts(aggregator: Aggregator, slices: Iterable[Slice]) -> Counts:
    """Assembles the whole accumulator from its summed slices. A missing slice counts as zeros. SENSITIVE."""
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


def bytes_of(aggregator: Aggregator) -> int:
    """The size of an accumulator in bytes."""
    return aggregator.create().nbytes


def _slices(count: Callable[[], Counts]) -> Iterator[Slice]:
    counts = count()
    for number, start in enumerate(range(0, counts.size, _SLICE)):
        yield number, counts[start : start + _SLICE]


def _joined_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Joins small batches, because every piece of a batch costs as much as the counting of some thousand rows."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(held.num_rows for held in waiting) >= _JOINED_ROWS:
            yield pa.concat_batches(waiting)
            waiting = []
    if waiting:
        yield pa.concat_batches(waiting)


def _pieces(batch: pa.RecordBatch, work: Work) -> Iterator[tuple[int, bytes]]:
    for bucket, piece in enumerate(split_by_unit(batch, work.source, work.buckets)):
        if piece.num_rows:
            yield bucket, _packed(piece)


def _decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Decodes dictionaries, because each piece of the batch would otherwise contain them completely."""
    wide = [pa.large_string() if pa.types.is_dictionary(field.type) else field.type for field in batch.schema]
    return pa.record_batch(
        [column.cast(kind) for column, kind in zip(batch.columns, wide, strict=True)], names=batch.schema.names
    )


def _packed(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def _unpacked(piece: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(piece) as stream:
        return stream.read_next_batch()
