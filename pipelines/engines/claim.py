"""The claim that all rows of a unit are in one file, which every engine checks once for each source.

A unit with rows in several files would be counted in each of them. Files whose ranges of units do not overlap have no
unit in common, and the ranges are found while the files are counted. Only where they overlap are the units themselves
compared, and only if one of them breaks the claim are the files counted again, without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.encode import unit_column
from pipelines.source import Source


class UnitRange(NamedTuple):
    """The smallest and the largest unit of one file: integers, or text as bytes. SENSITIVE."""

    low: Any
    high: Any


Counted = tuple[NDArray[np.int64], Sequence[UnitRange]]
"""Counts of all files, and the range of each file with a unit."""


class ClaimCheck:
    """Counts clustered files without the units that break the claim, which it remembers for the last source."""

    def __init__(self) -> None:
        self._source: Source | None = None
        self._broken: pa.Array | None = None  # SENSITIVE

    def counts(
        self, source: Source, count: Callable[[pa.Array | None], Counted], find: Callable[[], pa.Array | None]
    ) -> NDArray[np.int64]:
        """The counts of all units that keep the claim. SENSITIVE.

        source: The checked files. It is recognised as an object: another ``Source`` of the same files is checked anew.
        count: Counts all files without the given units.
        find: The units with rows in several files; None or an empty array if there are none.
        """
        if self._source is source:
            return count(self._broken)[0]
        counts, ranges = count(None)
        broken = None if are_disjoint(ranges) else find()
        if broken is not None and not len(broken):
            broken = None
        self._source, self._broken = source, broken
        return counts if broken is None else count(broken)[0]


class RangeSeen:
    """The range of the units in batches that pass through ``over``."""

    def __init__(self) -> None:
        self._ends: list[UnitRange] = []

    def over(self, batches: Iterable[pa.RecordBatch], unit: str) -> Iterator[pa.RecordBatch]:
        """The same batches. SENSITIVE.

        unit: Name of the column of units.
        """
        for batch in batches:
            if (unit_range := range_of(unit_column(batch.column(unit)))) is not None:
                self._ends.append(unit_range)
            yield batch

    @property
    def range(self) -> UnitRange | None:
        """The range of all units so far; None if there were none. SENSITIVE."""
        if not self._ends:
            return None
        return UnitRange(min(end.low for end in self._ends), max(end.high for end in self._ends))


def range_of(units: pa.Array) -> UnitRange | None:
    """The range of units of type int64, uint64 or large_string; None if all are null. SENSITIVE."""
    if len(units) == units.null_count:
        return None
    # Text is compared as bytes, because text that is not valid UTF-8 has no Python string.
    ends = pc.min_max(units.view(pa.large_binary()) if pa.types.is_large_string(units.type) else units)
    return UnitRange(ends["min"].as_py(), ends["max"].as_py())


def line_of(unit_range: UnitRange) -> bytes:
    """A range as one line of text. SENSITIVE."""
    ends = [end.hex() if isinstance(end, bytes) else end for end in unit_range]
    return json.dumps(ends).encode()


def range_from(line: bytes) -> UnitRange:
    """The range that ``line_of`` has written. SENSITIVE."""
    low, high = (bytes.fromhex(end) if isinstance(end, str) else end for end in json.loads(line))
    return UnitRange(low, high)


def are_disjoint(ranges: Sequence[UnitRange]) -> bool:
    """Whether no two ranges overlap."""
    return all(first.high < second.low for first, second in pairwise(sorted(ranges)))
