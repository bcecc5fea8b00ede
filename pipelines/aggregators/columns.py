"""Records as bitmaps: one bit a record, 64 records a word, one row of words for each column that some query names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.queries import Conjunctions
from pipelines.aggregators.protocol import BasketBlock, Block

_WORD = 64
_VECTOR = 8  # Words that a processor with wide registers takes at once.
# Bitmaps of one slab, in bytes: about what a core's second cache level holds.
_CACHE = 1 << 20
_MOST_WORDS = 512


@dataclass(frozen=True, eq=False)
class NamedColumns:
    """Conjunctions by the rows of the bitmaps that their literals read.

    rows: int32 [m, k], row of each literal, 0 .. used - 1.
    negated: bool [m, k]; True where the literal wants a 0.
    row_of: int32 [columns], row of each column of the view, -1 for columns that no query names.
    used: Number of rows of the bitmaps.
    offsets: int64 [groups], first column of each attribute of a table.
    """

    rows: NDArray[np.int32]
    negated: NDArray[np.bool_]
    row_of: NDArray[np.int32]
    used: int
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, queries: Conjunctions) -> NamedColumns:
        named = np.zeros(queries.view.columns, dtype=np.bool_)
        named[queries.columns] = True
        row_of = np.cumsum(named, dtype=np.int32) - 1
        row_of[~named] = -1
        offsets = np.array([start for start, _ in queries.view.groups], dtype=np.int64)
        return cls(row_of[queries.columns], queries.negated, row_of, int(named.sum()), offsets)

    def slabs(self, block: Block) -> Iterator[tuple[slice, NDArray[np.uint64]]]:
        """The block's records, a slab after another, and their bitmaps uint64 [used, words]; 0 behind the last record.

        The bitmaps of a slab are overwritten by those of the next one.
        """
        records = records_of(block)
        wanted = min(max(_CACHE // (8 * self.used) // _VECTOR * _VECTOR, _VECTOR), _MOST_WORDS)
        words = min(wanted, -(-records // (_WORD * _VECTOR)) * _VECTOR)
        bits = _aligned(self.used, words)
        for first in range(0, records, words * _WORD):
            here = slice(first, min(first + words * _WORD, records))
            bits[:] = 0
            if isinstance(block, BasketBlock):
                _fill_baskets(bits, block.starts[here.start : here.stop + 1], block.items, self.row_of)
            else:
                _fill_table(bits, block.codes[:, here], self.offsets, self.row_of)
            yield here, bits


def records_of(block: Block) -> int:
    """Units of baskets, kept rows of a table."""
    return block.units if isinstance(block, BasketBlock) else int(block.codes.shape[1])


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
