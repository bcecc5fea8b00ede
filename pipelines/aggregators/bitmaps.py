"""Counts conjunctions on bitmaps: the population count of the AND of a few bit rows, weighted if records repeat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.errors import IntegrityError
from dpcore.queries import Conjunctions
from pipelines.aggregators.distinct import distinct_records
from pipelines.aggregators.packing import Packing, flip_of, missing_of, ones_of
from pipelines.aggregators.protocol import SLOTS, Block, TableBlock, enter_block, extract_counts, merge_counts
from pipelines.aggregators.weighing import planes_of, weigh


@dataclass(frozen=True, eq=False)
class Bitmaps:
    """Counts the records (units of baskets, kept rows of a table) that satisfy each of m conjunctions of k literals.

    rows: Bit row of each literal, uint32 [m, k].
    negated: Whether each literal is negated, bool [m, k].
    packing: The columns that have a bit row.
    max_records: Maximum number of records of a unit: the row bound of a table, 1 for baskets.
    """

    rows: NDArray[np.uint32]
    negated: NDArray[np.bool_]
    packing: Packing
    max_records: int

    @classmethod
    def of(cls, queries: Conjunctions, max_records: int) -> Bitmaps:
        """The aggregator of these conjunctions."""
        packing = Packing.of(queries.view, queries.columns)
        return cls(packing.rows_of(queries.columns), queries.negated, packing, max_records)

    def create(self) -> NDArray[np.int64]:
        """Zeros, the neutral element of ``merge``."""
        return np.zeros(len(self.rows) + SLOTS, dtype=np.int64)

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        """Counts a block of whole units; returns the accumulator, changed in place."""
        enter_block(accumulator, block, self.max_records)
        repeated = distinct_records(block, self.packing) if isinstance(block, TableBlock) else None
        if repeated is not None:
            for span, bits in self.packing.slabs(repeated.block):
                planes, reach = planes_of(repeated.times[None, span], bits.shape[1])
                one_group = np.zeros(len(self.rows), dtype=np.int32)
                all_queries = np.arange(len(self.rows))
                weigh(accumulator, bits, planes, reach, self.rows, self.negated, one_group, all_queries)
        else:
            for span, bits in self.packing.slabs(block):
                _count(accumulator, bits, missing_of(span, bits), self.rows, self.negated)
        return accumulator

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Adds two accumulators, or the same slice of both; returns ``left``, changed in place."""
        return merge_counts(left, right, len(self.rows) + SLOTS, self.max_records)

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        """The counts of a whole accumulator, checked against its totals."""
        counts, records = extract_counts(accumulator, len(self.rows) + SLOTS, self.max_records)
        if counts.max() > records:
            raise IntegrityError(
                "the count of a conjunction exceeds the number of records; want every slice exactly once"
            )
        return counts


@compiled
def _count(
    counts: NDArray[np.int64],
    bits: NDArray[np.uint64],
    missing: int,
    rows: NDArray[np.uint32],
    negated: NDArray[np.bool_],
) -> None:
    """Adds the counts of one slab of records.

    missing: Number of bits after the last record. They are 0, so they satisfy a query whose literals are all negated.
    """
    order, words = rows.shape[1], bits.shape[1]
    both = np.empty(words, dtype=np.uint64)
    # The conjunction of three rows stays in registers. A query with fewer literals reads its last row again.
    second, third = min(1, order - 1), min(2, order - 1)
    for query in range(rows.shape[0]):
        a, b, c = rows[query, 0], rows[query, second], rows[query, third]
        x, y, z = flip_of(negated[query, 0]), flip_of(negated[query, second]), flip_of(negated[query, third])
        all_negated = x & y & z
        total = np.int64(0)
        if order <= 3:
            for word in range(words):
                total += ones_of((bits[a, word] ^ x) & (bits[b, word] ^ y) & (bits[c, word] ^ z))
        else:
            for word in range(words):
                both[word] = (bits[a, word] ^ x) & (bits[b, word] ^ y) & (bits[c, word] ^ z)
            for literal in range(3, order):
                d, w = rows[query, literal], flip_of(negated[query, literal])
                all_negated &= w
                for word in range(words):
                    both[word] &= bits[d, word] ^ w
            for word in range(words):
                total += ones_of(both[word])
        counts[query] += total - (missing if all_negated else 0)
