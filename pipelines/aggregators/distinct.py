"""Rows of a table that agree on every attribute that is asked about are one record, counted several times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from pipelines.aggregators.packing import Packing
from pipelines.aggregators.protocol import TableBlock

_FEWEST_ROWS: Final = 1 << 12
_REPEATS: Final = 4  # Rows for each distinct record below which it is not worth the search.
_PROBES: Final = 4  # Comparisons for each row, likewise.


@dataclass(frozen=True, eq=False)
class Repeated:
    """Distinct records, the most frequent first.

    block: Their codes, for attributes that nobody asks about of any of their rows; it holds no whole units any more.
    times: int64 [records], how many rows each stands for.
    """

    block: TableBlock
    times: NDArray[np.int64]


def distinct_records(block: TableBlock, packing: Packing) -> Repeated | None:
    """The distinct records of a block; None where rows hardly repeat, or there are few of them."""
    rows = block.codes.shape[1]
    if rows < _FEWEST_ROWS:
        return None
    stops = [*packing.offsets[1:].tolist(), packing.row_of.size]
    named = [
        attribute
        for attribute, (start, stop) in enumerate(zip(packing.offsets.tolist(), stops, strict=True))
        if (packing.row_of[start:stop] >= 0).any()
    ]
    widths = [max(1, (stops[attribute] - int(packing.offsets[attribute]) - 1).bit_length()) for attribute in named]
    words, shifts = _places(widths)
    keys = np.zeros((rows, words[-1] + 1), dtype=np.uint64)
    for attribute, word, shift in zip(named, words, shifts, strict=True):
        _pack(keys, block.codes[attribute], word, shift)
    first, times = np.empty(rows // _REPEATS, dtype=np.int64), np.zeros(rows // _REPEATS, dtype=np.int64)
    table = np.full(1 << (2 * first.size).bit_length(), -1, dtype=np.int64)
    found = _repeats(keys, table, first, times, _PROBES * rows)
    if found < 0:
        return None
    order = np.argsort(-times[:found], kind="stable")
    return Repeated(TableBlock(block.codes[:, first[order]], found), times[order])


def _places(widths: list[int]) -> tuple[list[int], list[int]]:
    """Word and shift of codes of so many bits, each within one word of 64."""
    words, shifts, word, used = [], [], 0, 0
    for width in widths:
        if used + width > 64:
            word, used = word + 1, 0
        words.append(word)
        shifts.append(used)
        used += width
    return words, shifts


@compiled
def _pack(keys: NDArray[np.uint64], codes: NDArray[np.integer], word: int, shift: int) -> None:
    for row in range(codes.size):
        keys[row, word] |= np.uint64(codes[row]) << np.uint64(shift)


@compiled
def _repeats(
    keys: NDArray[np.uint64],
    table: NDArray[np.int64],
    first: NDArray[np.int64],
    times: NDArray[np.int64],
    probes: int,
) -> int:
    """The first row of each distinct key and how often it comes, by open addressing; returns the number of keys.

    table: -1 in every slot, a power of two of them. probes: Comparisons that may be made.

    -1 when there are more keys than ``first`` holds, or keys collide so often that the comparisons run out.
    """
    found = 0
    mask = np.uint64(table.size - 1)
    for row in range(keys.shape[0]):
        mixed = np.uint64(0)
        for word in range(keys.shape[1]):
            mixed = (mixed ^ keys[row, word]) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(32)
        slot = mixed & mask
        while table[slot] >= 0:
            probes -= 1
            if probes < 0:
                return -1
            other, same = first[table[slot]], True
            for word in range(keys.shape[1]):
                same = same and keys[row, word] == keys[other, word]
            if same:
                break
            slot = (slot + np.uint64(1)) & mask
        if table[slot] < 0:
            if found == first.size:
                return -1
            table[slot] = found
            first[found] = row
            found += 1
        times[table[slot]] += 1
    return found
