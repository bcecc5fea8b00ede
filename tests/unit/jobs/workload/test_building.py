"""Workloads: the queries of a config, from public facts alone."""

from __future__ import annotations

from itertools import combinations
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.queries import Conjunctions, Marginals, Parities, Products
from dpcore.queries.ranges import all_ranges, identity, prefix
from dpcore.workload import conjunctive
from jobs.config import Config, parse_config
from jobs.workload.building import _cells, workload_of
from jobs.workload.public_files import PublicFiles
from pipelines.attributes import Attribute, Kind
from pipelines.layout import BasketLayout, TableLayout
from pipelines.schema import Schema


def attribute(name: str, size: int) -> Attribute:
    return Attribute(name, Kind.CATEGORICAL, values=tuple(range(size)), null=False)


TABLE = TableLayout("person", Schema((attribute("a", 2), attribute("b", 3), attribute("c", 4), attribute("d", 5))))
BASKETS = BasketLayout("user", "item", 50)


def config(workload: dict[str, Any], shape: str = "table") -> Config:
    dataset = {"name": "x", "snapshot": "1", "path": "p", "shape": shape, "unit": "u"}
    dataset |= {"schema": "s"} if shape == "table" else {"item": "i", "items": 50}
    return parse_config(
        {
            "dataset": dataset,
            "privacy": {"epsilon": 1, "delta": 0},
            "workload": workload,
            "mechanism": {"name": "laplace"},
            "output": {"path": "o"},
        }
    )


MARGINALS: list[tuple[dict[str, Any], dict[tuple[str, ...], float]]] = [
    ({"order": 3}, dict.fromkeys(combinations("abcd", 3), 1.0)),
    ({"order": 2, "attributes": ["d", "a", "b"]}, dict.fromkeys([("a", "b"), ("a", "d"), ("b", "d")], 1.0)),
    ({"order": 2, "target": "c"}, dict.fromkeys([("a", "c"), ("b", "c"), ("c", "d")], 1.0)),
    (
        {"cliques": [{"attributes": ["b", "a"], "weight": 2}, {"attributes": ["d"]}, {"attributes": ["a", "b"]}]},
        {("a", "b"): 3.0, ("d",): 1.0},
    ),
]


@pytest.mark.parametrize(("asked", "wanted"), MARGINALS)
def test_marginals(asked: dict[str, Any], wanted: dict[tuple[str, ...], float]) -> None:
    made = workload_of(config({"marginals": asked}), TABLE)
    assert isinstance(made.queries, Marginals)
    assert dict(zip(made.queries.cliques, made.weights, strict=True)) == wanted


def random_cliques(**asked: Any) -> tuple[tuple[str, ...], ...]:
    made = workload_of(config({"marginals": {"order": 2, **asked}}), TABLE)
    assert isinstance(made.queries, Marginals)
    assert made.weights.tolist() == [1.0] * len(made.queries.cliques)
    return made.queries.cliques


def test_random_marginals_depend_on_their_seed_and_keep_to_what_is_allowed() -> None:
    assert random_cliques(count=6, seed=3) == tuple(combinations("abcd", 2))
    assert random_cliques(count=3) == random_cliques(count=3, seed=0)
    assert len({random_cliques(count=3, seed=seed) for seed in range(20)}) > 5
    for seed in range(10):
        assert set(random_cliques(count=2, seed=seed, attributes=["a", "b", "c"])) <= set(combinations("abc", 2))
        small = random_cliques(count=2, seed=seed, max_cells=8)
        assert len(set(small)) == 2
        assert set(small) <= {("a", "b"), ("a", "c")}


