"""A model of bounded size near given tables: it has all of them, or the strongest where it cannot hold all."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.fitting.work import WorkMeter
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.estimation.reconstruction import bounded_model as module
from dpcore.estimation.reconstruction.bounded_model import bounded_model
from dpcore.queries import Marginals
from tests.unit.dpcore.estimation.reconstruction.test_shrunken import (
    BITS,
    MIXED,
    ROWS,
    chained,
    error,
    exact,
    independent,
    measured,
    queries_of,
)


def fitted(codes: NDArray[np.int64], queries: Marginals, max_cells: float = 1e6) -> GraphicalModel:
    weights = dict.fromkeys(queries.cliques, 1.0)
    noisy = measured(codes, queries, 1.0)
    return bounded_model(noisy, queries, exact(codes, queries), weights, max_cells, WorkMeter())


@pytest.mark.parametrize(("domain", "order"), [(BITS, 1), (BITS, 2), (BITS, 3), (MIXED, 2), (MIXED, 3)])
def test_a_model_that_may_be_large_has_the_tables(domain: Domain, order: int) -> None:
    codes, queries = chained(domain), queries_of(domain, order)
    model = fitted(codes, queries)
    assert model.total == pytest.approx(ROWS)
    assert error(model.answer(queries), exact(codes, queries)) < 2.0  # As the fit stops at a part of the noise, 1.


@pytest.mark.parametrize("max_cells", [1, 30, 60, 200])
def test_the_tree_keeps_within_its_size_and_one_way_marginals_are_right(max_cells: int) -> None:
    codes = chained(BITS)
    model = fitted(codes, queries_of(BITS, 3), max_cells)
    assert model.tree.cells <= max(max_cells, 2 * len(BITS.names))
    singles = queries_of(BITS, 1)
    assert error(model.answer(singles), exact(codes, singles)) < 2.0


def test_the_strongest_pairs_come_first() -> None:
    """Neighbours in a chain explain its other pairs; 28 cells hold the seven pairs of neighbours."""
    codes, pairs = chained(BITS), queries_of(BITS, 2)
    model = fitted(codes, pairs, 28)
    for neighbours in zip(BITS.names, BITS.names[1:], strict=False):
        assert any(set(neighbours) <= set(node) for node in model.tree.nodes)
    assert error(model.answer(pairs), exact(codes, pairs)) < 0.02 * ROWS
    assert error(fitted(codes, pairs, 1).answer(pairs), exact(codes, pairs)) > 0.05 * ROWS


def test_interactions_add_up_to_the_squared_distance() -> None:
    """What a set of three adds is what its pairs leave of it, where they leave anything."""
    domain = Domain(("a", "b", "c"), (2, 2, 2))
    generator = np.random.default_rng(3)
    codes = generator.integers(0, 2, (ROWS, 3))
    codes[:, 2] = codes[:, 0] ^ codes[:, 1]
    queries = queries_of(domain, 3)
    tables = module._all_tables(queries, exact(codes, queries))
    gains = module._gains(tables, {("a", "b", "c"): 1.0})
    squares = {part: module._distance_to_independent(part, tables) ** 2 for part in gains}
    slope = 1 / (2 * squares["a", "b", "c"] ** 0.5)
    assert sum(gains.values()) == pytest.approx(squares["a", "b", "c"] * slope)
    assert gains["a", "b", "c"] > 0.9 * sum(gains.values())


def test_a_weight_decides_between_equal_pairs() -> None:
    """Four single attributes have 12 cells, with one pair there are 15, and with two 18."""
    domain = Domain(tuple("abcd"), (3, 3, 3, 3))
    first = np.random.default_rng(0).integers(0, 3, (ROWS, 2))
    codes = np.concatenate([first, first], axis=1)  # c repeats a, and d repeats b.
    queries = Marginals(domain, (("a", "c"), ("b", "d")))
    for weights, kept in (((5.0, 1.0), ("a", "c")), ((1.0, 5.0), ("b", "d"))):
        noisy = measured(codes, queries, 1.0)
        by_pair = dict(zip(queries.cliques, weights, strict=True))
        model = bounded_model(noisy, queries, exact(codes, queries), by_pair, 15, WorkMeter())
        assert {frozenset(node) for node in model.tree.nodes if len(node) > 1} == {frozenset(kept)}


def test_attributes_without_a_marginal_are_no_part_of_the_model() -> None:
    """They may have any number of values."""
    domain = Domain(("a", "b", "c", "zip"), (2, 2, 2, 1_000))
    codes = np.concatenate([independent(BITS)[:, :3], np.zeros((ROWS, 1), dtype=np.int64)], axis=1)
    model = fitted(codes, Marginals(domain, tuple(combinations("abc", 2))))
    assert (model.tree.domain.names, model.tree.cells) == (("a", "b", "c"), 8)


@pytest.mark.parametrize("seed", range(8))
def test_tables_on_links_that_no_node_needs_do_not_enlarge_the_tree(seed: int) -> None:
    """Few pairs of many attributes: triangulation links attributes whose pairs may have a table or not."""
    generator = np.random.default_rng(seed)
    domain = Domain(tuple(map(str, range(14))), tuple(generator.integers(2, 6, 14).tolist()))
    pairs = list(combinations(domain.names, 2))
    kept = sorted(generator.choice(len(pairs), 45, replace=False).tolist())
    codes, queries = chained(domain, seed), Marginals(domain, tuple(pairs[index] for index in kept))
    model = fitted(codes, queries, 3_000)
    chosen = module._chosen(
        domain, module._all_tables(queries, exact(codes, queries)), dict.fromkeys(queries.cliques, 1.0), 3_000
    )
    assert set(map(frozenset, model.tree.nodes)) == set(map(frozenset, JunctionTree.of(domain, chosen).nodes))
    assert model.tree.cells <= 3_000
