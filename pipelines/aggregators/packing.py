"""Packs records into bitmaps: one bit row per queried binary column, with 64 records per word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import BinaryView
from pipelines.aggregators.protocol import BasketBlock, Block

_WORD = 64
_VECTOR = 8  # Number of words in the widest registers of a processor.
_CACHE = 1 << 20  # Typical size of a core's L2 cache, in bytes.
_LAST_CACHES = 8  # Typical size of a core's share of the last-level cache, in units of _CACHE.
_FEW_WORDS = 32  # With fewer words per row, the overhead per query exceeds the work on the words.
_MAX_WORDS = 512


@dataclass(frozen=True, eq=False)
class Packing:
    """The bit rows of the queried columns of a binary view.

    row_of: Bit row of each column, int32 [columns of the view]; -1 for columns that are not queried.
    used: Number of bit rows.
    offsets: First column of each attribute of a table, int64 [attributes]; empty for baskets.
    """

    row_of: NDArray[np.int32]
    used: int
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, view: BinaryView, columns: NDArray[np.int32]) -> Packing:
        """The packing of the queried columns.

        view: The binary view of the records.
        columns: The queried columns, int32, in any order. A column may occur more than once.
        """
        queried = np.zeros(view.columns, dtype=np.bool_)
        queried[columns] = True
        row_of = np.cumsum(queried, dtype=np.int32) - 1
        row_of[~queried] = -1
        return cls(row_of, int(queried.sum()), np.array([start for start, _ in view.groups], dtype=np.int64))

    def rows_of(self, columns: NDArray[np.int32]) -> NDArray[np.uint32]:
        """Bit rows of queried columns. They are unsigned, so that compiled code need not check for negative indices."""
        return self.row_of[columns].astype(np.uint32)

    def slabs(self, block: Block, *, by_size: bool = False) -> Iterator[tuple[slice, NDArray[np.uint64]]]:
        """Yields the records of a block slab by slab: a slice of records, and their bitmaps, uint64 [used, words].

        Bits after the last record are 0. The next slab overwrites the bitmaps.

        block: The records.
        by_size: Whether large baskets come first. Those that satisfy many queries are then in few slabs, and in few
            words of these. A table keeps its order.
        """
        records = records_of(block)
        if not records:
            return
        words = min(_words(self.used), -(-records // (_WORD * _VECTOR)) * _VECTOR)
        bits = _aligned(self.used, words)
        units = np.arange(records)
        if by_size and isinstance(block, BasketBlock):
            units = np.argsort(-np.diff(block.starts), kind="stable")
        for first in range(0, records, words * _WORD):
            span = slice(first, min(first + words * _WORD, records))
            bits[:] = 0
            if isinstance(block, BasketBlock):
                _fill_baskets(bits, block.starts, block.items, units[span], self.row_of)
            else:
                _fill_table(bits, block.codes[:, span], self.offsets, self.row_of)
            yield span, bits


def _words(rows: int) -> int:
    """Words per bit row of a slab: as many as the second cache level holds, or the last level where that is few."""
    in_second, in_last = _CACHE // (8 * max(1, rows)), _LAST_CACHES * _CACHE // (8 * max(1, rows))
    words = max(in_second, min(_FEW_WORDS, in_last))
    return min(max(words // _VECTOR * _VECTOR, _VECTOR), _MAX_WORDS)


def records_of(block: Block) -> int:
    """Number of records: units of baskets, kept rows of a table."""
    return block.units if isinstance(block, BasketBlock) else int(block.codes.shape[1])


def missing_of(span: slice, bits: NDArray[np.uint64]) -> int:
    """Number of bits of a slab after its last record."""
    return int(_WORD * bits.shape[1] - (span.stop - span.start))


# Compiled loops index bitmaps in two dimensions, although taking a row first would be easier to read, because numba
# counts references to every row that is taken, which can take longer than the work on the row.


@compiled
def flip_of(negated: bool) -> np.uint64:
    """The word whose XOR with a bit row gives the literal: all ones if it is negated, otherwise zero."""
    return ~np.uint64(0) if negated else np.uint64(0)


@compiled
def ones_of(word: np.uint64) -> np.int64:
    """Population count (Warren, Hacker's Delight, 5-1), which LLVM compiles to a single instruction."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


def _aligned(rows: int, words: int) -> NDArray[np.uint64]:
    """Memory for bitmaps, aligned so that no vector spans two cache lines."""
    memory = np.empty(rows * words + _VECTOR, dtype=np.uint64)
    skipped = -(memory.ctypes.data // memory.itemsize) % _VECTOR
    return memory[skipped : skipped + rows * words].reshape(rows, words)


@compiled
def _fill_baskets(
    bits: NDArray[np.uint64],
    starts: NDArray[np.int64],
    items: NDArray[np.int32],
    units: NDArray[np.int64],
    row_of: NDArray[np.int32],
) -> None:
    for record in range(units.size):
        word, bit = record >> 6, np.uint64(1) << np.uint64(record & 63)
        for pair in range(starts[units[record]], starts[units[record] + 1]):
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
