"""Sums over subsets and marginal Gram matrices against loops and dense Kronecker products."""

from __future__ import annotations

from functools import reduce
from itertools import chain, combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.strategies.marginals.subset_sums import (
    subset_attributes,
    subset_index,
    subset_products,
    subset_sums,
    superset_sums,
)
from tests.support.marginal_grams import eigenvalues, gram_weights, multiplicities, product, pseudo_inverse, svd_bound

DOMAINS = [(3,), (2, 3), (3, 1, 2), (2, 3, 2, 2), (1,), (2, 2, 1, 3), ()]
every = pytest.mark.parametrize("sizes", DOMAINS, ids=str)


def subsets(d: int) -> list[tuple[int, ...]]:
    return list(chain.from_iterable(combinations(range(d), k) for k in range(d + 1)))


def dense(weights: NDArray[np.float64], sizes: tuple[int, ...]) -> NDArray[np.float64]:
    """G(weights), by its definition."""
    total = np.zeros((int(np.prod(sizes)),) * 2)
    for subset in subsets(len(sizes)):
        factors = [np.eye(n) if i in subset else np.ones((n, n)) for i, n in enumerate(sizes)]
        total += weights[subset_index(subset, len(sizes))] * reduce(np.kron, factors, np.ones((1, 1)))
    return total


def weights_over(sizes: tuple[int, ...], seed: int, zeros: float = 0.0) -> NDArray[np.float64]:
    generator = np.random.default_rng(seed)
    return generator.random(1 << len(sizes)) * (generator.random(1 << len(sizes)) >= zeros)


@pytest.mark.parametrize("d", range(6))
def test_subsets_and_their_numbers_belong_together(d: int) -> None:
    assert sorted(subset_index(subset, d) for subset in subsets(d)) == list(range(1 << d))
    assert all(subset_attributes(subset_index(subset, d), d) == subset for subset in subsets(d))


@pytest.mark.parametrize("d", range(5))
def test_sums_over_subsets_are_those_of_loops(d: int) -> None:
    generator = np.random.default_rng(d)
    values, factors = generator.normal(size=1 << d), generator.normal(size=d)
    inside, outside = generator.random(d), generator.random(d)
    above, below = superset_sums(values, factors), subset_sums(values, factors)
    products = subset_products(inside, outside)
    for one in subsets(d):
        up = [b for b in subsets(d) if set(one) <= set(b)]
        down = [a for a in subsets(d) if set(a) <= set(one)]
        at = subset_index(one, d)
        assert above[at] == pytest.approx(
            sum(values[subset_index(b, d)] * np.prod([factors[i] for i in set(b) - set(one)]) for b in up)
        )
        assert below[at] == pytest.approx(
            sum(values[subset_index(a, d)] * np.prod([factors[i] for i in set(one) - set(a)]) for a in down)
        )
        assert products[at] == pytest.approx(np.prod([inside[i] if i in one else outside[i] for i in range(d)]))


def test_sums_are_transposes_and_have_inverses() -> None:
    generator = np.random.default_rng(1)
    left, right, factors = generator.normal(size=64), generator.normal(size=64), generator.normal(size=6)
    assert left @ superset_sums(right, factors) == pytest.approx(subset_sums(left, factors) @ right)
    assert np.allclose(superset_sums(superset_sums(left, factors), -factors), left)
    assert np.allclose(subset_sums(subset_sums(left, factors), -factors), left)


def test_sums_want_a_value_for_each_subset_and_leave_the_argument_as_it_is() -> None:
    values = np.arange(4.0)
    superset_sums(values, np.ones(2))
    assert np.array_equal(values, np.arange(4.0))
    with pytest.raises(ValueError, match="4 values over subsets of 3 attributes; want 8"):
        superset_sums(values, np.ones(3))


@every
def test_eigenvalues_are_those_of_the_dense_matrix(sizes: tuple[int, ...]) -> None:
    weights = weights_over(sizes, 2, zeros=0.3)
    expected = np.linalg.eigvalsh(dense(weights, sizes))
    repeated = np.repeat(eigenvalues(weights, sizes), multiplicities(sizes).astype(int))
    assert np.allclose(np.sort(repeated), expected)
    assert np.allclose(gram_weights(eigenvalues(weights, sizes), sizes), weights)


@every
def test_products_are_those_of_dense_matrices(sizes: tuple[int, ...]) -> None:
    left, right = weights_over(sizes, 3), weights_over(sizes, 4)
    assert np.allclose(dense(product(left, right, sizes), sizes), dense(left, sizes) @ dense(right, sizes))


@every
@pytest.mark.parametrize("zeros", [0.0, 0.5, 0.9])
def test_pseudo_inverses_are_those_of_dense_matrices(sizes: tuple[int, ...], zeros: float) -> None:
    for seed in range(5):
        weights = weights_over(sizes, seed, zeros)
        assert np.allclose(dense(pseudo_inverse(weights, sizes), sizes), np.linalg.pinv(dense(weights, sizes)))


@every
def test_the_svd_bound_is_that_of_the_dense_matrix(sizes: tuple[int, ...]) -> None:
    weights = weights_over(sizes, 5, zeros=0.3)
    roots = np.sqrt(np.maximum(np.linalg.eigvalsh(dense(weights, sizes)), 0))
    # Zeros come out as rounding, whose root is not small.
    assert svd_bound(weights, sizes) == pytest.approx(roots.sum() ** 2 / np.prod(sizes), rel=1e-6)
