"""Conjunctions by bitmaps: the AND of a few rows of words, and its ones counted, or weighed where records repeat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.errors import IntegrityError
from dpcore.queries import Conjunctions
from pipelines.aggregators.columns import NamedColumns, records_of
from pipelines.aggregators.distinct import distinct_records
from pipelines.aggregators.protocol import SLOTS, Block, TableBlock, entered, extracted, merge_counts


@dataclass(frozen=True, eq=False)
class Bitmaps:
    """Counts the records (units of baskets, kept rows of a table) that satisfy each conjunction.

    columns: The queries by the rows of the bitmaps.
    most: Records that a unit may hold: rows of a table, 1 for baskets.
    """

    columns: NamedColumns
    most: int

    @classmethod
    def of(cls, queries: Conjunctions, most: int) -> Bitmaps:
        return cls(NamedColumns.of(queries), most)

    @property
    def _size(self) -> int:
        return len(self.columns.rows) + SLOTS

    def create(self) -> NDArray[np.int64]:
        return np.zeros(self._size, dtype=np.int64)

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        entered(accumulator, block, self.most)
        literals = self.columns.rows, self.columns.negated
        repeated = distinct_records(block, self.columns) if isinstance(block, TableBlock) else None
        if repeated is not None:
            for here, bits in self.columns.slabs(repeated.block):
                planes, reach = _planes(repeated.times[here], bits.shape[1])
                _weigh(accumulator, bits, planes, reach, *literals)
        elif records_of(block):
            for here, bits in self.columns.slabs(block):
                _count(accumulator, bits, 64 * bits.shape[1] - (here.stop - here.start), *literals)
        return accumulator

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        return merge_counts(left, right, self._size, self.most)

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        counts, records = extracted(accumulator, self._size, self.most)
        if counts.max() > records:
            raise IntegrityError("a conjunction counts more records than there are; want all slices once each")
        return counts


def _planes(times: NDArray[np.int64], words: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The multiplicities of records bit by bit: uint64 [bits, words], and how many words of each are not all 0."""
    bits = np.zeros((int(times.max()).bit_length(), words * 64), dtype=np.uint8)
    bits[:, : times.size] = times >> np.arange(len(bits))[:, None] & 1
    planes = np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64, copy=False)
    return planes, np.array([np.flatnonzero(plane).max(initial=-1) + 1 for plane in planes], dtype=np.int64)


@compiled
def _ones(word: np.uint64) -> np.int64:
    """Population count (Warren, Hacker's Delight, 5-1), which LLVM turns into one instruction."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@compiled
def _flip(negated: bool) -> np.uint64:
    return ~np.uint64(0) if negated else np.uint64(0)


@compiled
def _and(
    both: NDArray[np.uint64], bits: NDArray[np.uint64], rows: NDArray[np.int32], negated: NDArray[np.bool_], first: int
) -> None:
    """The AND of the literals from ``first`` on; of those before, ``both`` holds it already."""
    for literal in range(first, rows.size):
        row, flip = bits[rows[literal]], _flip(negated[literal])
        for word in range(both.size):
            both[word] = (both[word] if literal else ~np.uint64(0)) & (row[word] ^ flip)


@compiled
def _count(
    counts: NDArray[np.int64],
    bits: NDArray[np.uint64],
    missing: int,
    rows: NDArray[np.int32],
    negated: NDArray[np.bool_],
) -> None:
    """missing: Bits behind the last record, which satisfy a query whose literals are all negated."""
    order, words = rows.shape[1], bits.shape[1]
    both = np.empty(words, dtype=np.uint64)
    for query in range(rows.shape[0]):
        total = np.int64(0)
        # Three rows at a time stay in registers; a query of fewer literals reads its last one again.
        second, third = min(1, order - 1), min(2, order - 1)
        a, b, c = bits[rows[query, 0]], bits[rows[query, second]], bits[rows[query, third]]
        x, y, z = _flip(negated[query, 0]), _flip(negated[query, second]), _flip(negated[query, third])
        if order <= 3:
            for word in range(words):
                total += _ones((a[word] ^ x) & (b[word] ^ y) & (c[word] ^ z))
        else:
            for word in range(words):
                both[word] = (a[word] ^ x) & (b[word] ^ y) & (c[word] ^ z)
            _and(both, bits, rows[query], negated[query], 3)
            for word in range(words):
                total += _ones(both[word])
        counts[query] += total - (missing if negated[query].all() else 0)


@compiled
def _weigh(
    counts: NDArray[np.int64],
    bits: NDArray[np.uint64],
    planes: NDArray[np.uint64],
    reach: NDArray[np.int64],
    rows: NDArray[np.int32],
    negated: NDArray[np.bool_],
) -> None:
    """Counts a record as often as it repeats: bit p of the number of times is in planes[p]."""
    order, words = rows.shape[1], bits.shape[1]
    both = np.empty(words, dtype=np.uint64)
    for query in range(rows.shape[0]):
        second, third = min(1, order - 1), min(2, order - 1)
        a, b, c = bits[rows[query, 0]], bits[rows[query, second]], bits[rows[query, third]]
        x, y, z = _flip(negated[query, 0]), _flip(negated[query, second]), _flip(negated[query, third])
        for word in range(words):
            both[word] = (a[word] ^ x) & (b[word] ^ y) & (c[word] ^ z)
        _and(both, bits, rows[query], negated[query], 3)
        for plane in range(reach.size):
            total = np.int64(0)
            for word in range(reach[plane]):
                total += _ones(both[word] & planes[plane, word])
            counts[query] += total << plane
