"""Finds distinct records: rows that agree on every queried attribute become one record with a multiplicity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from pipelines.aggregators.packing import Packing
from pipelines.aggregators.protocol import TableBlock

_MIN_ROWS: Final = 1 << 12  # With fewer rows, the search costs more than it saves.
_MIN_REPEATS: Final = 4  # With fewer rows per distinct record, the search costs more than it saves.
_MAX_PROBES: Final = 4  # With more comparisons per row, the search costs more than it saves.


@dataclass(frozen=True, eq=False)
class Repeated:
    """Distinct records, with the most frequent one first.

    block: Codes of the records. An attribute that is not queried has the code of any one of the rows. The block does
        not hold whole units.
    times: Number of rows of each record, int64 [records].
    """

    block: TableBlock
    times: NDArray[np.int64]


def distinct_records(block: TableBlock, packing: Packing) -> Repeated | None:
    """The distinct records of a block; None if there are few rows, or if they seldom repeat.

    block: Kept rows of a table.
    packing: The columns that are queried.
    """
    rows = block.codes.shape[1]
    if rows < _MIN_ROWS:
        return None
    stops = [*packing.offsets[1:].tolist(), packing.row_of.size]
    queried = [
        attribute
        for attribute, (start, stop) in enumerate(zip(packing.offsets.tolist(), stops, strict=True))
        if (packing.row_of[start:stop] >= 0).any()
    ]
    widths = [max(1, (stops[attribute] - int(packing.offsets[attribute]) - 1).bit_length()) for attribute in queried]
    words, shifts = _bit_positions(widths)
    keys = np.zeros((rows, words[-1] + 1), dtype=np.uint64)
    for attribute, word, shift in zip(queried, words, shifts, strict=True):
        _pack(keys, block.codes[attribute], word, shift)
    max_records = rows // _MIN_REPEATS
    first, times = np.empty(max_records, dtype=np.int64), np.zeros(max_records, dtype=np.int64)
    table = np.full(1 << (2 * first.size).bit_length(), -1, dtype=np.int64)
    records = _repeats(keys, table, first, times, _MAX_PROBES * rows)
    if records < 0:
        return None
    order = np.argsort(-times[:records], kind="stable")
    return Repeated(TableBlock(block.codes[:, first[order]], records), times[order])


def _bit_positions(widths: list[int]) -> tuple[list[int], list[int]]:
    """Word and shift of each code in a key of 64-bit words, given the widths of the codes. No code spans two words."""
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
    """Finds the distinct keys by open addressing.

    keys: Key of each row, uint64 [rows, words].
    table: Hash table with -1 in every slot; its size is a power of two.
    first: Receives the first row of each key.
    times: Receives the number of rows of each key.
    probes: Maximum number of comparisons.

    Returns: The number of keys; -1 if ``first`` is too short for them, or more comparisons would be needed.
    """
    records = 0
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
            candidate, same = first[table[slot]], True
            for word in range(keys.shape[1]):
                same = same and keys[row, word] == keys[candidate, word]
            if same:
                break
            slot = (slot + np.uint64(1)) & mask
        if table[slot] < 0:
            if records == first.size:
                return -1
            table[slot] = records
            first[records] = row
            records += 1
        times[table[slot]] += 1
    return records
