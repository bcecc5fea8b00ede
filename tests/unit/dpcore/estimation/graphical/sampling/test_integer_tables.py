"""Integer tables of whole models: neighbours agree, nothing impossible, no bias, and errors do not pile up."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.inference.belief_propagation import Inference
from dpcore.estimation.graphical.inference.node_tables import Conditionals, NodeTable
from dpcore.estimation.graphical.sampling import integer_tables
from dpcore.estimation.graphical.sampling.integer_tables import conditional_table, margin, round_model
from dpcore.estimation.graphical.sampling.rounding import Counts
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from tests.support.graphical_models import joint_table, marginal, random_model
from tests.support.graphs import SHAPES

UNITS = (0, 1, 17, 5_000)


def rounded(model: GraphicalModel, units: int, seed: int = 1) -> tuple[Counts, ...]:
    return tuple(round_model(model.tree, model.conditionals, units, np.random.default_rng(seed)))


@pytest.mark.parametrize("name", SHAPES)
def test_nodes_agree_on_their_separators_and_hold_no_impossible_cell(name: str) -> None:
    model = random_model(SHAPES[name], 3)
    tree, joint = model.tree, joint_table(model)
    for units in UNITS:
        tables = rounded(model, units)
        for node, separator, parent, table in zip(tree.nodes, tree.separators, tree.parents, tables, strict=True):
            assert table.sum() == units
            assert table.min() >= 0
            assert not table.ravel()[marginal(joint, tree.domain, node).ravel() == 0].any()
            if parent >= 0:
                above = margin(tables[parent], tree.domain, tree.nodes[parent], separator)
                assert table.sum(axis=1).tolist() == above.tolist()


def test_a_margin_has_the_order_of_its_clique() -> None:
    domain = Domain.of({"a": 2, "b": 3, "c": 4})
    table = np.random.default_rng(1).integers(0, 9, (2, 3, 4)).transpose(1, 0, 2)
    node = ("b", "a", "c")
    assert margin(table.reshape(6, 4), domain, node, ("c", "b")).tolist() == table.sum(axis=1).T.ravel().tolist()
    assert margin(table.reshape(6, 4), domain, node, ()).tolist() == [table.sum()]
    assert margin(table.reshape(6, 4), domain, node, node).tolist() == table.ravel().tolist()


@pytest.mark.smoke(1)
@pytest.mark.parametrize("name", ["chain of three-way cliques", "disconnected", "cycle"])
def test_the_mean_of_every_count_is_the_models(name: str) -> None:
    """Of 600 roundings, to 5 standard deviations of what was seen; a cell that hardly varies, to 0.02 counts."""
    model, units, draws = random_model(SHAPES[name], 4), 60, 600
    generator = np.random.default_rng(2)
    drawn = [tuple(round_model(model.tree, model.conditionals, units, generator)) for _ in range(draws)]
    joint = joint_table(model)
    for index, node in enumerate(model.tree.nodes):
        counts = np.array([tables[index].ravel() for tables in drawn])
        wanted = units * marginal(joint, model.domain, node).ravel()
        error = np.abs(counts.mean(axis=0) - wanted)
        assert (error <= 5 * counts.std(axis=0) / draws**0.5 + 0.02).all()


def long_chain(seed: int) -> GraphicalModel:
    """Ten nodes in a row, each (x_i, x_i+1 | x_i+2): 16 x 16 x 8 cells, separators of 128 or 256."""
    sizes = {f"x{place}": 16 if place % 3 else 8 for place in range(12)}
    domain = Domain.of(sizes)
    cliques = [tuple(domain.names[start : start + 3]) for start in range(10)]
    tree = JunctionTree.of(domain, cliques)
    generator = np.random.default_rng(seed)
    shapes = [(domain.size(s), domain.size(n[len(s) :])) for n, s in zip(tree.nodes, tree.separators, strict=True)]
    tables = [generator.gamma(0.4, size=shape) * generator.random(shape[1]) + 1e-9 for shape in shapes]
    return GraphicalModel(tree, tuple(table / table.sum(axis=1, keepdims=True) for table in tables), 1.0)


def one_way_error(model: GraphicalModel, tables: tuple[Counts, ...], units: int) -> float:
    """Mean absolute error of one-way counts, each in every node."""
    errors, wanted = [], [np.ones(1)] * len(tables)
    tree = model.tree
    for node, (names, separator, parent) in enumerate(zip(tree.nodes, tree.separators, tree.parents, strict=True)):
        given = np.ones(1) if parent < 0 else margin(wanted[parent], tree.domain, tree.nodes[parent], separator)
        wanted[node] = given[:, None] * model.conditionals[node]
        for name in names:
            found = margin(tables[node], tree.domain, names, (name,))
            errors.append(np.abs(found - units * margin(wanted[node], tree.domain, names, (name,))).mean())
    return float(np.mean(errors))


def test_errors_do_not_pile_up_along_a_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    model, units = long_chain(6), 20_000
    found = one_way_error(model, rounded(model, units), units)
    assert found < 1.0
    monkeypatch.setattr(integer_tables, "expected_rows", passed_on)
    assert one_way_error(model, rounded(model, units), units) > 1.6 * found


def passed_on(
    wanted: NDArray[np.float64], totals: NDArray[np.int64], means: NDArray[np.float64], *_: object
) -> NDArray[np.float64]:
    """Rows with their conditional distribution, whatever is too much in them."""
    return np.asarray(wanted * (totals / np.where(means > 0, means, 1.0))[:, None])


def test_a_separator_that_is_drawn_but_has_no_chances_is_told() -> None:
    model = random_model(SHAPES["chain"], 1)
    pairs = zip(model.tree.parents, model.conditionals, strict=True)
    tables = tuple(np.zeros_like(table) if parent >= 0 else table for parent, table in pairs)
    with pytest.raises(ValueError, match="a drawn value of its separator has no probabilities"):
        tuple(round_model(model.tree, tables, 10, np.random.default_rng(1)))


def test_large_trees_look_after_the_smallest_margins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are exact however few margins are looked after."""
    monkeypatch.setattr(integer_tables, "_WORK", 1)
    monkeypatch.setattr(integer_tables, "_MIN_MARGINS", 2)
    model = random_model(SHAPES["everything in one clique"], 3)
    assert [table.sum() for table in rounded(model, 1_000)] == [1_000]


