"""Workloads: what a config asks for, by public facts alone."""

from __future__ import annotations

from itertools import combinations
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.queries import Conjunctions, Marginals
from jobs.config import Config, parse_config
from jobs.workloads import _cells, workload_of
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


def test_skewed_marginals_depend_on_their_seed() -> None:
    def cliques(seed: int) -> object:
        made = workload_of(config({"marginals": {"order": 2, "skewed": {"count": 4, "seed": seed}}}), TABLE)
        return made.queries.digest(), made.weights.tolist()

    assert cliques(1) == cliques(1)
    assert len({str(cliques(seed)) for seed in range(8)}) > 1


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(1, 6))
def test_the_number_of_cells_is_that_of_all_cliques(sizes: list[int], order: int) -> None:
    assert _cells(sizes, order) == sum(prod(chosen) for chosen in combinations(sizes, order))


def test_a_workload_too_large_says_how_large_and_what_would_do() -> None:
    wide = TableLayout("u", Schema(tuple(attribute(f"a{index}", 60) for index in range(400))))
    with pytest.raises(DomainTooLargeError, match=r"2,286,748,800,000 cells.*dual_query"):
        workload_of(config({"marginals": {"order": 3}}), wide)


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"marginals": {"order": 2, "attributes": ["a", "sexx"]}}, "table", "sexx"),
    ({"marginals": {"order": 5}}, "table", "order 5"),
    ({"marginals": {"order": 2, "target": "zz"}}, "table", "zz"),
    ({"marginals": {"cliques": [{"attributes": ["a", "a"]}]}}, "table", "repeats"),
    ({"conjunctions": {"count": 5, "order": 2, "attributes": ["a", "zz"]}}, "table", "zz"),
    ({"conjunctions": {"count": 5, "order": 3, "attributes": ["a", "b"]}}, "table", "order 3"),
    ({"conjunctions": {"count": 10_000, "order": 2}}, "baskets", "distinct"),
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


@pytest.mark.parametrize("popular", [10, 2, 0])
def test_popular_columns_come_first_and_any_popularity_gives_the_count(popular: int) -> None:
    asked = {"conjunctions": {"count": 30, "order": 3, "weights": "noisy_popularity", "seed": 1}}
    popularity = np.zeros(50)
    popularity[:popular] = 100.0
    queries = workload_of(config(asked, "baskets"), BASKETS, popularity).queries
    assert isinstance(queries, Conjunctions)
    assert queries.size == 30
    if popular == 10:
        assert queries.columns.max() < 10
    if popular == 2:
        assert np.mean(queries.columns < 2) > 0.3
