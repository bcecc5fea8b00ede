"""Candidates against slow definitions: every pair of frequencies, every triple of items."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from dpcore.estimation.itemsets import candidates
from dpcore.estimation.itemsets.candidates import Candidates, candidate_triples, paired_items, rank_of_products
from dpcore.queries.itemsets import all_pairs


@pytest.mark.parametrize("rank", [1, 2, 17, 100, 190])
def test_the_threshold_has_the_rank_among_products(rank: int) -> None:
    frequencies = np.sort(np.random.default_rng(0).random(20) ** 3)[::-1]
    products = sorted((a * b for a, b in combinations(frequencies.tolist(), 2)), reverse=True)
    assert rank_of_products(frequencies, rank) == pytest.approx(products[rank - 1], rel=1e-6)


def test_without_so_many_products_the_threshold_is_zero() -> None:
    assert rank_of_products(np.array([0.5, 0.2]), 2) == 0.0


def test_paired_items_reach_the_threshold_within_the_bounds() -> None:
    counts = np.array([5.0, 9.0, 1.0, 7.0, -3.0])
    assert paired_items(counts, 5.0, 2, 5).tolist() == [0, 1, 3]
    assert paired_items(counts, 5.0, 2, 2).tolist() == [1, 3]
    assert paired_items(counts, 100.0, 2, 5).tolist() == [1, 3]


def slow_triples(
    pairs: Candidates, counts: np.ndarray, least: float, rank: int, part: float, largest: int
) -> dict[tuple[int, ...], float]:
    """Every triple with its prediction, and those that are kept."""
    singles = {item: max(float(counts[item]), 1.0) for item in np.unique(pairs.itemsets).tolist()}
    value = {
        tuple(pair): min(max(number, 1e-9), *(singles[item] for item in pair))
        for pair, number in zip(pairs.itemsets.tolist(), pairs.predicted.tolist(), strict=True)
    }
    predicted = {}
    for triple in combinations(sorted(singles), 3):
        edges = [value[pair] for pair in combinations(triple, 2)]
        predicted[triple] = min(float(np.prod(edges) / np.prod([singles[item] for item in triple])), *edges)
    ordered = sorted(predicted.items(), key=lambda item: -item[1])
    threshold = max(least, ordered[min(rank, len(ordered)) - 1][1] if rank else 0.0)
    wanted = sum(number >= part * threshold for _, number in ordered)
    return dict(ordered[: min(max(wanted, min(rank, len(ordered)), 1), largest)])


@pytest.mark.parametrize(
    ("least", "rank", "part", "largest"),
    [(0.0, 5, 0.5, 1000), (0.0, 5, 1.0, 1000), (0.0, 40, 0.5, 12), (30.0, 0, 0.5, 1000), (1e9, 0, 0.5, 1000)],
)
def test_candidates_are_those_of_the_definition(least: float, rank: int, part: float, largest: int) -> None:
    draw = np.random.default_rng(1)
    items = np.array([1, 3, 4, 6, 8, 9, 11], dtype=np.int32)
    counts = draw.uniform(50, 200, 12)
    pairs = Candidates(all_pairs(items), draw.uniform(-20, 150, 21))
    made = candidate_triples(pairs, counts, least=least, rank=rank, part=part, largest=largest)
    slow = slow_triples(pairs, counts, least, rank, part, largest)
    assert made.itemsets.tolist() == sorted(map(list, slow))
    assert made.predicted == pytest.approx([slow[tuple(triple)] for triple in made.itemsets.tolist()])
    assert made.itemsets.dtype == np.int32


def test_at_most_so_many_triples_are_scored_those_of_the_best_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "MAX_TRIANGLES", 2)
    items = np.arange(5, dtype=np.int32)
    pairs = Candidates(all_pairs(items), np.array([9.0, 8, 1, 1, 7, 1, 1, 6, 5, 1]))
    made = candidate_triples(pairs, np.full(5, 10.0), least=0.0, rank=2, part=1.0, largest=9)
    # In the order of the pairs (0 1), (0 2), (1 2), (2 3), (2 4): the third completes a triple, the others do not.
    assert made.itemsets.tolist()[0] == [0, 1, 2]
    assert len(made.itemsets) == 2
