"""What an aggregator is, and the encoded rows it counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import EngineError

_MOST = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class TableBlock:
    """Kept rows of whole, bounded units. SENSITIVE.

    codes: uint8, uint16 or int32 [attributes, rows], in the order of the schema.
    units: Number of units these rows come from.
    """

    codes: NDArray[np.integer]
    units: int


@dataclass(frozen=True, eq=False)
class BasketBlock:
    """Kept pairs of whole, bounded units. SENSITIVE.

    starts: int64 [units + 1]; unit u holds items[starts[u] : starts[u + 1]], at least one.
    items: int32 [pairs], in any order within a unit, repeats allowed.
    """

    starts: NDArray[np.int64]
    items: NDArray[np.int32]

    @property
    def units(self) -> int:
        return self.starts.size - 1


Block = TableBlock | BasketBlock


class Aggregator(Protocol):
    """One exact sum over units: the same code on every engine, and it can be pickled.

    Contract, checked for every aggregator by tests/unit/pipelines/aggregators:
        * an accumulator is an int64 vector; ``create`` gives zeros, the neutral element of ``merge``;
        * ``add`` may change ``accumulator`` in place and returns it; splitting the units of a block in any way into
          several blocks gives the same sum;
        * ``merge`` adds element by element, so that engines may merge slices; it may change ``left`` in place, leaves
          ``right`` alone, and raises EngineError rather than overflow.
    """

    def create(self) -> NDArray[np.int64]: ...

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]: ...

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]: ...

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]: ...


def merge_counts(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sum of two vectors of counts, in ``left``. Raises EngineError when it might not fit int64."""
    if left.size and int(left.max()) + int(right.max()) > _MOST:
        raise EngineError("a count does not fit 64 bits")
    left += right
    return left
