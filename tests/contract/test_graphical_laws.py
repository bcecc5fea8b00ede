"""The laws of every marginal oracle of graphical models, against the table of the whole domain.

A new oracle is one row of ORACLES, a new structure one of SHAPES, a new sort of log-potentials one of POTENTIALS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.inference.belief_propagation import Inference, MarginalOracle
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.queries import Marginals
from tests.support.graphs import SHAPES, GraphShape, random_shape
from tests.support.marginal_oracles import BruteForce, ReferenceOracle

Make = Callable[[JunctionTree, Sequence[Clique]], MarginalOracle]

ORACLES: dict[str, Make] = {"inference": Inference, "reference": ReferenceOracle, "brute force": BruteForce}


def zero(queries: Marginals, generator: Generator) -> NDArray[np.float64]:
    return np.zeros(queries.size)


def drawn(queries: Marginals, generator: Generator) -> NDArray[np.float64]:
    return generator.normal(0, 2, queries.size)


def excluding(queries: Marginals, generator: Generator) -> NDArray[np.float64]:
    """A third of the cells of every clique is impossible, but for those of one record."""
    potentials = np.where(generator.random(queries.size) < 1 / 3, -np.inf, drawn(queries, generator))
    return with_record(potentials, queries, generator.integers(0, queries.domain.sizes))


def excluding_values(queries: Marginals, generator: Generator) -> NDArray[np.float64]:
    """Every attribute keeps one or two of its values, as each clique in turn sees to: structural zeros."""
    potentials = drawn(queries, generator)
    record = generator.integers(0, queries.domain.sizes)
    other = generator.integers(0, queries.domain.sizes)
    for clique, table in zip(queries.cliques, queries.split(potentials), strict=True):
        cells = np.indices(table.shape)
        for name, values in zip(clique, cells, strict=True):
            axis = queries.domain.index(name)
            table[(values != record[axis]) & (values != other[axis])] = -np.inf
    return potentials


def one_record(queries: Marginals, generator: Generator) -> NDArray[np.float64]:
    """All other values of every attribute in a clique are impossible."""
    potentials = np.full(queries.size, -np.inf)
    return with_record(potentials, queries, generator.integers(0, queries.domain.sizes))


def compensating(queries: Marginals, generator: Generator) -> NDArray[np.float64]:
    """Terms of +-800, which exp cannot hold, on values of an attribute, taken off again in the next clique with it."""
    potentials = drawn(queries, generator)
    tables = queries.split(potentials)
    for name in queries.domain.names:
        holders = [place for place, clique in enumerate(queries.cliques) if name in clique]
        for one, other in pairwise(holders):
            terms = generator.choice([-800.0, 0.0, 800.0], queries.domain.size((name,)))
            for place, sign in ((one, 1), (other, -1)):
                axis = queries.cliques[place].index(name)
                shape = [-1 if at == axis else 1 for at in range(tables[place].ndim)]
                tables[place] += sign * terms.reshape(shape)
    return potentials


def huge(queries: Marginals, generator: Generator) -> NDArray[np.float64]:
    """Far from each other and from 0 everywhere: some record has nearly all of the probability."""
    return generator.uniform(-800, 800, queries.size)


def huge_and_excluding(queries: Marginals, generator: Generator) -> NDArray[np.float64]:
    return excluding(queries, generator) + compensating(queries, generator) + 1e4


SORTS = (zero, drawn, excluding, excluding_values, one_record, compensating, huge, huge_and_excluding)
POTENTIALS = {sort.__name__: sort for sort in SORTS}
CASES = {**SHAPES, **{f"random {seed}": random_shape(seed) for seed in range(12)}}


def with_record(potentials: NDArray[np.float64], queries: Marginals, record: NDArray[np.int64]) -> NDArray[np.float64]:
    """The potentials, 0 where a cell of the record was impossible."""
    potentials = potentials.copy()
    for clique, table in zip(queries.cliques, queries.split(potentials), strict=True):
        cell = tuple(record[queries.domain.index(name)] for name in clique)
        table[cell] = max(table[cell], 0.0) if np.isinf(table[cell]) else table[cell]
    return potentials


def structure(shape: GraphShape) -> JunctionTree:
    return JunctionTree.of(shape.domain, shape.cliques)


def read(shape: GraphShape, tree: JunctionTree) -> list[Clique]:
    """The cliques of the shape, and a few more inside its nodes that nobody asked the tree for."""
    return [*shape.cliques, tree.domain.canonical(tree.nodes[-1]), tree.nodes[0][-1:]]


def both(make: Make, shape: GraphShape, *, more: bool = False) -> tuple[MarginalOracle, BruteForce]:
    tree = structure(shape)
    cliques = read(shape, tree) if more else list(shape.cliques)
    return make(tree, cliques), BruteForce(tree, cliques)


def assert_equals_brute_force(make: Make, shape: GraphShape, sort: str, seed: int, more: bool) -> None:
    oracle, slow = both(make, shape, more=more)
    assert oracle.queries == slow.queries
    potentials = POTENTIALS[sort](slow.queries, np.random.default_rng(seed))
    given = potentials.copy()
    wanted = slow.marginals(potentials)
    np.testing.assert_allclose(oracle.marginals(potentials), wanted, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(oracle.log_partition, slow.log_partition, rtol=1e-12, atol=1e-9)
    np.testing.assert_array_equal(potentials, given)


@pytest.mark.parametrize("sort", POTENTIALS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ORACLES)
def test_marginals_and_log_partition_equal_brute_force(name: str, case: str, sort: str) -> None:
    for seed, more in ((0, False), (1, True)):
        assert_equals_brute_force(ORACLES[name], CASES[case], sort, seed, more)


@pytest.mark.parametrize("sort", POTENTIALS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ORACLES)
def test_conditionals_equal_brute_force_and_their_product_is_the_joint(name: str, case: str, sort: str) -> None:
    oracle, slow = both(ORACLES[name], CASES[case])
    potentials = POTENTIALS[sort](slow.queries, np.random.default_rng(2))
    found, wanted = oracle.conditionals(potentials), slow.conditionals(potentials)
    np.testing.assert_allclose(oracle.log_partition, slow.log_partition, rtol=1e-12, atol=1e-9)
    assert len(found) == len(slow.tree.nodes)
    for one, other in zip(found, wanted, strict=True):
        possible = other.sum(axis=1) > 0
        assert one.shape == other.shape
        np.testing.assert_allclose(one[possible], other[possible], rtol=1e-9, atol=1e-12)
        # No record falls in the other rows; they still are distributions, or empty.
        sums = one[~possible].sum(axis=1)
        np.testing.assert_allclose(sums, np.round(sums), rtol=0, atol=1e-12)
        assert set(np.round(sums)) <= {0.0, 1.0}
    np.testing.assert_allclose(product(slow.tree, found), slow.joint(potentials), rtol=1e-9, atol=1e-12)


def product(tree: JunctionTree, conditionals: tuple[NDArray[np.float64], ...]) -> NDArray[np.float64]:
    """The probability of every record, shape ``domain.sizes``."""
    joint = np.ones(tree.domain.sizes)
    for node, table in zip(tree.nodes, conditionals, strict=True):
        order = sorted(range(len(node)), key=lambda place: tree.domain.index(node[place]))
        arranged = table.reshape(tree.domain.shape(node)).transpose(order)
        sizes = zip(tree.domain.names, tree.domain.sizes, strict=True)
        joint *= arranged.reshape([size if name in node else 1 for name, size in sizes])
    return joint


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ORACLES)
def test_impossible_potentials_have_no_marginals(name: str, case: str) -> None:
    oracle, slow = both(ORACLES[name], CASES[case])
    potentials = drawn(slow.queries, np.random.default_rng(3))
    slow.queries.split(potentials)[0][...] = -np.inf
    np.testing.assert_array_equal(oracle.marginals(potentials), np.zeros(slow.queries.size))
    assert oracle.log_partition == -np.inf
    assert product(slow.tree, oracle.conditionals(potentials)).sum() == 0


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ORACLES)
def test_nothing_is_left_of_an_earlier_call(name: str, case: str) -> None:
    used, slow = both(ORACLES[name], CASES[case])
    generator = np.random.default_rng(4)
    for sort in (one_record, huge, drawn):
        potentials = sort(slow.queries, generator)
        fresh, _ = both(ORACLES[name], CASES[case])
        used.conditionals(excluding(slow.queries, generator))
        np.testing.assert_array_equal(used.marginals(potentials), fresh.marginals(potentials))
        assert used.log_partition == fresh.log_partition


@pytest.mark.parametrize("name", ORACLES)
def test_a_result_is_not_changed_by_a_later_call(name: str) -> None:
    oracle, slow = both(ORACLES[name], SHAPES["cycle"])
    generator = np.random.default_rng(5)
    marginals = oracle.marginals(potentials := drawn(slow.queries, generator))
    conditionals = oracle.conditionals(potentials)
    kept = marginals.copy(), [table.copy() for table in conditionals]
    oracle.conditionals(one_record(slow.queries, generator))
    oracle.marginals(one_record(slow.queries, generator))
    np.testing.assert_array_equal(marginals, kept[0])
    for table, copy in zip(conditionals, kept[1], strict=True):
        np.testing.assert_array_equal(table, copy)


@pytest.mark.parametrize("name", ORACLES)
def test_a_constant_moves_the_log_partition_alone(name: str) -> None:
    oracle, slow = both(ORACLES[name], SHAPES["the empty clique among others"])
    potentials = drawn(slow.queries, np.random.default_rng(6))
    before, at = oracle.marginals(potentials), oracle.log_partition
    slow.queries.split(potentials)[1][...] += 2000.0
    np.testing.assert_allclose(oracle.marginals(potentials), before, rtol=1e-12)
    assert oracle.log_partition == pytest.approx(at + 2000, rel=1e-13)


@pytest.mark.parametrize("name", ORACLES)
def test_potentials_of_another_length_are_refused(name: str) -> None:
    oracle, slow = both(ORACLES[name], SHAPES["tree"])
    for size in (slow.queries.size - 1, slow.queries.size + 1):
        with pytest.raises(ValueError, match=rf"shape \({size},\); want \({slow.queries.size},\)"):
            oracle.marginals(np.zeros(size))


def test_a_clique_outside_every_node_is_refused() -> None:
    shape = SHAPES["chain"]
    with pytest.raises(ValueError, match=r"no node .* contains \('a', 'e'\)"):
        Inference(structure(shape), [*shape.cliques, ("a", "e")])


def forgets_the_last_clique(tree: JunctionTree, cliques: Sequence[Clique]) -> MarginalOracle:
    return _Altered(tree, cliques, lambda oracle, values: np.where(_last(oracle.queries), 0.0, values))


def softens_zeros(tree: JunctionTree, cliques: Sequence[Clique]) -> MarginalOracle:
    return _Altered(tree, cliques, lambda oracle, values: np.where(np.isinf(values), -3.0, values))


def clips_large_terms(tree: JunctionTree, cliques: Sequence[Clique]) -> MarginalOracle:
    return _Altered(tree, cliques, lambda oracle, values: np.minimum(values, 700.0))


class _Altered(BruteForce):
    """Brute force of other potentials than it is given."""

    def __init__(
        self,
        tree: JunctionTree,
        cliques: Sequence[Clique],
        change: Callable[[BruteForce, NDArray[np.float64]], NDArray[np.float64]],
    ) -> None:
        super().__init__(tree, cliques)
        self._change = change

    def joint(self, potentials: NDArray[np.float64]) -> NDArray[np.float64]:
        return super().joint(self._change(self, potentials))


def _last(queries: Marginals) -> NDArray[np.bool_]:
    return np.arange(queries.size) >= queries.size - queries.sizes[-1]


@pytest.mark.parametrize(
    ("wrong", "sort"),
    [
        (forgets_the_last_clique, "drawn"),
        (softens_zeros, "excluding"),
        (softens_zeros, "excluding_values"),
        (clips_large_terms, "compensating"),
    ],
)
@pytest.mark.parametrize("case", ["tree", "cycle", "disconnected", "duplicate clique", "grid", "all pairs"])
def test_a_wrong_oracle_is_found_out(wrong: Make, sort: str, case: str) -> None:
    assert any(differs(wrong, SHAPES[case], sort, seed) for seed in range(4))


def differs(wrong: Make, shape: GraphShape, sort: str, seed: int) -> bool:
    try:
        assert_equals_brute_force(wrong, shape, sort, seed, False)
    except AssertionError:
        return True
    return False


def test_brute_force_refuses_a_large_domain() -> None:
    domain = Domain.of({f"x{place}": 2 for place in range(25)})
    with pytest.raises(ValueError, match="brute force takes at most 16,777,216"):
        BruteForce(JunctionTree.of(domain, []), [])