@pytest.mark.parametrize(("asked", "says"), [
    ({"order": 2, "count": 7}, "count is 7, but only 6 marginals of 2 of 4 attributes exist; want at most 6"),
    ({"order": 2, "count": 3, "max_cells": 8}, "only 2 marginals of order 2 have at most 8 cells; want at most 2, or"),
    ({"order": 2, "seed": 7}, "seed is only for random marginals; want a count too"),
    ({"up_to_order": 2, "count": 3}, "count chooses random marginals of one order; want order: N"),
    ({"order": 2, "count": 3, "target": "a"}, "count chooses random marginals of one order"),
])  # fmt: skip
def test_random_marginals_that_do_not_exist(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        workload_of(config({"marginals": asked}), TABLE)


def test_a_workload_that_is_too_large_names_what_makes_it_smaller() -> None:
    wide = TableLayout("person", Schema(tuple(attribute(f"x{i}", 50) for i in range(60))))
    with pytest.raises(DomainTooLargeError, match="workload.marginals.max_cells, which leaves out large marginals"):
        workload_of(config({"marginals": {"order": 3}}), wide)


def test_skewed_marginals_depend_on_their_seed() -> None:
    def cliques(seed: int) -> object:
        made = workload_of(config({"marginals": {"order": 2, "skewed": {"count": 4, "seed": seed}}}), TABLE)
        return made.queries.digest(), made.weights.tolist()

    assert cliques(1) == cliques(1)
    assert len({str(cliques(seed)) for seed in range(8)}) > 1


RANGED = TableLayout(
    "person",
    Schema(
        (
            Attribute("grade", Kind.CATEGORICAL, values=("A", "B", "C"), other=True),
            Attribute("age", Kind.INTEGER, edges=(0, 18, 40, 65, 100)),
            attribute("sex", 2),
        )
    ),
)


@pytest.mark.parametrize(
    "asked",
    [
        {"order": 2},
        {"order": 2, "target": "age"},
        {"order": 2, "skewed": {"count": 9, "seed": 4}},
        {"cliques": [{"attributes": ["sex", "age"], "weight": 2}, {"attributes": ["grade"]}]},
    ],
)
def test_prefixes_and_ranges_take_the_place_of_codes(asked: dict[str, Any]) -> None:
    """Only listed values and bins are ordered; other values and nulls have queries of their own."""
    cells = workload_of(config({"marginals": asked}), RANGED)
    made = workload_of(config({"marginals": asked | {"prefix": ["age"], "ranges": ["grade"]}}), RANGED)
    assert isinstance(cells.queries, Marginals)
    assert isinstance(made.queries, Products)
    assert made.queries.domain == cells.queries.domain
    assert tuple(term.clique for term in made.queries.terms) == cells.queries.cliques
    assert made.weights.tolist() == cells.weights.tolist()
    wanted = {"grade": all_ranges(5, 3), "age": prefix(5, 4), "sex": identity(2)}
    for term in made.queries.terms:
        for name, matrix in zip(term.clique, term.matrices, strict=True):
            assert np.array_equal(matrix, wanted[name])


def test_too_many_ranges_are_refused_before_they_are_made() -> None:
    """1,001,000 ranges of 2,000 bins, and one more answer for nulls, times 100; a matrix of them is too large too."""
    bins = Attribute("x", Kind.INTEGER, edges=tuple(range(2001)))
    wide = TableLayout("u", Schema((bins, attribute("b", 100))))
    with pytest.raises(DomainTooLargeError, match="the workload has 200,100,100 cells"):
        workload_of(config({"marginals": {"order": 2, "ranges": ["x"]}}), wide)
    with pytest.raises(ConfigError, match=r"workload: attribute 'x': a matrix of 2,001,001 rows.*want"):
        workload_of(config({"marginals": {"order": 1, "ranges": ["x"]}}), wide)


LOANS = (101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15)


def test_small_marginals_of_loans_are_those_of_the_thesis() -> None:
    """Section 3.8: 188 marginals of at most 5,000 cells, the number of rows among them, 279,751 answers in all."""
    loans = TableLayout("u", Schema(tuple(attribute(f"a{place}", size) for place, size in enumerate(LOANS))))
    made = workload_of(config({"marginals": {"up_to_order": "all", "max_cells": 5000}}), loans)
    assert isinstance(made.queries, Marginals)
    assert (len(made.queries.cliques), made.queries.size) == (188, 279_751)
    assert made.queries.cliques[:2] == ((), ("a0",))
    assert (made.weights == 1).all()
    ranged = workload_of(config({"marginals": {"up_to_order": "all", "max_cells": 5000, "ranges": ["a0"]}}), loans)
    assert isinstance(ranged.queries, Products)
    assert tuple(term.clique for term in ranged.queries.terms) == made.queries.cliques


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 6), st.integers(1, 120), st.booleans())
def test_small_marginals_are_all_there_are(sizes: list[int], order: int, cells: int, up_to: bool) -> None:
    layout = TableLayout("u", Schema(tuple(attribute(f"a{place}", size) for place, size in enumerate(sizes))))
    names = layout.schema.domain.names
    asked = {"max_cells": cells, "up_to_order" if up_to else "order": order}
    orders = range(0 if up_to else order, order + 1)
    every = [clique for size in orders for clique in combinations(names, size)]
    wanted = [clique for clique in every if layout.schema.domain.size(clique) <= cells]
    if order > len(names) or not wanted:
        with pytest.raises(ConfigError, match="want"):
            workload_of(config({"marginals": asked}), layout)
        return
    made = workload_of(config({"marginals": asked}), layout)
    assert isinstance(made.queries, Marginals)
    assert list(made.queries.cliques) == wanted


