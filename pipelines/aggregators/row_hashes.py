"""Sums of keyed hashes of all valid rows, beside the counts of another aggregator and from the same reading.

The sum of the rows' hashes depends on which rows there are and how often, and not on their order: two sets of rows have
the same sum with a probability of about 2^-64. So it tells whether the rows that were counted are those that were
counted before. This is the multiset hash by addition of Clarke, Devadas, van Dijk, Gassend and Suh (2003), "Incremental
multiset hash functions and their application to memory integrity checking", section 5, with SipHash as its keyed
function and without the encryption of the sum, which never leaves the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from pipelines.aggregators.protocol import Aggregator, Block, merge_counts
from pipelines.contribution import unit_words
from pipelines.encode import EncodedRows
from pipelines.hashing import hash_words, key_of

KEY_BYTES: Final = 16
_LIMBS: Final = 4  # Sums of 16 bits each fit int64 for up to 2^47 rows, and merge as counts do.
_LIMB_BITS: Final = 16
_ROWS_AT_ONCE: Final = 1 << 16


@dataclass(frozen=True)
class RowSums:
    """What identifies a multiset of encoded rows. SENSITIVE.

    rows: Number of valid rows, before units are truncated.
    hashes: For each key, the sum of the rows' hashes modulo 2^64.
    """

    rows: int = field(repr=False)
    hashes: tuple[int, ...] = field(repr=False)


@final
@dataclass(frozen=True)
class RowHashes:
    """An aggregator that also sums keyed hashes of the rows, before they are truncated.

    The number of rows and the sums are the first entries of an accumulator. All others are those of ``counts``.

    counts: The aggregator of the counts.
    max_records: Maximum number of records of a unit.
    keys: Keys of the hashes, 16 bytes each. SENSITIVE.
    """

    counts: Aggregator
    max_records: int
    keys: tuple[bytes, ...] = field(repr=False)

    def create(self) -> NDArray[np.int64]:
        """Zeros, the neutral element of ``merge``."""
        return np.zeros(self._size, dtype=np.int64)

    def add_rows(self, accumulator: NDArray[np.int64], rows: EncodedRows) -> None:
        """Adds the hashes of encoded rows. SENSITIVE.

        accumulator: The accumulator, changed in place.
        rows: All valid rows of whole units.
        """
        accumulator[0] += len(rows.units)
        for number, key in enumerate(self.keys):
            start = 1 + number * _LIMBS
            accumulator[start : start + _LIMBS] += _summed(rows, key)

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        """Counts a block of whole units; returns the accumulator, changed in place."""
        accumulator[self._start :] = self.counts.add(accumulator[self._start :], block)
        return accumulator

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Adds two accumulators, or the same slice of both; returns ``left``, changed in place."""
        return merge_counts(left, right, self._size, self.max_records)

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        """The counts of a whole accumulator, checked against its totals."""
        return self.counts.extract(self.without_sums(accumulator))

    def without_sums(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        """The accumulator of ``counts`` alone."""
        return accumulator[self._start :]

    def sums(self, accumulator: NDArray[np.int64]) -> RowSums:
        """The sums in a whole accumulator. SENSITIVE."""
        limbs = accumulator[1 : self._start].reshape(len(self.keys), _LIMBS).tolist()
        return RowSums(int(accumulator[0]), tuple(_joined(own) for own in limbs))

    @property
    def _start(self) -> int:
        return 1 + len(self.keys) * _LIMBS

    @cached_property
    def _size(self) -> int:
        return self._start + self.counts.create().size


def _summed(rows: EncodedRows, key: bytes) -> NDArray[np.int64]:
    """For each part of 16 bits of a hash, from the lowest, its sum over all rows, int64 [4]."""
    limbs = np.zeros(_LIMBS, dtype=np.int64)
    words = np.empty((len(rows.rows) + 1, min(_ROWS_AT_ONCE, len(rows.units))), dtype=np.uint64)
    for start in range(0, len(rows.units), _ROWS_AT_ONCE):
        units = rows.units.slice(start, _ROWS_AT_ONCE)
        part = words[:, : len(units)]
        part[0] = unit_words(units, key)
        part[1:] = rows.rows[:, start : start + len(units)]
        hashes = hash_words(part, key_of(key))
        for limb in range(_LIMBS):
            limbs[limb] += int(((hashes >> np.uint64(limb * _LIMB_BITS)) & np.uint64(0xFFFF)).sum())
    return limbs


def _joined(limbs: Sequence[int]) -> int:
    return sum(limb << (place * _LIMB_BITS) for place, limb in enumerate(limbs)) % (1 << 64)
