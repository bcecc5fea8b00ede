"""Conjunctions by bitmaps: one bit a record, 64 records a word, one row of words for each column that is asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.errors import IntegrityError
from dpcore.queries import Conjunctions
from pipelines.aggregators.protocol import SLOTS, BasketBlock, Block, entered, extracted, merge_counts

_WORD = 64
# Bitmaps of one pass, in bytes: about what a core's second cache level holds.
_CACHE = 1 << 20
_FEWEST_WORDS = 8
_MOST_WORDS = 1024


@dataclass(frozen=True, eq=False)
class Bitmaps:
    """Counts the records (units of baskets, kept rows of a table) that satisfy each conjunction.

    rows: int32 [m, k], row of the bitmaps for each literal.
    negated: bool [m, k]; True where the literal wants a 0.
    row_of: int32 [columns], row of the bitmaps for each column of the view, -1 for columns that no query names.
    used: Number of rows of the bitmaps.
    offsets: int64 [groups], first column of each attribute of a table.
    most: Records that a unit may hold: rows of a table, 1 for baskets.
    """

    rows: NDArray[np.int32]
    negated: NDArray[np.bool_]
    row_of: NDArray[np.int32]
    used: int
    offsets: NDArray[np.int64]
    most: int

    @classmethod
    def of(cls, queries: Conjunctions, most: int) -> Bitmaps:
        named, rows = np.unique(queries.columns, return_inverse=True)
        row_of = np.full(queries.view.columns, -1, dtype=np.int32)
        row_of[named] = np.arange(named.size)
        offsets = np.array([start for start, _ in queries.view.groups], dtype=np.int64)
        shaped = rows.reshape(queries.columns.shape).astype(np.int32)
        return cls(shaped, queries.negated, row_of, named.size, offsets, most)

    def create(self) -> NDArray[np.int64]:
        return np.zeros(len(self.rows) + SLOTS, dtype=np.int64)

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        entered(accumulator, block, self.most)
        records = block.units if isinstance(block, BasketBlock) else block.codes.shape[1]
        wanted = min(max(_CACHE // (8 * self.used), _FEWEST_WORDS), _MOST_WORDS)
        words = min(wanted, records // _WORD + 1)
        bits = np.empty((self.used, words), dtype=np.uint64)
        for first in range(0, records, words * _WORD):
            here = min(records - first, words * _WORD)
            bits[:] = 0
            if isinstance(block, BasketBlock):
                _fill_baskets(bits, block.starts[first : first + here + 1], block.items, self.row_of)
            else:
                _fill_table(bits, block.codes[:, first : first + here], self.offsets, self.row_of)
            _count(accumulator, bits, _present(here, words), self.rows, self.negated)
        return accumulator

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        return merge_counts(left, right, len(self.rows) + SLOTS, self.most)

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        counts, records = extracted(accumulator, len(self.rows) + SLOTS, self.most)
        if counts.max() > records:
            raise IntegrityError("a conjunction counts more records than there are; want all slices once each")
        return counts


def _present(records: int, words: int) -> NDArray[np.uint64]:
    """A 1 for every record. The bits behind the last record must not count where a literal is negated."""
    present = np.zeros(words, dtype=np.uint64)
    present[: records // _WORD] = ~np.uint64(0)
    if records % _WORD:
        present[records // _WORD] = (1 << records % _WORD) - 1
    return present


@compiled
def _fill_baskets(
    bits: NDArray[np.uint64], starts: NDArray[np.int64], items: NDArray[np.int32], row_of: NDArray[np.int32]
) -> None:
    for unit in range(starts.size - 1):
        word, bit = unit >> 6, np.uint64(1) << np.uint64(unit & 63)
        for pair in range(starts[unit], starts[unit + 1]):
            row = row_of[items[pair]]
            if row >= 0:
                bits[row, word] |= bit


@compiled
def _fill_table(
    bits: NDArray[np.uint64], codes: NDArray[np.integer], offsets: NDArray[np.int64], row_of: NDArray[np.int32]
) -> None:
    for attribute in range(codes.shape[0]):
        for record in range(codes.shape[1]):
            row = row_of[offsets[attribute] + codes[attribute, record]]
            if row >= 0:
                bits[row, record >> 6] |= np.uint64(1) << np.uint64(record & 63)


@compiled
def _count(
    counts: NDArray[np.int64],
    bits: NDArray[np.uint64],
    present: NDArray[np.uint64],
    rows: NDArray[np.int32],
    negated: NDArray[np.bool_],
) -> None:
    words = present.size
    both = np.empty(words, dtype=np.uint64)
    for query in range(rows.shape[0]):
        for word in range(words):
            both[word] = present[word]
        for literal in range(rows.shape[1]):
            row = bits[rows[query, literal]]
            flip = ~np.uint64(0) if negated[query, literal] else np.uint64(0)
            for word in range(words):
                both[word] &= row[word] ^ flip
        total = np.int64(0)
        for word in range(words):
            # Population count of a word (Warren, Hacker's Delight, 5-1), which LLVM turns into one instruction.
            ones = both[word]
            ones -= (ones >> np.uint64(1)) & np.uint64(0x5555555555555555)
            ones = (ones & np.uint64(0x3333333333333333)) + ((ones >> np.uint64(2)) & np.uint64(0x3333333333333333))
            ones = (ones + (ones >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
            total += np.int64((ones * np.uint64(0x0101010101010101)) >> np.uint64(56))
        counts[query] += total
