"""The ``Aggregator`` interface, and the blocks of encoded rows that aggregators read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import EngineError, IntegrityError

SLOTS: Final = 2
"""Number of totals after the counts of an accumulator: the number of records (kept rows of a table, units of baskets),
and the number of units."""

_MAX_INT64 = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class TableBlock:
    """Kept rows of whole units within the contribution bound. SENSITIVE.

    codes: Codes in the order of the schema, uint8, uint16 or int32 [attributes, rows].
    units: Number of units that the rows come from.
    """

    codes: NDArray[np.integer]
    units: int


@dataclass(frozen=True, eq=False)
class BasketBlock:
    """Kept pairs of whole units within the contribution bound. SENSITIVE.

    starts: Start of each unit in ``items``, int64 [units + 1]. Every unit has at least one item.
    items: Items, int32 [pairs], in any order within a unit. An item may occur more than once.
    """

    starts: NDArray[np.int64]
    items: NDArray[np.int32]

    @property
    def units(self) -> int:
        """Number of units."""
        return self.starts.size - 1


Block = TableBlock | BasketBlock


class Aggregator(Protocol):
    """One exact sum over units. An aggregator is the same on every engine, and can be pickled.

    Contract, checked for every aggregator by tests/unit/pipelines/aggregators:
        * An accumulator is an int64 vector of counts, followed by SLOTS totals. ``create`` returns zeros, the neutral
          element of ``merge``.
        * ``add`` may change ``accumulator`` in place, and returns it. The sum does not depend on how units are
          distributed over blocks.
        * ``merge`` adds element by element, so that engines may merge slices. It may change ``left`` in place, leaves
          ``right`` unchanged, and raises EngineError instead of overflowing.
        * ``extract`` returns the counts without the totals.
        * No contribution above the declared bound goes unnoticed. IntegrityError is raised by ``add`` for a block with
          more records than its units may have, by ``merge`` for a negative number in any slice and for inconsistent
          totals in a whole accumulator, and by ``extract`` for counts that contradict the totals, for example because a
          slice was lost or merged twice.
    """

    def create(self) -> NDArray[np.int64]:
        """Zeros, the neutral element of ``merge``."""
        ...

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        """Counts a block of whole units; returns the accumulator, changed in place."""
        ...

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Adds two accumulators, or the same slice of both; returns ``left``, changed in place."""
        ...

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        """The counts of a whole accumulator, checked against its totals."""
        ...


def enter_block(accumulator: NDArray[np.int64], block: Block, max_records: int) -> None:
    """Adds the block's records and units to the totals, before the block is counted.

    accumulator: The accumulator, int64.
    block: The block that will be counted.
    max_records: Maximum number of records of a unit.

    Raises: IntegrityError when the block has more records than its units may have.
    """
    records = block.units if isinstance(block, BasketBlock) else block.codes.shape[1]
    _check_totals(records, block.units, max_records)
    accumulator[-SLOTS:] += (records, block.units)


def merge_counts(left: NDArray[np.int64], right: NDArray[np.int64], size: int, max_records: int) -> NDArray[np.int64]:
    """Adds ``right`` to ``left``: two accumulators, or the same slice of both.

    left: Receives the sum, int64.
    right: Stays unchanged, int64 of the same length.
    size: Length of a whole accumulator.
    max_records: Maximum number of records of a unit.

    Raises: EngineError when a sum might not fit int64; IntegrityError when a number is negative or the totals
        contradict each other.
    """
    if left.size:
        # Read as unsigned, negative numbers exceed all others, so the maximum detects overflow and negative numbers.
        if int(left.view(np.uint64).max()) + int(right.view(np.uint64).max()) > _MAX_INT64:
            if min(left.min(), right.min()) < 0:
                raise IntegrityError("a merged count is negative; want sums over units")
            raise EngineError("a count does not fit 64 bits; want fewer units or a smaller contribution bound")
        left += right
    if left.size == size:
        _check_totals(int(left[-2]), int(left[-1]), max_records)
    return left


def extract_counts(accumulator: NDArray[np.int64], size: int, max_records: int) -> tuple[NDArray[np.int64], int]:
    """The counts and the number of records of a whole accumulator.

    accumulator: The merged accumulator.
    size: Its expected length.
    max_records: Maximum number of records of a unit.

    Raises: IntegrityError when the accumulator has another length or a negative number, or its totals contradict each
        other.
    """
    if accumulator.shape != (size,) or accumulator.dtype != np.int64 or accumulator.min() < 0:
        raise IntegrityError("an accumulator does not fit its aggregator; want all slices, with counts >= 0")
    _check_totals(int(accumulator[-2]), int(accumulator[-1]), max_records)
    return accumulator[:-SLOTS], int(accumulator[-2])


def _check_totals(records: int, units: int, max_records: int) -> None:
    if not units <= records <= max_records * units:
        raise IntegrityError(f"some unit has no row, or more rows than declared; want 1 .. {max_records} per unit")