def test_all_marginals_up_to_an_order_are_counted_before_they_are_made() -> None:
    wide = TableLayout("u", Schema(tuple(attribute(f"a{index}", 60) for index in range(400))))
    for order, cells in ((3, "2,287,"), ("all", "1[0-9,]{900}")):
        with pytest.raises(DomainTooLargeError, match=f"the workload has {cells}"):
            workload_of(config({"marginals": {"up_to_order": order}}), wide)
    few = workload_of(config({"marginals": {"up_to_order": 2, "attributes": ["d", "a"]}}), TABLE)
    assert isinstance(few.queries, Marginals)
    assert few.queries.cliques == ((), ("a",), ("d",), ("a", "d"))


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(1, 6))
def test_the_number_of_cells_is_that_of_all_cliques(sizes: list[int], order: int) -> None:
    assert _cells(sizes, order) == sum(prod(chosen) for chosen in combinations(sizes, order))


def test_a_workload_too_large_says_how_large_and_what_would_do() -> None:
    wide = TableLayout("u", Schema(tuple(attribute(f"a{index}", 60) for index in range(400))))
    with pytest.raises(DomainTooLargeError, match=r"2,286,748,800,000 cells.*dual_query"):
        workload_of(config({"marginals": {"order": 3}}), wide)


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"marginals": {"order": 2, "attributes": ["a", "sexx"]}}, "table", "sexx"),
    ({"marginals": {"order": 5}}, "table", "order is 5"),
    ({"marginals": {"order": 2, "prefix": ["aa"]}}, "table", "unknown attribute 'aa'; want one of"),
    ({"marginals": {"order": 2, "ranges": ["a", "zz"]}}, "table", "zz"),
    ({"marginals": {"order": 2, "target": "zz"}}, "table", "zz"),
    ({"marginals": {"cliques": [{"attributes": ["a", "a"]}]}}, "table", "repeats"),
    ({"conjunctions": {"count": 5, "order": 2, "attributes": ["a", "zz"]}}, "table", "zz"),
    ({"conjunctions": {"count": 5, "order": 3, "attributes": ["a", "b"]}}, "table", "order 3"),
    ({"parities": {"order": 3, "count": 30_000}}, "baskets", r"want 1 \.\. 20875"),
    ({"parities": {"order": 2, "attributes": ["a", "zz"]}}, "table", "zz"),
]


