"""Matrices of prefixes and ranges against their definitions, and marginals of them against one dense matrix."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.queries import Marginals, Products
from dpcore.queries.ranges import LARGEST_MATRIX, all_ranges, identity, of_width, prefix, range_marginals, range_rows
from tests.support.product_cases import dense

DOMAIN = Domain.of({"a": 2, "b": 4, "c": 3})


def rows(*asked: set[int], size: int) -> list[list[int]]:
    return [[int(code in codes) for code in range(size)] for codes in asked]


def test_rows_by_hand() -> None:
    assert identity(3).tolist() == rows({0}, {1}, {2}, size=3)
    assert prefix(3).tolist() == rows({0}, {0, 1}, {0, 1, 2}, size=3)
    assert all_ranges(3).tolist() == rows({0}, {0, 1}, {0, 1, 2}, {1}, {1, 2}, {2}, size=3)


def test_codes_without_an_order_are_asked_one_by_one_and_lie_in_no_prefix() -> None:
    assert prefix(4, 2).tolist() == rows({0}, {0, 1}, {2}, {3}, size=4)
    assert all_ranges(4, 2).tolist() == rows({0}, {0, 1}, {1}, {2}, {3}, size=4)
    assert prefix(3, 0).tolist() == all_ranges(3, 0).tolist() == identity(3).tolist()


def test_ranges_of_a_width_by_hand() -> None:
    assert of_width(4, 4, 2).tolist() == rows({0, 1}, {1, 2}, {2, 3}, size=4)
    assert of_width(5, 3, 2).tolist() == rows({0, 1}, {1, 2}, {3}, {4}, size=5)
    assert of_width(4, 3, 1).tolist() == identity(4).tolist()
    for width in (0, 4):
        with pytest.raises(ValueError, match=f"ranges of {width} codes out of 3 in an order; want 1 .. 3"):
            of_width(5, 3, width)
    with pytest.raises(ValueError, match="want at most"):
        of_width(LARGEST_MATRIX, LARGEST_MATRIX, 2)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_ranges_are_differences_of_prefixes(size: int) -> None:
    before = np.vstack([np.zeros(size, dtype=int), prefix(size)])
    wanted = [before[high + 1] - before[low] for low in range(size) for high in range(low, size)]
    assert np.array_equal(all_ranges(size), wanted)
    assert len(all_ranges(size)) == range_rows(size, size)
    assert len(all_ranges(size + 2, size)) == range_rows(size + 2, size)


def test_answers_are_those_of_the_kronecker_product() -> None:
    cliques = [("c", "a"), ("b",), ("a", "b", "c"), ()]
    queries = range_marginals(DOMAIN, cliques, {"b": prefix(4, 3), "c": all_ranges(3)})
    assert isinstance(queries, Products)
    assert queries.denominator == 1
    assert [(term.clique, term.weight) for term in queries.terms] == [
        (("a", "c"), 1), (("b",), 1), (("a", "b", "c"), 1), ((), 1)
    ]  # fmt: skip
    blocks = {"a": np.eye(2), "b": prefix(4, 3), "c": all_ranges(3)}
    sums = {name: np.ones((1, size)) for name, size in zip(DOMAIN.names, DOMAIN.sizes, strict=True)}
    wanted = [
        reduce(np.kron, [blocks[name] if name in clique else sums[name] for name in DOMAIN.names]) for clique in cliques
    ]
    assert np.array_equal(dense(queries), np.concatenate(wanted))
    assert queries.marginals == Marginals(DOMAIN, tuple(cliques))


def test_terms_share_their_matrices() -> None:
    queries = range_marginals(DOMAIN, [("a", "b"), ("a", "c")], {"a": prefix(2)})
    first, second = (term.matrices[0] for term in queries.terms)
    assert np.shares_memory(first, second)


REFUSED: dict[str, Callable[[], object]] = {
    "no such attribute": lambda: range_marginals(DOMAIN, [("a",)], {"z": prefix(2)}),
    "no such clique": lambda: range_marginals(DOMAIN, [("a", "z")], {}),
    "another size": lambda: range_marginals(DOMAIN, [("a",)], {"a": prefix(3)}),
    "too many in order": lambda: prefix(3, 4),
    "fewer than none in order": lambda: all_ranges(3, -1),
    "a large identity": lambda: identity(LARGEST_MATRIX),
    "large prefixes": lambda: prefix(1_000_000_000),
    "many ranges": lambda: all_ranges(1_000_000),
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_before_it_is_made(make: Callable[[], NDArray[np.int64]]) -> None:
    with pytest.raises(ValueError, match="want"):
        make()
