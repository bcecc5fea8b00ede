"""The items, pairs and triples that may still be frequent, from noisy supports alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled

MAX_TRIANGLES: Final = 1 << 21
"""Maximum number of triples that are scored."""


def rank_of_products(frequencies: NDArray[np.float64], rank: int) -> float:
    """The product of two different entries that has this rank among all such products, about.

    frequencies: float64 [m], descending, >= 0.
    rank: From 1. With fewer products, 0 is returned.
    """
    if frequencies.size * (frequencies.size - 1) // 2 < rank:
        return 0.0
    if frequencies[1] <= 0:
        return 0.0
    low, high = 0.0, float(frequencies[0] * frequencies[1])
    divisors = np.maximum(frequencies, frequencies[0] * 1e-12)  # Smaller ones make no product of this rank.
    for _ in range(60):  # Bisection of the threshold above which there are ``rank`` products.
        middle = (low + high) / 2
        # The number of later entries that make a product of at least the threshold with entry i.
        partners = np.searchsorted(-frequencies, -middle / divisors, side="right")
        count = np.maximum(partners - np.arange(1, frequencies.size + 1), 0).sum()
        low, high = (middle, high) if count >= rank else (low, middle)
    return low


def paired_items(counts: NDArray[np.float64], least: float, smallest: int, largest: int) -> NDArray[np.int64]:
    """Indices of the items whose pairs are measured: those of a noisy count of at least ``least``, ascending.

    counts: float64 [items].
    smallest, largest: Bounds on the number of items, which takes the most frequent ones.
    """
    order = np.argsort(-counts, kind="stable")
    wanted = int(np.searchsorted(-counts[order], -least, side="right"))
    return np.sort(order[: min(max(wanted, smallest), largest)])


@dataclass(frozen=True, eq=False)
class Candidates:
    """Itemsets to measure.

    itemsets: int32 [m, size], ascending within each itemset, in lexicographic order.
    predicted: Their predicted counts, float64 [m].
    """

    itemsets: NDArray[np.int32]
    predicted: NDArray[np.float64]


def candidate_triples(
    pairs: Candidates, counts: NDArray[np.float64], *, least: float, rank: int, part: float, largest: int
) -> Candidates:
    """The triples to measure; at least one.

    pairs: All pairs of some items, with their noisy counts; noise should be shrunk where it dominates.
    counts: Noisy count of each item of the view, float64.
    least: Smallest count that is of interest; 0 if ``rank`` decides alone.
    rank: How many triples are wanted. The prediction of that rank, if it is above ``least``, takes the place of it.
    part: Triples of a predicted count of ``part`` times the smallest of interest are candidates too.
    largest: Maximum number of triples.

    Pairs are taken by descending support, and each completes the triples whose other two pairs came before it
    (Agrawal and Srikant 1994: no triple is more frequent than its pairs). Of the first ``MAX_TRIANGLES`` triples those
    with the largest predictions are kept. A count is predicted as q_ab q_ac q_bc / (q_a q_b q_c), where no interaction
    of three items is assumed (Kirkwood 1935), and at most its smallest pair.
    """
    items = np.unique(pairs.itemsets)
    first, second = (np.searchsorted(items, column) for column in pairs.itemsets.T)
    values = np.zeros((items.size, items.size))
    singles = np.maximum(counts[items], 1.0)
    values[first, second] = values[second, first] = np.clip(
        pairs.predicted, 1e-9, np.minimum(singles[first], singles[second])
    )
    order = np.argsort(-pairs.predicted, kind="stable")
    triples = np.empty((min(MAX_TRIANGLES, math.comb(items.size, 3)), 3), dtype=np.int32)
    triples = triples[: _triangles(triples, first[order], second[order], items.size)]
    a, b, c = triples.T
    edges = np.stack([values[a, b], values[a, c], values[b, c]])
    predicted = np.minimum(edges.prod(axis=0) / (singles[a] * singles[b] * singles[c]), edges.min(axis=0))
    kept = np.argsort(-predicted, kind="stable")
    threshold = max(least, float(predicted[kept[min(rank, kept.size) - 1]]) if rank else 0.0)
    wanted = int(np.searchsorted(-predicted[kept], -part * threshold, side="right"))
    kept = kept[: min(max(wanted, min(rank, kept.size), 1), largest)]
    itemsets = np.sort(items[triples[kept]], axis=1)
    order = np.lexsort(itemsets.T[::-1])
    return Candidates(itemsets[order].astype(np.int32), predicted[kept][order])


@compiled
def _triangles(triples: NDArray[np.int32], first: NDArray[np.int64], second: NDArray[np.int64], items: int) -> int:
    """Writes the triples that the pairs complete, in their order, until ``triples`` is full. Returns their number."""
    joined = np.zeros((items, items), dtype=np.bool_)
    count = 0
    for edge in range(first.size):
        a, b = first[edge], second[edge]
        for c in range(items):
            if joined[a, c] & joined[b, c]:
                triples[count, 0], triples[count, 1], triples[count, 2] = a, b, c
                count += 1
                if count == triples.shape[0]:
                    return count
        joined[a, b] = joined[b, a] = True
    return count
