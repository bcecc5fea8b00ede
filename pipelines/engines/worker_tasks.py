"""What one task does for an engine that spreads work over processes: rows to buckets of whole units, units to counts.

Every function is deterministic and reads only its arguments and the files: an engine may run a task again, or twice.
Counts travel in slices, so that no message is as large as the whole answer and slices are summed in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.aggregators.protocol import Aggregator
from pipelines.engines.accumulation import accumulate, read_batches, split_by_unit, units_in_many_files, units_of_file
from pipelines.engines.failures import guarded
from pipelines.engines.parts import Part
from pipelines.source import Source

Counts = NDArray[np.int64]
Slice = tuple[int, Counts]  # a number, and the counts from that many slices on
_SLICE = 1 << 20  # counts: 8 MiB
_BUCKET_ROWS = 1 << 20
_BUCKET_FILES = 16


@dataclass(frozen=True)
class Work:
    """What every task needs. SENSITIVE: the source holds the salt.

    buckets: Parts that units are spread over wherever rows of several files have to meet.
    """

    source: Source
    aggregator: Aggregator
    buckets: int


def buckets_for(rows: int, workers: int) -> int:
    """Buckets that keep every worker busy and hold about a million rows each."""
    return max(workers, -(-rows // _BUCKET_ROWS), 1)


def buckets_for_files(files: int, workers: int) -> int:
    """Buckets for the units of whole files: fewer than files, because every file gives a piece to every bucket."""
    return max(workers, -(-files // _BUCKET_FILES))


def count_file(work: Work, dropped: pa.Array | None, path: str) -> Iterator[Slice]:
    """Slices of the counts of one file of whole units, those in ``dropped`` left out. SENSITIVE."""
    return guarded(_slices(lambda: accumulate(read_batches(work.source, path), work.source, work.aggregator, dropped)))


def count_bucket(work: Work, pieces: Iterable[bytes]) -> Iterator[Slice]:
    """Slices of the counts of one bucket, given all its pieces in any order. SENSITIVE."""
    return guarded(_slices(lambda: accumulate(map(_unpacked, pieces), work.source, work.aggregator)))


def split_rows(work: Work, part: Part) -> Iterator[tuple[int, bytes]]:
    """(bucket, rows) pieces of one part; all rows of a unit have one bucket, rows without a unit none. SENSITIVE."""
    batches = read_batches(work.source, part.path, part.row_groups)
    return guarded(piece for batch in batches for piece in _pieces(_decoded(batch), work))


def split_units(work: Work, path: str) -> Iterator[tuple[int, bytes]]:
    """(bucket, distinct units) pieces of one file, at most one piece a bucket. SENSITIVE."""

    def pieces() -> Iterator[tuple[int, bytes]]:
        units = units_of_file(work.source, path)
        if len(units):
            yield from _pieces(pa.record_batch([units], names=[work.source.layout.unit]), work)

    return guarded(pieces())


def broken_units(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The units of one bucket that more than one file holds, at most one piece. SENSITIVE."""

    def broken() -> Iterator[bytes]:
        units = units_in_many_files(_unpacked(piece).column(0) for piece in pieces)
        if len(units):
            yield _packed(pa.record_batch([units], names=["unit"]))

    return guarded(broken())


def joined_units(pieces: Iterable[bytes]) -> pa.Array | None:
    """All units of the pieces that ``broken_units`` gave, None when there are none. SENSITIVE."""
    arrays = [_unpacked(piece).column(0) for piece in pieces]
    return pa.concat_arrays(arrays) if arrays else None


def joined_counts(aggregator: Aggregator, slices: Iterable[Slice]) -> Counts:
    """The whole accumulator from its summed slices; zeros where there is no slice. SENSITIVE."""
    counts = aggregator.create()
    for number, values in slices:
        counts[number * _SLICE : number * _SLICE + values.size] = values
    return counts


def _slices(count: Callable[[], Counts]) -> Iterator[Slice]:
    counts = count()
    for number, start in enumerate(range(0, counts.size, _SLICE)):
        yield number, counts[start : start + _SLICE]


def _pieces(batch: pa.RecordBatch, work: Work) -> Iterator[tuple[int, bytes]]:
    for bucket, piece in enumerate(split_by_unit(batch, work.source, work.buckets)):
        if piece.num_rows:
            yield bucket, _packed(piece)


def _decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without dictionaries: each of its pieces would carry them whole."""
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
