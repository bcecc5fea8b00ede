"""The tasks of workers: they count a group of files, or list what stands for the units of a file. SENSITIVE.

A task also says whether every file was the same version before and after it was read. Only then do its results say
something about that version, and may be kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.aggregators.protocol import Aggregator
from pipelines.arrow import booleans
from pipelines.engines.accumulation import accumulate, units_of_file
from pipelines.engines.claim import RangeSeen, UnitRange, line_of, range_from
from pipelines.source import DataFile, Source
from pipelines.source.batches import read_batches
from pipelines.source.versions import FileVersion, version_of
from pipelines.statistics_store.unit_digests import Digests, are_among, digests_of, hashed


class Counted(NamedTuple):
    """The counts of one group of files. SENSITIVE.

    counts: The accumulator.
    ranges: The range of the units of each file; None for a file without units.
    """

    counts: NDArray[np.int64]
    ranges: tuple[UnitRange | None, ...]


@dataclass(frozen=True)
class Piece:
    """The files of one group, as a worker gets them. SENSITIVE.

    files: The files.
    versions: The version of each file that is to be read; None if nothing is known about it.
    dropped: The units of each file that are left out, because other files have rows of them as well.
    """

    files: tuple[DataFile, ...]
    versions: tuple[FileVersion | None, ...]
    dropped: tuple[Digests, ...] = field(repr=False)


@dataclass(frozen=True)
class CountTask:
    """Counts a piece. SENSITIVE: it holds the salt, and keys.

    source: The layout and the salt; no files.
    aggregator: What is counted.
    unit_keys: Two keys of 16 bytes, for ``unit_digests.hashed``.
    """

    source: Source
    aggregator: Aggregator
    unit_keys: tuple[bytes, bytes] = field(repr=False)

    def __call__(self, piece: Piece) -> bytes:
        """``Counted`` as bytes, after a byte that says whether the versions were steady. SENSITIVE."""

        def count() -> bytes:
            counts, ranges = self.aggregator.create(), []
            for file, dropped in zip(piece.files, piece.dropped, strict=True):
                seen = RangeSeen()
                batches = seen.over(read_batches(self.source, file), self.source.layout.unit)
                own = accumulate(batches, self.source, self.aggregator, self._units(file, dropped))
                counts = self.aggregator.merge(counts, own)
                ranges.append(seen.range)
            return packed(Counted(counts, tuple(ranges)))

        return _steadily(piece, count)

    def _units(self, file: DataFile, dropped: Digests) -> pa.Array | None:
        """The units that have these digests."""
        if not len(dropped):
            return None
        units = units_of_file(self.source, file)
        return units.filter(booleans(are_among(hashed(units, self.unit_keys), dropped)))


@dataclass(frozen=True)
class UnitsTask:
    """Lists the digests of the units of a piece of one file. SENSITIVE. The fields are those of ``CountTask``."""

    source: Source
    unit_keys: tuple[bytes, bytes] = field(repr=False)

    def __call__(self, piece: Piece) -> bytes:
        """``Digests`` as bytes, after a byte that says whether the version was steady. SENSITIVE."""
        (file,) = piece.files
        return _steadily(piece, lambda: digests_of(units_of_file(self.source, file), self.unit_keys).tobytes())


def opened(result: bytes) -> tuple[bool, bytes]:
    """Whether the files of a result were steady, and the result without this byte."""
    return result[:1] == b"\1", result[1:]


def packed(counted: Counted) -> bytes:
    """The counts of a group as bytes, compressed. SENSITIVE."""
    lines = [None if unit_range is None else line_of(unit_range).decode() for unit_range in counted.ranges]
    raw = counted.counts.astype("<i8", copy=False).tobytes()
    header = json.dumps({"ranges": lines, "bytes": len(raw)}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(pa.compress(raw, codec="zstd", asbytes=True))


def unpacked(content: bytes) -> Counted:
    """What ``packed`` has written. SENSITIVE."""
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    raw = pa.decompress(content[start:], decompressed_size=header["bytes"], codec="zstd", asbytes=True)
    ranges = tuple(None if line is None else range_from(line.encode()) for line in header["ranges"])
    return Counted(np.frombuffer(raw, dtype="<i8").astype(np.int64, copy=False), ranges)


def _steadily(piece: Piece, action: Callable[[], bytes]) -> bytes:
    before = _versions(piece)
    result = action()
    steady = before == _versions(piece) == piece.versions and None not in piece.versions
    return (b"\1" if steady else b"\0") + result


def _versions(piece: Piece) -> tuple[FileVersion | None, ...]:
    return tuple(version_of(file.path) for file in piece.files)
