"""Answers of calibrated trees against sums over the dense joint table."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.answering import calibrated, contraction, within_nodes
from dpcore.estimation.graphical.answering.calibrated import Calibrated
from dpcore.estimation.graphical.answering.contraction import Table, labels_of, mask_of
from dpcore.estimation.graphical.answering.restriction import Restriction
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from tests.support.graphs import SHAPES, GraphShape, long_chain, random_shape, ring
from tests.support.joint_tables import Conditionals, joint_table, random_conditionals, summed_to

CLOSE = {"rtol": 1e-9, "atol": 1e-14}


def _model(shape: GraphShape, seed: int, zeros: float = 0.0) -> tuple[JunctionTree, Conditionals, NDArray[np.float64]]:
    tree = JunctionTree.of(shape.domain, shape.cliques)
    conditionals = random_conditionals(tree, np.random.default_rng(seed), zeros=zeros)
    return tree, conditionals, joint_table(tree, conditionals)


def _every_clique(domain: Domain) -> list[Clique]:
    return [clique for order in range(len(domain.names) + 1) for clique in combinations(domain.names, order)]


def _applied(
    table: NDArray[np.float64], domain: Domain, factors: dict[str, NDArray[np.float64]]
) -> NDArray[np.float64]:
    """The dense reference of Kronecker queries: one matrix an axis, a row of ones where there is none."""
    for axis, name in enumerate(domain.names):
        factor = factors.get(name, np.ones((1, domain.sizes[axis])))
        table = np.moveaxis(np.tensordot(factor, table, axes=(1, axis)), 0, axis)
    return table.reshape([factors[name].shape[0] for name in domain.names if name in factors])


@pytest.mark.parametrize("large_node", [1, 1 << 16], ids=["cliques share passes", "each by itself"])
@pytest.mark.parametrize("name", SHAPES)
def test_every_marginal_of_named_shapes(name: str, large_node: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(within_nodes, "_LARGE_NODE", large_node)
    tree, conditionals, table = _model(SHAPES[name], seed=1)
    cliques = _every_clique(tree.domain)
    for clique, marginal in zip(cliques, Calibrated(tree, conditionals).marginals(cliques), strict=True):
        assert marginal.shape == tree.domain.shape(clique)
        np.testing.assert_allclose(marginal, summed_to(table, tree.domain, clique), **CLOSE)


@pytest.mark.parametrize(
    ("cache_bytes", "max_cells"), [(1 << 26, 1 << 22), (0, 1), (3000, 1), (1 << 26, 1), (1 << 26, 12), (3000, 30)]
)
@pytest.mark.parametrize("seed", range(8))
def test_every_answer_of_random_shapes_whatever_memory_there_is(seed: int, cache_bytes: int, max_cells: int) -> None:
    tree, conditionals, table = _model(random_shape(seed, attributes=6), seed, zeros=0.3)
    domain, generator = tree.domain, np.random.default_rng(seed)
    model = Calibrated(tree, conditionals, cache_bytes, max_cells)
    cliques = _every_clique(domain)
    for clique, marginal in zip(cliques, model.marginals(cliques), strict=True):
        np.testing.assert_allclose(marginal, summed_to(table, domain, clique), **CLOSE)
    for clique in cliques:
        factors = {name: generator.normal(size=(generator.integers(1, 4), *domain.shape((name,)))) for name in clique}
        np.testing.assert_allclose(model.linear(factors), _applied(table, domain, factors), atol=1e-10)
    for clique in cliques[1:]:
        weights = {name: generator.normal(size=(5, *domain.shape((name,)))) for name in clique}
        one_by_one = [_applied(table, domain, {name: weights[name][[row]] for name in clique}) for row in range(5)]
        np.testing.assert_allclose(model.products(weights), np.ravel(one_by_one), atol=1e-10)


def test_no_table_between_is_larger_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    tree, conditionals, table = _model(ring(9, 4), seed=2)
    domain, made = tree.domain, list[int]()
    contract = contraction.contract

    def recorded(left: Table, right: Table, keep: int, max_cells: int) -> Table:
        result = contract(left, right, keep, max_cells)
        made.append(result.values.size)
        return result

    monkeypatch.setattr(contraction, "contract", recorded)
    monkeypatch.setattr(calibrated, "contract", recorded)
    clique = tuple(domain.names[place] for place in (0, 2, 3, 5, 7))
    for max_cells, allowed in ((1, 64), (200, 200), (1 << 22, 1 << 22)):
        made.clear()
        model = Calibrated(tree, conditionals, max_cells=max_cells)
        np.testing.assert_allclose(model.marginals([clique])[0], summed_to(table, domain, clique), **CLOSE)
        assert max(made) <= allowed
        made.clear()
        factors = {name: np.vander(np.linspace(-1, 1, 4), 3).T for name in clique}
        np.testing.assert_allclose(model.linear(factors), _applied(table, domain, factors), atol=1e-10)
        assert max(made) <= allowed
    assert max(made) > 200  # Else the limits above would not have been in the way.


@pytest.mark.parametrize("max_cells", [20, 60, 150])
@pytest.mark.parametrize("seed", range(6))
def test_large_tables_are_made_in_blocks_of_the_values_of_an_attribute(
    seed: int, max_cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = random_shape(seed, attributes=7) if seed else ring(8, 3)
    tree, conditionals, table = _model(shape, seed, zeros=0.2)
    blocks, block = list[bool](), Calibrated._block

    def recorded(model: Calibrated, label: int, places: slice) -> Calibrated:
        blocks.append(model._whole is not None)
        return block(model, label, places)

    monkeypatch.setattr(Calibrated, "_block", recorded)
    cliques = list(combinations(tree.domain.names, 3))
    model = Calibrated(tree, conditionals, max_cells=max_cells)
    for clique, marginal in zip(cliques, model.marginals(cliques), strict=True):
        np.testing.assert_allclose(marginal, summed_to(table, tree.domain, clique), **CLOSE)
    if not seed and max_cells == 20:
        assert set(blocks) == {False, True}  # Blocks of blocks too.


def test_a_message_cut_for_one_query_is_not_kept_for_others() -> None:
    tree, conditionals, _ = _model(long_chain(6, 4, width=2), seed=8)
    attributes, compared = range(6), 0
    for node, wanted in product(range(len(tree.nodes)), attributes):
        for label in {wanted, *labels_of(Calibrated(tree, conditionals)._routes.masks[node])}:
            model, whole = Calibrated(tree, conditionals), Calibrated(tree, conditionals)
            for other, part in model._routes.branches(node, mask_of([wanted])).items():
                model._message((node, other, part), Restriction(1 << 20, ranges={label: slice(0, 1)}))
                expected = whole._message((node, other, part), Restriction(1 << 20))
                got = model._message((node, other, part), Restriction(1 << 20))
                np.testing.assert_array_equal(got.values, expected.values)
                compared += 1
    assert compared


def test_requests_in_any_order_and_more_than_once() -> None:
    tree, conditionals, table = _model(SHAPES["cycle"], seed=3)
    model = Calibrated(tree, conditionals)
    cliques: list[Clique] = [("d", "a"), (), ("a", "d"), ("c", "e", "b"), ("d", "a"), ("b",), ()]
    first = model.marginals(cliques)
    for clique, marginal in zip(cliques, first, strict=True):
        np.testing.assert_allclose(marginal, summed_to(table, tree.domain, clique), **CLOSE)
    vector = model.vector(cliques)
    np.testing.assert_array_equal(vector, np.concatenate([marginal.ravel() for marginal in first]))
    for marginal in first:
        marginal[...] = -1  # What an answer is used for changes no later answer.
    np.testing.assert_array_equal(model.vector(cliques), vector)
    assert model.marginals([]) == []


@pytest.mark.parametrize("clique", [("a", "nobody"), ("a", "b", "a")])
def test_cliques_of_other_attributes_are_refused(clique: Clique) -> None:
    tree, conditionals, _ = _model(SHAPES["chain"], seed=4)
    with pytest.raises(ValueError, match="attribute"):
        Calibrated(tree, conditionals).marginals([clique])


def test_separators_of_probability_zero_give_zeros() -> None:
    domain = Domain.of({"a": 3, "b": 3, "c": 2})
    tree = JunctionTree.of(domain, [("a", "b"), ("b", "c")])
    top = tree.nodes[0]
    other = next(name for name in "ac" if name not in top)
    # b is never 1, and the conditional of that value is a row of zeros.
    joint = np.full(domain.shape(top), 1.0)
    joint[(slice(None),) * top.index("b") + (1,)] = 0.0
    below = np.full((3, domain.size((other,))), 1.0 / domain.size((other,)))
    below[1] = 0.0
    conditionals = (joint.reshape(1, -1) / joint.sum(), below)
    table = joint_table(tree, conditionals)
    model = Calibrated(tree, conditionals)
    with np.errstate(all="raise"):
        for clique in _every_clique(domain):
            np.testing.assert_allclose(model.marginals([clique])[0], summed_to(table, domain, clique), **CLOSE)
        answers = model.linear({name: np.eye(size) for name, size in zip(domain.names, domain.sizes, strict=True)})
    np.testing.assert_allclose(answers, table, **CLOSE)
    assert not answers[:, 1].any()


def test_probabilities_near_the_smallest_numbers_stay_numbers() -> None:
    domain = Domain.of({"a": 2, "b": 2, "c": 2})
    tree = JunctionTree.of(domain, [("a", "b"), ("b", "c")])
    tiny = np.array([[1.0, 5e-324, 5e-324, 0.0]])
    model = Calibrated(tree, (tiny, np.array([[0.5, 0.5], [0.25, 0.75]])))
    for answer in model.marginals(_every_clique(domain)):
        assert np.isfinite(answer).all()
        assert answer.sum() == pytest.approx(1.0)


def test_a_conditional_of_another_shape_is_refused() -> None:
    tree, conditionals, _ = _model(SHAPES["chain"], seed=5)
    with pytest.raises(ValueError, match="node 1"):
        Calibrated(tree, (conditionals[0], conditionals[1].T.copy()[:1], *conditionals[2:]))


def test_queries_over_more_attributes_than_any_table_has() -> None:
    shape = long_chain(60, 3, width=2)
    tree = JunctionTree.of(shape.domain, shape.cliques)
    generator = np.random.default_rng(6)
    model = Calibrated(tree, random_conditionals(tree, generator))
    weights = {name: generator.normal(size=(7, 3)) for name in shape.domain.names}
    pairs = model.marginals(shape.cliques)
    singles = model.marginals([(name,) for name in shape.domain.names])
    expected = np.empty(7)
    for row in range(7):  # Along the chain: p(x0) p(x1 | x0) ... times the weights.
        message = weights["x0"][row] * singles[0]
        for place, pair in enumerate(pairs):
            message = message @ (pair / singles[place][:, None]) * weights[f"x{place + 1}"][row]
        expected[row] = message.sum()
    np.testing.assert_allclose(model.products(weights), expected, rtol=1e-9)
    rows = {name: matrix[:2] if name == "x31" else matrix[:1] for name, matrix in weights.items()}
    linear = model.linear(rows)
    assert linear.shape == tuple(2 if name == "x31" else 1 for name in shape.domain.names)
    assert linear.ravel()[0] == pytest.approx(expected[0], rel=1e-9)


def test_the_ends_of_a_long_chain() -> None:
    """Deeper than Python's recursion; copies of one bit make the ends equal."""
    shape = long_chain(2500, 2, width=2)
    names = shape.domain.names
    separators = ((), *((name,) for name in names[1:-1]))
    tree = JunctionTree(shape.domain, shape.cliques, tuple(range(-1, 2498)), separators)
    model = Calibrated(tree, (np.array([[0.25, 0.0, 0.0, 0.75]]), *[np.eye(2)] * 2498))
    np.testing.assert_allclose(model.marginals([("x0", "x2499")])[0], [[0.25, 0.0], [0.0, 0.75]], **CLOSE)


@pytest.mark.parametrize(
    "weights", [{}, {"a": np.ones((2, 2)), "b": np.ones((3, 3))}, {"a": np.ones((2, 5))}, {"a": np.ones(2)}]
)
def test_weights_that_do_not_fit_are_refused(weights: dict[str, NDArray[np.float64]]) -> None:
    tree, conditionals, _ = _model(SHAPES["chain"], seed=7)
    with pytest.raises(ValueError, match="weights"):
        Calibrated(tree, conditionals).products(weights)


def test_factors_that_do_not_fit_are_refused() -> None:
    tree, conditionals, _ = _model(SHAPES["chain"], seed=8)
    with pytest.raises(ValueError, match="factor of 'b'"):
        Calibrated(tree, conditionals).linear({"b": np.ones((1, 2))})


def test_nothing_asked_is_nothing_answered() -> None:
    tree, conditionals, _ = _model(SHAPES["chain"], seed=9)
    model = Calibrated(tree, conditionals)
    assert model.linear({"a": np.ones((0, 2)), "b": np.ones((4, 3))}).shape == (0, 4)
    assert model.products({"a": np.ones((0, 2))}).shape == (0,)
    assert model.linear({}) == pytest.approx(1.0)
