"""Counts conjunctions over weighted records, whose weights are stored as bit planes like the bit rows of columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from pipelines.aggregators.packing import flip_of, ones_of


def planes_of(weights: NDArray[np.int64], words: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The bit planes of weights.

    weights: Non-negative weights, int64 [groups, records].
    words: Words per bit row.

    Returns: The planes, uint64 [groups, bits, words], where plane p holds bit p of each record's weight; and the reach
        of each plane, int64 [groups, bits], which is the number of words up to its last nonzero word.
    """
    planes = np.zeros((len(weights), int(weights.max(initial=0)).bit_length(), words), dtype=np.uint64)
    reach = np.zeros(planes.shape[:2], dtype=np.int64)
    _fill_planes(planes, reach, weights)
    return planes, reach


@compiled
def _fill_planes(planes: NDArray[np.uint64], reach: NDArray[np.int64], weights: NDArray[np.int64]) -> None:
    for group in range(weights.shape[0]):
        for record in range(weights.shape[1]):
            weight, plane = weights[group, record], 0
            while weight:
                if weight & 1:
                    planes[group, plane, record >> 6] |= np.uint64(1) << np.uint64(record & 63)
                    reach[group, plane] = (record >> 6) + 1
                weight >>= 1
                plane += 1


@compiled
def weigh(
    sums: NDArray[np.int64],
    bits: NDArray[np.uint64],
    planes: NDArray[np.uint64],
    reach: NDArray[np.int64],
    rows: NDArray[np.uint32],
    negated: NDArray[np.bool_],
    groups: NDArray[np.int32],
    chosen: NDArray[np.int64],
) -> None:
    """Adds to each chosen query the weights of the records that satisfy it.

    sums: Receives the weights, int64 [m].
    bits: Bit rows of the records, uint64 [rows, words].
    planes: Bit planes of the weights of each group, uint64 [groups, bits, words].
    reach: Number of words up to the last nonzero word of each plane, int64 [groups, bits].
    rows: Bit row of each literal, uint32 [m, k].
    negated: Whether each literal is negated, bool [m, k].
    groups: Group of each query, int32 [m].
    chosen: Indices of the queries to which weights are added, int64.
    """
    order, words = rows.shape[1], bits.shape[1]
    both = np.empty(words, dtype=np.uint64)
    second, third = min(1, order - 1), min(2, order - 1)
    for query in chosen:
        a, b, c = rows[query, 0], rows[query, second], rows[query, third]
        x, y, z = flip_of(negated[query, 0]), flip_of(negated[query, second]), flip_of(negated[query, third])
        for word in range(words):
            both[word] = (bits[a, word] ^ x) & (bits[b, word] ^ y) & (bits[c, word] ^ z)
        for literal in range(3, order):
            d, w = rows[query, literal], flip_of(negated[query, literal])
            for word in range(words):
                both[word] &= bits[d, word] ^ w
        group = groups[query]
        for plane in range(reach.shape[1]):
            ones = np.int64(0)
            for word in range(reach[group, plane]):
                ones += ones_of(both[word] & planes[group, plane, word])
            sums[query] += ones << plane