@pytest.mark.parametrize(("asked", "shape", "says"), BAD, ids=lambda part: str(part)[:50])
def test_what_does_not_fit_is_a_config_error(asked: dict[str, Any], shape: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        workload_of(config(asked, shape), TABLE if shape == "table" else BASKETS)


def test_conjunctions_of_a_table_stay_within_the_chosen_attributes() -> None:
    asked = {"conjunctions": {"count": 10, "order": 2, "attributes": ["b", "d"], "seed": 3}}
    queries = workload_of(config(asked), TABLE).queries
    assert isinstance(queries, Conjunctions)
    assert set(TABLE.view.group_of_column()[queries.columns].ravel()) == {1, 3}


def test_negations_are_random_where_asked() -> None:
    asked = {"conjunctions": {"count": 40, "order": 2, "negations": "random"}}
    queries = workload_of(config(asked, "baskets"), BASKETS).queries
    assert isinstance(queries, Conjunctions)
    assert 0 < queries.negated.mean() < 1


@pytest.mark.parametrize("shape", ["baskets", "table"])
def test_several_orders_share_the_count(shape: str) -> None:
    asked = {"conjunctions": {"count": 60, "orders": [2, 1, 3], "negations": "random", "seed": 5}}
    queries = workload_of(config(asked, shape), TABLE if shape == "table" else BASKETS).queries
    assert isinstance(queries, Conjunctions)
    assert np.bincount(queries.orders).tolist() == [0, 20, 20, 20]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"order": 2}, "order and orders are given"),
        ({"orders": [2, 2]}, "orders names a number twice"),
        ({"orders": []}, "want at least one"),
        ({"orders": [1, 51]}, "order is 51; want at most 50"),
    ],
)
def test_orders_that_do_not_fit_are_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        workload_of(config({"conjunctions": {"count": 10, "orders": [1, 2], **changes}}, "baskets"), BASKETS)


@pytest.mark.parametrize("popular", [10, 2, 0])
def test_popular_columns_come_first_and_any_popularity_gives_the_count(popular: int) -> None:
    asked = {"conjunctions": {"count": 30, "order": 3, "weights": "noisy_popularity", "seed": 1}}
    popularity = np.zeros(50)
    popularity[:popular] = 100.0
    queries = workload_of(config(asked, "baskets"), BASKETS, popularity=popularity).queries
    assert isinstance(queries, Conjunctions)
    assert queries.size == 30
    if popular == 10:
        assert queries.columns.max() < 10
    if popular == 2:
        assert np.mean(queries.columns < 2) > 0.3


def test_public_weights_choose_columns_and_seeds_choose_queries() -> None:
    asked = {"count": 20, "order": 3, "weights": "file", "weights_file": "w.csv"}
    files = PublicFiles(weights=np.arange(50.0) * (np.arange(50) > 41))
    chosen = [
        workload_of(config({"conjunctions": {**asked, "seed": seed}}, "baskets"), BASKETS, files).queries
        for seed in (1, 1, 2)
    ]
    assert chosen[0].digest() == chosen[1].digest() != chosen[2].digest()
    assert all(isinstance(queries, Conjunctions) and queries.columns.min() > 41 for queries in chosen)
    every = workload_of(config({"conjunctions": {**asked, "count": 57}}, "baskets"), BASKETS, files).queries
    assert every.size == 56  # All triples of the eight items with a weight.


def test_public_weights_stay_within_the_chosen_attributes() -> None:
    files = PublicFiles(weights=np.ones(14))
    asked = {"count": 9, "order": 2, "weights": "file", "weights_file": "w", "attributes": ["a", "d"]}
    queries = workload_of(config({"conjunctions": asked}), TABLE, files).queries
    assert isinstance(queries, Conjunctions)
    assert set(TABLE.view.group_of_column()[queries.columns].ravel()) == {0, 3}


def test_listed_queries_are_the_workload() -> None:
    listed = conjunctive(Conjunctions.single_columns(BASKETS.view))
    asked = {"conjunctions": {"file": "q.csv"}}
    assert workload_of(config(asked, "baskets"), BASKETS, PublicFiles(queries=listed)) is listed


