"""Records as bitmaps: one row of words for each 0/1 column that is asked for, 64 records a word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import BinaryView
from pipelines.aggregators.protocol import BasketBlock, Block

_WORD = 64
_VECTOR = 8  # Words that a processor with wide registers takes at once.
# About what a core's second cache level holds, in bytes, and how often that fits in its part of the last level.
_CACHE = 1 << 20
_LAST_CACHES = 8
# Rows of fewer words cost more time for each query than for their words.
_FEW_WORDS = 32
_MOST_WORDS = 512


@dataclass(frozen=True, eq=False)
class Packing:
    """Which columns of a view get a row of bits.

    row_of: int32 [columns of the view], row of each column, -1 for one that is not asked for.
    used: Number of rows.
    offsets: int64 [groups], first column of each attribute of a table.
    """

    row_of: NDArray[np.int32]
    used: int
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, view: BinaryView, columns: NDArray[np.int32]) -> Packing:
        """columns: int32, those that are asked for, in any order, repeats allowed."""
        named = np.zeros(view.columns, dtype=np.bool_)
        named[columns] = True
        row_of = np.cumsum(named, dtype=np.int32) - 1
        row_of[~named] = -1
        return cls(row_of, int(named.sum()), np.array([start for start, _ in view.groups], dtype=np.int64))

    def rows_of(self, columns: NDArray[np.int32]) -> NDArray[np.uint32]:
        """Rows of columns that are all asked for; unsigned, for which no index has to be checked for being negative."""
        return self.row_of[columns].astype(np.uint32)

    def slabs(self, block: Block) -> Iterator[tuple[slice, NDArray[np.uint64]]]:
        """The block's records, a slab after another, and their bitmaps uint64 [used, words]; 0 behind the last record.

        The bitmaps of a slab are overwritten by those of the next one.
        """
        records = records_of(block)
        if not records:
            return
        words = min(_words(self.used), -(-records // (_WORD * _VECTOR)) * _VECTOR)
        bits = _aligned(self.used, words)
        for first in range(0, records, words * _WORD):
            here = slice(first, min(first + words * _WORD, records))
            bits[:] = 0
            if isinstance(block, BasketBlock):
                _fill_baskets(bits, block.starts[here.start : here.stop + 1], block.items, self.row_of)
            else:
                _fill_table(bits, block.codes[:, here], self.offsets, self.row_of)
            yield here, bits


def _words(rows: int) -> int:
    """Words of a slab: what the second cache level holds, or more where they are few and the last level holds them."""
    in_second, in_last = _CACHE // (8 * max(1, rows)), _LAST_CACHES * _CACHE // (8 * max(1, rows))
    wanted = max(in_second, min(_FEW_WORDS, in_last))
    return min(max(wanted // _VECTOR * _VECTOR, _VECTOR), _MOST_WORDS)


def records_of(block: Block) -> int:
    """Units of baskets, kept rows of a table."""
    return block.units if isinstance(block, BasketBlock) else int(block.codes.shape[1])


def missing_of(here: slice, bits: NDArray[np.uint64]) -> int:
    """Bits of a slab behind its last record."""
    return int(_WORD * bits.shape[1] - (here.stop - here.start))


# Kernels over bitmaps index two dimensions where a row would read better: numba counts the references to every row that
# it takes, and that may last longer than the work on it.


@compiled
def flip_of(negated: bool) -> np.uint64:
    """What turns a word around that is xor-ed with it, where the literal is negated."""
    return ~np.uint64(0) if negated else np.uint64(0)


@compiled
def ones_of(word: np.uint64) -> np.int64:
    """Population count (Warren, Hacker's Delight, 5-1), which LLVM turns into one instruction."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


def _aligned(rows: int, words: int) -> NDArray[np.uint64]:
    """Memory for bitmaps, in which no vector of a row of whole vectors lies across two cache lines."""
    memory = np.empty(rows * words + _VECTOR, dtype=np.uint64)
    skipped = -(memory.ctypes.data // memory.itemsize) % _VECTOR
    return memory[skipped : skipped + rows * words].reshape(rows, words)


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
