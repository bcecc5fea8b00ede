"""Joint probabilities of a rejective sample, against the sum over all baskets of the size."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.estimation.baskets.fixed_size import pair_sums_of, pair_terms


def exact(logits: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Probabilities of all pairs in the rejective sample with these logits; the diagonal has those of single items."""
    baskets = np.array([[i in chosen for i in range(logits.size)] for chosen in combinations(range(logits.size), size)])
    weights = np.exp(baskets @ logits)
    return np.asarray((baskets * (weights / weights.sum())[:, None]).T @ baskets)


def approximate(p: NDArray[np.float64]) -> NDArray[np.float64]:
    sums, dominant = pair_sums_of(p[None], np.ones(p.size))
    c = pair_terms(p * (1 - p), sums[0], np.arange(p.size) == dominant[0])
    return np.asarray(np.outer(p, p) - np.outer(c, c))


@pytest.mark.parametrize("size", [2, 3, 5, 9])
@pytest.mark.parametrize("spread", [0.0, 0.5, 1.5])
def test_pairs_are_near_those_of_the_exact_law(size: int, spread: float) -> None:
    pairs = exact(np.random.default_rng(size).normal(0, spread, 12), size)
    off = ~np.eye(12, dtype=bool)
    assert np.abs(approximate(np.diag(pairs)) - pairs)[off].max() < 0.012


@pytest.mark.parametrize("p", [[0.2, 0.3, 0.5], [0.7, 0.1, 0.1, 0.1], [0.05] * 20])
def test_a_basket_of_one_item_has_no_pair(p: list[float]) -> None:
    pairs = approximate(np.array(p))
    np.fill_diagonal(pairs, 0)
    assert np.abs(pairs).max() < 1e-5


def test_pairs_of_an_item_sum_to_its_probability_times_the_rest_of_the_basket() -> None:
    p = np.random.default_rng(0).uniform(0.01, 0.6, 40)
    pairs = approximate(p)
    np.fill_diagonal(pairs, 0)
    assert np.allclose(pairs.sum(axis=1), (p.sum() - 1) * p)


def test_items_in_groups_are_as_many_as_their_number() -> None:
    p = np.array([0.5, 0.3, 0.01])
    grouped = pair_sums_of(p[None], np.array([1.0, 1.0, 120.0]))
    single = pair_sums_of(np.concatenate([p[:2], np.full(120, 0.01)])[None], np.ones(122))
    assert grouped[0] == pytest.approx(single[0])