def test_parities() -> None:
    every = workload_of(config({"parities": {"order": 2}}), TABLE)
    assert isinstance(every.queries, Parities)
    telling = [1, 3, 4, 5]  # Of the two columns of a one counts.
    assert every.queries.size == sum(telling) + sum(x * y for x, y in combinations(telling, 2))
    some = workload_of(config({"parities": {"order": 3, "count": 40, "seed": 2}}, "baskets"), BASKETS)
    assert isinstance(some.queries, Parities)
    assert some.queries.size == 40
    assert (some.weights == 1).all()
    other = workload_of(config({"parities": {"order": 3, "count": 40, "seed": 3}}, "baskets"), BASKETS)
    assert other.queries.digest() != some.queries.digest()


@pytest.mark.parametrize("count", [None, 4])
def test_parities_stay_within_the_chosen_attributes(count: int | None) -> None:
    asked = {"order": 2, "attributes": ["b", "a"]} | ({"count": count} if count else {})
    queries = workload_of(config({"parities": asked}), TABLE).queries
    assert isinstance(queries, Parities)
    assert queries.size == (count or 7)
    assert set(queries.columns.ravel()) - {-1} <= {1, 2, 3, 4}


def test_too_many_parities_are_refused_before_they_are_made() -> None:
    wide = BasketLayout("user", "item", 17_770)
    with pytest.raises(DomainTooLargeError, match="935,214,086,975 cells"):
        workload_of(config({"parities": {"order": 3}}, "baskets"), wide)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("negations", ["none", "random"])
@pytest.mark.parametrize("popular", [None, 14, 3, 0])
def test_where_more_are_wanted_than_exist_all_are_asked(order: int, negations: str, popular: int | None) -> None:
    """The reference lists every set of columns from different attributes, with every choice of signs.

    Whatever the noise makes of the popularity, the number of queries is that of the plan.
    """
    groups = TABLE.view.group_of_column().tolist()
    sets = [columns for columns in combinations(range(len(groups)), order)
            if len({groups[column] for column in columns}) == order]  # fmt: skip
    number = len(sets) * (2**order if negations == "random" else 1)
    weights = "uniform" if popular is None else "noisy_popularity"
    asked = {"count": 10_000, "order": order, "negations": negations, "weights": weights}
    popularity = None if popular is None else np.where(np.arange(len(groups)) < popular, 50.0, 0.0)
    queries = workload_of(config({"conjunctions": asked}), TABLE, popularity=popularity).queries
    assert isinstance(queries, Conjunctions)
    assert queries.size == number
    assert set(map(tuple, queries.columns.tolist())) == set(sets)


@pytest.mark.parametrize(("queries", "shape", "says"), [
    ({"conjunctions": {"count": 10**8, "order": 1}}, "baskets", "count is 100,000,000; want at most 67,108,864"),
    ({"conjunctions": {"count": 6 * 10**7, "order": 40}}, "baskets", "have 2,400,000,000 literals; want at most"),
    ({"conjunctions": {"count": 1, "order": 10**9}}, "baskets", "order is 1,000,000,000; want at most 50"),
    ({"parities": {"count": 10**8, "order": 2}}, "table", "count is 100,000,000; want at most 67,108,864"),
    ({"marginals": {"order": 10**9}}, "table", "order is 1000000000 for 4 attributes; want 1 .. 4"),
    ({"marginals": {"order": 10**9, "target": "a"}}, "table", "order is 1000000000 for 4 attributes; want 1 .. 4"),
    ({"marginals": {"order": 3, "attributes": ["a", "b"]}}, "table", "order is 3 for 2 attributes; want 1 .. 2"),
    ({"marginals": {"order": 2, "skewed": {"count": 10**7}}}, "table", "skewed.count is 10,000,000; want at most"),
])  # fmt: skip
def test_what_is_huge_is_refused_before_anything_is_allocated(queries: dict[str, Any], shape: str, says: str) -> None:
    """Attack "order: 1000000000": 15.5 GB were allocated before the order was compared with the attributes."""
    with pytest.raises(ConfigError, match=says):
        workload_of(config(queries, shape), TABLE if shape == "table" else BASKETS)
