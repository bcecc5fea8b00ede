from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.queries import Conjunctions, Marginals, Parities, Product, Products
from dpcore.queries.ranges import prefix, range_marginals
from dpcore.workload import (
    Workload,
    added_weights,
    all_k_way,
    cell_weights,
    conjunctive,
    downward_closure,
    explicit,
    linear,
    part_sizes,
    random_k_way,
    skewed,
    target,
)

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4, "d": 5})
WIDE = Domain.of({f"x{i}": 2 for i in range(200)})


def cliques(workload: Workload) -> tuple[tuple[str, ...], ...]:
    assert isinstance(workload.queries, Marginals)
    return workload.queries.cliques


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_all_k_way_is_every_subset_once(order: int) -> None:
    workload = all_k_way(DOMAIN, order)
    assert set(cliques(workload)) == set(combinations("abcd", order))
    assert len(cliques(workload)) == math.comb(4, order)
    assert workload.weights.tolist() == [1.0] * math.comb(4, order)


def test_all_k_way_of_some_attributes() -> None:
    assert set(cliques(all_k_way(DOMAIN, 2, ["d", "a", "b"]))) == {("a", "b"), ("a", "d"), ("b", "d")}


def test_target_is_every_subset_with_the_attribute() -> None:
    assert set(cliques(target(DOMAIN, 3, "c"))) == {("a", "b", "c"), ("a", "c", "d"), ("b", "c", "d")}


def test_skewed_counts_repeated_cliques_as_weight_and_favours_attributes() -> None:
    workload = skewed(DOMAIN, 2, 50, np.random.default_rng(1))
    assert workload.weights.sum() == 50
    assert all(len(set(clique)) == 2 for clique in cliques(workload))
    assert len(set(cliques(workload))) == len(cliques(workload))
    use = [sum(weight for clique, weight in zip(cliques(workload), workload.weights, strict=True) if name in clique)
           for name in DOMAIN.names]  # fmt: skip
    assert max(use) > 2 * min(use)


def random_cliques(domain: Domain, order: int, count: int, seed: int) -> tuple[tuple[str, ...], ...]:
    return cliques(random_k_way(domain, order, count, np.random.default_rng(seed), domain.names))


@pytest.mark.parametrize(("domain", "count"), [(DOMAIN, 1), (DOMAIN, 3), (DOMAIN, 6), (WIDE, 300)])
def test_random_marginals_are_different_sorted_and_a_function_of_the_seed(domain: Domain, count: int) -> None:
    made = random_cliques(domain, 2, count, 7)
    assert len(made) == len(set(made)) == count
    assert all(len(set(clique)) == 2 for clique in made)
    assert list(made) == sorted(made, key=domain.axes)
    assert made == random_cliques(domain, 2, count, 7)


def test_random_marginals_are_uniform() -> None:
    """2,000 seeds draw 2 of 6 marginals each: 667 times each, with a standard deviation of 21. The seeds are fixed."""
    drawn = Counter(clique for seed in range(2_000) for clique in random_cliques(DOMAIN, 2, 2, seed))
    assert set(drawn) == set(combinations(DOMAIN.names, 2))
    assert max(abs(times - 2_000 / 3) for times in drawn.values()) < 5 * 21
    few = Counter(clique for seed in range(300) for clique in random_cliques(WIDE, 1, 40, seed))
    assert max(abs(times - 60) for times in few.values()) < 5 * 7


def test_more_random_marginals_than_there_are_do_not_exist() -> None:
    with pytest.raises(ValueError, match="count is 7, but only 6 marginals of 2 of 4 attributes exist"):
        random_cliques(DOMAIN, 2, 7, 0)


def test_explicit_adds_up_cliques_of_one_set_of_attributes() -> None:
    workload = explicit(DOMAIN, {("b", "a"): 1.5, ("a", "b"): 2.0, ("c",): 1.0})
    assert cliques(workload) == (("a", "b"), ("c",))
    assert workload.weights.tolist() == [3.5, 1.0]


def test_conjunctions_weigh_the_same() -> None:
    workload = conjunctive(Conjunctions.single_columns(BinaryView(3)))
    assert workload.weights.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(ValueError, match="read-only"):
        workload.weights[0] = 2


