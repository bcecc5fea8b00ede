"""Records as bitmaps: one row of words for each 0/1 column that is asked for, 64 records a word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import BinaryView
from pipelines.aggregators.protocol import BasketBlock, Block

_WORD: Final = 64
_CACHE: Final = 1 << 20  # Bitmaps of one pass, in bytes: about what a core's second cache level holds.
_FEWEST_WORDS: Final = 8
_MOST_WORDS: Final = 1024


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
        named = np.unique(columns)
        row_of = np.full(view.columns, -1, dtype=np.int32)
        row_of[named] = np.arange(named.size)
        return cls(row_of, named.size, np.array([start for start, _ in view.groups], dtype=np.int64))

    def pack(self, block: Block) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint64]]]:
        """The records of a block, some at a time, in one buffer that is filled again.

        Each part is (bits uint64 [used, words], present uint64 [words]), a 1 in ``present`` for every record: the bits
        behind the last one must not count as zeros of a record.
        """
        records = block.units if isinstance(block, BasketBlock) else block.codes.shape[1]
        wanted = min(max(_CACHE // (8 * max(1, self.used)), _FEWEST_WORDS), _MOST_WORDS)
        words = min(wanted, records // _WORD + 1)
        bits = np.empty((self.used, words), dtype=np.uint64)
        for first in range(0, records, words * _WORD):
            here = min(records - first, words * _WORD)
            bits[:] = 0
            if isinstance(block, BasketBlock):
                _fill_baskets(bits, block.starts[first : first + here + 1], block.items, self.row_of)
            else:
                _fill_table(bits, block.codes[:, first : first + here], self.offsets, self.row_of)
            yield bits, _present(here, words)


def _present(records: int, words: int) -> NDArray[np.uint64]:
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