def take_tables(name: str, seed: int) -> tuple[JunctionTree, Conditionals]:
    """A model as an estimate leaves it: joint tables, their axes in the order of the estimate."""
    shape = SHAPES[name]
    tree = JunctionTree.of(shape.domain, shape.cliques)
    oracle = Inference(tree, shape.cliques)
    generator = np.random.default_rng(seed)
    potentials = np.where(
        generator.random(oracle.queries.size) < 0.05, -np.inf, generator.normal(0, 2, oracle.queries.size)
    )
    potentials[np.cumsum([0, *oracle.queries.sizes[:-1]])] = 0.0
    oracle.marginals(potentials)
    return tree, Conditionals(tree, oracle.take_tables())


@pytest.mark.parametrize("name", SHAPES)
def test_joint_tables_in_any_order_give_what_their_conditionals_give_and_stay(name: str) -> None:
    """To the bit, so that a model that was saved and read again has the same rows."""
    tree, model = take_tables(name, 3)
    generator, turned = np.random.default_rng(4), list[NodeTable]()
    for attributes, values in model.joints:
        order = generator.permutation(len(attributes))
        apart = np.repeat(values.transpose(order)[..., None], 2, axis=-1)[..., 0]  # Cells that do not touch.
        turned.append(
            NodeTable(tuple(attributes[axis] for axis in order), (values.transpose(order), apart)[len(turned) % 2])
        )
    plain = tuple(table.copy() for table in model)
    before = [table.copy() for table in (*plain, *(values for _, values in model.joints))]
    for units in (7, 3_000):
        wanted = [table.tolist() for table in round_model(tree, plain, units, np.random.default_rng(5))]
        for tables in (model, Conditionals(tree, turned)):
            found = [table.tolist() for table in round_model(tree, tables, units, np.random.default_rng(5))]
            assert found == wanted
    after = (*plain, *(values for _, values in model.joints))
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))


def test_own_chances_are_read_from_the_model_as_they_were_copied() -> None:
    tree, model = take_tables("grid", 3)
    for tables in (model, tuple(model)):
        for node in range(len(tree.nodes)):
            fresh, (values, sums, rows, columns) = conditional_table(tree, tables, node)
            assert np.array_equal(fresh, model[node])
            i, j = ((part.high[:, None, 0] + part.low[None, :, 0]).ravel() for part in (rows, columns))
            assert np.array_equal(values[i[:, None] + j] / sums[:, None], fresh)
            held = tables.joints[node].values if isinstance(tables, Conditionals) else tables[node]
            assert np.shares_memory(values, held)
            assert not np.shares_memory(fresh, held)


@pytest.mark.parametrize(("units", "dtype"), [(2**31 - 1, np.int32), (2**31, np.int64), (10**12, np.int64)])
def test_counts_are_wide_enough(units: int, dtype: type) -> None:
    model = random_model(SHAPES["chain"], 3)
    tables = rounded(model, units)
    assert {table.dtype for table in tables} == {np.dtype(dtype)}
    assert [table.sum(dtype=np.int64) for table in tables] == [units] * len(tables)