@given(st.lists(st.lists(st.sampled_from("abcd"), min_size=1, unique=True).map(tuple), min_size=1, max_size=5))
def test_the_downward_closure_is_every_subset_once(given_cliques: list[tuple[str, ...]]) -> None:
    closure = downward_closure(given_cliques)
    subsets = chain.from_iterable(
        combinations(clique, order) for clique in given_cliques for order in range(1, len(clique) + 1)
    )
    assert {frozenset(clique) for clique in closure} == {frozenset(subset) for subset in subsets}
    assert len({frozenset(clique) for clique in closure}) == len(closure)
    assert [len(clique) for clique in closure] == sorted(len(clique) for clique in closure)


@pytest.mark.parametrize("order", [0, 5])
@pytest.mark.parametrize(
    "make",
    [
        all_k_way,
        lambda domain, order: target(domain, order, "a"),
        lambda domain, order: skewed(domain, order, 1, np.random.default_rng(0)),
    ],
    ids=["all_k_way", "target", "skewed"],
)
def test_an_order_out_of_range_is_refused(make: Callable[[Domain, int], Workload], order: int) -> None:
    with pytest.raises(ValueError, match=f"order {order} over 4 attributes; want 1 .. 4"):
        make(DOMAIN, order)


@pytest.mark.parametrize(
    "make",
    [
        lambda: all_k_way(WIDE, 100),
        lambda: target(WIDE, 100, "x0"),
        lambda: downward_closure([WIDE.names]),
        lambda: downward_closure([WIDE.names[i : i + 16] for i in range(0, 48, 16)]),
    ],
    ids=["all_k_way", "target", "closure of a large clique", "closure of many"],
)
def test_too_many_cliques_are_refused_before_they_are_made(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError, match="cliques or more; want at most"):
        make()


def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown attribute 'z'"):
        target(DOMAIN, 2, "z")


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, math.inf], [1.0, math.nan], [[1.0, 1.0]]])
def test_bad_weights_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="want"):
        Workload(Marginals(DOMAIN, (("a",), ("b",))), np.array(weights))


def test_every_cell_has_the_weight_of_its_clique() -> None:
    made = explicit(DOMAIN, {("b",): 2.0, (): 0.5, ("a", "b"): 3.0})
    assert cell_weights(made).tolist() == [2.0] * 3 + [0.5] + [3.0] * 6
    parities = Workload(Parities.of_sets(BinaryView(3), [[0], [1, 2]]), np.array([4.0, 1.0]))
    assert cell_weights(parities).tolist() == [4.0, 1.0]


def test_a_term_of_products_has_one_weight() -> None:
    """Also where two terms ask the same clique."""
    queries = range_marginals(DOMAIN, [("b",), ("a", "b"), ("b",)], {"b": prefix(3)})
    made = Workload(queries, np.array([2.0, 0.5, 7.0]))
    assert part_sizes(queries) == (3, 6, 3)
    assert cell_weights(made).tolist() == [2.0] * 3 + [0.5] * 6 + [7.0] * 3
    assert linear(queries).weights.tolist() == [1.0] * 3
    with pytest.raises(ValueError, match=r"want \(3,\)"):
        Workload(queries, np.ones(12))


ONES = np.ones((1, 3), dtype=np.int64)
NOT_COUNTING = {
    "a weight": Products(DOMAIN, (Product(("b",), (ONES,), 2),)),
    "a denominator": Products(DOMAIN, (Product(("b",), (ONES,)),), 2),
    "an entry of 2": Products(DOMAIN, (Product(("b",), (2 * ONES,)),)),
    "a sign": Products(DOMAIN, (Product(("b",), (ONES,)), Product(("b",), (-ONES,)))),
}


@pytest.mark.parametrize("queries", NOT_COUNTING.values(), ids=NOT_COUNTING)
def test_products_that_do_not_count_rows_are_no_workload(queries: Products) -> None:
    with pytest.raises(ConfigError, match=r"a workload of products.*want"):
        linear(queries)


def test_weights_add_up_for_one_clique_and_are_never_zero() -> None:
    domain = Domain.of({"a": 2, "b": 3})
    workload = Workload(Marginals(domain, (("a",), ("b",), ("a",))), np.array([2.0, 1e-300, 4.0]))
    found = added_weights(workload, 2)
    assert found == {("a",): 0.25 + 1.0, ("b",): 2.0**-80}
