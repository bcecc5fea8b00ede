"""What an aggregator is, and the encoded rows it counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import EngineError, IntegrityError

# Behind the counts an accumulator holds the records that were counted (kept rows of a table, else units) and the units.
SLOTS: Final = 2
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
        * an accumulator is an int64 vector, the counts and then SLOTS totals; ``create`` gives zeros, the neutral
          element of ``merge``;
        * ``add`` may change ``accumulator`` in place and returns it; splitting the units of a block in any way into
          several blocks gives the same sum;
        * ``merge`` adds element by element, so that engines may merge slices; it may change ``left`` in place, leaves
          ``right`` alone, and raises EngineError rather than overflow;
        * nothing exceeds the declared contribution unnoticed. IntegrityError is raised by ``add`` for a block with more
          records than its units may hold, by ``merge`` for a negative number in any slice and for totals that do not
          fit each other in a whole accumulator, and by ``extract`` where counts do not fit the totals: a slice that was
          lost, or merged twice. ``extract`` gives the counts alone.
    """

    def create(self) -> NDArray[np.int64]: ...

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]: ...

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]: ...

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]: ...


def entered(accumulator: NDArray[np.int64], block: Block, most: int) -> None:
    """Adds the block's records and units to the totals, before it is counted. most: Records that a unit may hold."""
    records = block.units if isinstance(block, BasketBlock) else block.codes.shape[1]
    _check_totals(records, block.units, most)
    accumulator[-SLOTS:] += (records, block.units)


def merge_counts(left: NDArray[np.int64], right: NDArray[np.int64], size: int, most: int) -> NDArray[np.int64]:
    """The sum of two accumulators, or of one slice of both, in ``left``.

    size: Length of a whole accumulator. most: Records that a unit may hold.

    Raises EngineError when a sum might not fit int64, IntegrityError when a number is negative or totals do not fit.
    """
    if left.size:
        # As unsigned numbers the negative ones are the largest: one pass finds both faults.
        if int(left.view(np.uint64).max()) + int(right.view(np.uint64).max()) > _MOST:
            if min(left.min(), right.min()) < 0:
                raise IntegrityError("a merged count is negative; want sums over units")
            raise EngineError("a count does not fit 64 bits")
        left += right
    if left.size == size:
        _check_totals(int(left[-2]), int(left[-1]), most)
    return left


def extracted(accumulator: NDArray[np.int64], size: int, most: int) -> tuple[NDArray[np.int64], int]:
    """Counts and the number of records of a whole accumulator whose totals fit each other."""
    if accumulator.shape != (size,) or accumulator.dtype != np.int64 or accumulator.min() < 0:
        raise IntegrityError("an accumulator is not that of its aggregator; want all slices, with counts >= 0")
    _check_totals(int(accumulator[-2]), int(accumulator[-1]), most)
    return accumulator[:-SLOTS], int(accumulator[-2])


def _check_totals(records: int, units: int, most: int) -> None:
    if not units <= records <= most * units:
        raise IntegrityError(f"units hold more rows than declared, or none; want 1 .. {most} rows each")
