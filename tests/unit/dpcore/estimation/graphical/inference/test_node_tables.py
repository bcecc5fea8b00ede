"""Joint tables that an oracle hands over, and what is read from them, against those that it computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.answering.calibrated import Calibrated
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.inference.belief_propagation import Inference, MarginalOracle
from dpcore.estimation.graphical.inference.node_tables import Conditionals, NodeTable
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.queries import Marginals
from tests.support.graphs import SHAPES, GraphShape, random_shape
from tests.support.marginal_oracles import ReferenceOracle

CLOSE = {"rtol": 1e-9, "atol": 1e-14}
MAKES = pytest.mark.parametrize("make", [Inference, ReferenceOracle])
Make = Callable[[JunctionTree, Sequence[Clique]], MarginalOracle]


def oracle_of(shape: GraphShape, make: Make = Inference) -> tuple[JunctionTree, MarginalOracle]:
    tree = JunctionTree.of(shape.domain, shape.cliques)
    return tree, make(tree, shape.cliques)


def potentials_of(oracle: MarginalOracle, seed: int, zeros: float = 0.0) -> NDArray[np.float64]:
    generator = np.random.default_rng(seed)
    potentials = generator.normal(0, 2, oracle.queries.size)
    potentials[generator.random(potentials.size) < zeros] = -np.inf
    return potentials


@MAKES
@pytest.mark.parametrize("zeros", [0.0, 0.1])
@pytest.mark.parametrize("name", SHAPES)
def test_a_model_from_tables_handed_over_is_that_from_conditionals(name: str, zeros: float, make: Make) -> None:
    tree, oracle = oracle_of(SHAPES[name], make)
    potentials = potentials_of(oracle, 1, zeros)
    plain = GraphicalModel(tree, oracle.conditionals(potentials), 300.0)
    if oracle.log_partition == -np.inf:
        pytest.skip("nothing is possible")
    oracle.marginals(potentials)
    model = GraphicalModel(tree, Conditionals(tree, oracle.take_tables()), 300.0)
    asked = Marginals(tree.domain, (*tree.nodes, *tree.separators, *((name,) for name in tree.domain.names)))
    if tree.domain.names:
        asked = asked.only([*asked.cliques, tree.domain.names[:: max(1, len(tree.domain.names) - 1)]])
    np.testing.assert_allclose(model.answer(asked), plain.answer(asked), **CLOSE)
    chances = {node: table.reshape(-1) for node, table in zip(tree.nodes, plain.conditionals, strict=True)}
    for node, table in zip(tree.nodes, model.conditionals, strict=True):
        possible = table.sum(axis=1) > 0
        np.testing.assert_allclose(table.sum(axis=1)[possible], 1.0, rtol=1e-12)
        np.testing.assert_allclose(table[possible], chances[node].reshape(table.shape)[possible], **CLOSE)
        assert (table[chances[node].reshape(table.shape) == 0] == 0).all()


@pytest.mark.parametrize("seed", range(6))
def test_answers_do_not_depend_on_the_order_of_a_tables_axes(seed: int) -> None:
    tree, oracle = oracle_of(random_shape(seed, attributes=6))
    oracle.marginals(potentials_of(oracle, seed))
    generator = np.random.default_rng(seed)
    joints = oracle.take_tables()
    turned = []
    for attributes, values in joints:
        order = generator.permutation(len(attributes))
        turned.append(NodeTable(tuple(attributes[axis] for axis in order), values.transpose(order)))
    asked = [tuple(generator.choice(tree.domain.names, size=size, replace=False)) for size in (1, 2, 3, 4) * 3]
    answers = Calibrated(tree, Conditionals(tree, joints)).vector(asked)
    np.testing.assert_allclose(Calibrated(tree, Conditionals(tree, turned)).vector(asked), answers, **CLOSE)


@MAKES
def test_the_oracle_goes_on_with_tables_of_its_own(make: Make) -> None:
    _, oracle = oracle_of(SHAPES["cycle"], make)
    first, second = (potentials_of(oracle, seed) for seed in (1, 2))
    wanted = oracle.marginals(second)
    oracle.marginals(first)
    joints = oracle.take_tables()
    before = [values.copy() for _, values in joints]
    np.testing.assert_array_equal(oracle.marginals(second), wanted)
    for (_, values), copy in zip(joints, before, strict=True):
        np.testing.assert_array_equal(values, copy)
    again = oracle.take_tables()
    assert not any(np.shares_memory(one.values, other.values) for one in joints for other in again)


@MAKES
def test_tables_that_are_no_joint_tables_are_not_handed_over(make: Make) -> None:
    tree, oracle = oracle_of(SHAPES["cycle"], make)
    with pytest.raises(RuntimeError, match="want a call of marginals before"):
        oracle.take_tables()
    oracle.marginals(potentials_of(oracle, 1))
    oracle.conditionals(potentials_of(oracle, 1))
    with pytest.raises(RuntimeError, match="want a call of marginals before"):
        oracle.take_tables()
    oracle.marginals(np.full(oracle.queries.size, -np.inf))
    with pytest.raises(RuntimeError, match="with potentials that allow some record"):
        oracle.take_tables()
    oracle.marginals(potentials_of(oracle, 1))
    assert len(oracle.take_tables()) == len(tree.nodes)
    with pytest.raises(RuntimeError, match="want a call of marginals before"):
        oracle.take_tables()


def test_conditionals_are_a_sequence() -> None:
    tree, oracle = oracle_of(SHAPES["chain"])
    oracle.marginals(potentials_of(oracle, 3))
    tables = Conditionals(tree, oracle.take_tables())
    assert len(tables) == len(tree.nodes)
    np.testing.assert_array_equal(tables[-1], tables[len(tables) - 1])
    for one, other in zip(tables[1:], list(tables)[1:], strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(IndexError):
        tables[len(tables)]


def test_a_separator_of_probability_zero_has_a_row_of_zeros() -> None:
    domain = Domain.of({"a": 2, "b": 3, "c": 2})
    tree = JunctionTree(domain, (("a", "b"), ("b", "c")), (-1, 0), ((), ("b",)))
    top, below = np.array([[0.25, 0, 0.25], [0.25, 0, 0.25]]), np.array([[0.5, 0, 0.0], [0, 0, 0.5]])
    tables = Conditionals(tree, [NodeTable(("a", "b"), top), NodeTable(("c", "b"), below)])
    with np.errstate(all="raise"):
        assert tables[1].tolist() == [[1, 0], [0, 0], [0, 1]]


def test_tables_of_other_nodes_are_refused() -> None:
    tree, oracle = oracle_of(SHAPES["chain"])
    oracle.marginals(potentials_of(oracle, 4))
    joints = oracle.take_tables()
    for wrong in (joints[1:], joints[::-1]):
        with pytest.raises(ValueError, match="want one table for each node"):
            Conditionals(tree, wrong)


def test_answers_across_separators_of_tiny_probability_are_those_of_the_conditionals() -> None:
    """Nodes that agree on a separator but for rounding may differ by any factor where it is as small as 1e-40."""
    domain = Domain.of({"a": 3, "b": 2, "c": 3})
    tree = JunctionTree.of(domain, [("a", "b"), ("b", "c")])
    one = np.array([[0.5, 0.0], [0.5, 1e-40], [0.0, 1e-42]])
    other = np.array([[0.25, 0.25, 0.5], [1e-30, 0.0, 1e-31]])
    tables = {frozenset("ab"): NodeTable(("a", "b"), one), frozenset("bc"): NodeTable(("b", "c"), other)}
    joints = [tables[frozenset(node)] for node in tree.nodes]
    (found,) = Calibrated(tree, Conditionals(tree, joints)).marginals([("a", "c")])
    np.testing.assert_allclose(found, np.outer([0.5, 0.5, 0.0], [0.25, 0.25, 0.5]), atol=1e-20)
