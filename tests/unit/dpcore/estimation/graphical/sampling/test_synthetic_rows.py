"""Rows of a model: dealt rows have exactly the integer tables, sampled ones approach the joint table."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.inference.belief_propagation import Inference
from dpcore.estimation.graphical.inference.node_tables import Conditionals
from dpcore.estimation.graphical.sampling.integer_tables import round_model
from dpcore.estimation.graphical.sampling.synthetic_rows import _fill_urns, dealt_codes, sampled_codes
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from tests.support.graphical_models import joint_table, random_model
from tests.support.graphs import SHAPES


def counted(codes: NDArray[np.int32], domain: Domain, node: tuple[str, ...]) -> list[int]:
    cells = np.ravel_multi_index(codes[:, list(domain.axes(node))].T, domain.shape(node))
    return np.bincount(cells, minlength=domain.size(node)).tolist()


def dealt(model: GraphicalModel, units: int, block: int, seed: int = 1) -> list[NDArray[np.int32]]:
    tables = round_model(model.tree, model.conditionals, units, np.random.default_rng(9))
    return list(dealt_codes(model.tree, tables, units, block, np.random.default_rng(seed)))


@pytest.mark.parametrize("block", [1, 7, 40, 100])
@pytest.mark.parametrize("name", SHAPES)
def test_all_blocks_together_have_the_counts_of_the_tables(name: str, block: int) -> None:
    model = random_model(SHAPES[name], 5)
    blocks = dealt(model, 40, block)
    assert [len(codes) for codes in blocks] == [min(block, 40 - start) for start in range(0, 40, block)]
    codes = np.concatenate(blocks)
    tables = tuple(round_model(model.tree, model.conditionals, 40, np.random.default_rng(9)))
    for node, table in zip(model.tree.nodes, tables, strict=True):
        assert counted(codes, model.domain, node) == table.ravel().tolist()


def test_no_rows_are_one_empty_block() -> None:
    model = random_model(SHAPES["disconnected"], 5)
    (codes,) = dealt(model, 0, 10)
    assert codes.shape == (0, 6)
    assert sampled_codes(model.tree, model.conditionals, 0, np.random.default_rng(1)).shape == (0, 6)


def frequencies(codes: NDArray[np.int32], sizes: tuple[int, ...]) -> NDArray[np.float64]:
    cells = np.ravel_multi_index(codes.T, sizes)
    return np.bincount(cells, minlength=int(np.prod(sizes))).reshape(sizes) / len(codes)


@pytest.mark.parametrize("name", ["tree", "cycle", "disconnected", "missing attribute", "one attribute"])
@pytest.mark.parametrize("way", ["sampled", "dealt"])
def test_records_come_as_often_as_the_joint_table_says(name: str, way: str) -> None:
    """20,000 rows: six standard deviations of a frequency, also for records that no node holds whole."""
    model, units = random_model(SHAPES[name], 6), 20_000
    if way == "sampled":
        codes = sampled_codes(model.tree, model.conditionals, units, np.random.default_rng(3))
    else:
        codes = np.concatenate(dealt(model, units, 3_000))
    joint = joint_table(model)
    error = np.abs(frequencies(codes, model.domain.sizes) - joint)
    assert (error <= 6 * np.sqrt(joint * (1 - joint) / units) + 1e-12).all()
    assert joint.max() < 1


def test_the_order_of_dealt_rows_says_nothing() -> None:
    """The first of four blocks is a random quarter: counts of its cells within six standard deviations of theirs."""
    model, units = random_model(SHAPES["chain"], 6, zeros=0.0), 20_000
    blocks = dealt(model, units, units // 4)
    whole = frequencies(np.concatenate(blocks), model.domain.sizes)
    for codes in blocks:
        error = np.abs(frequencies(codes, model.domain.sizes) - whole)
        assert (error <= 6 * np.sqrt(whole * (1 - whole) / len(codes)) + 1e-12).all()


def test_nodes_are_tied_by_their_separators_alone() -> None:
    """b is half 0 in either value of a, and c of b: dealt in order, a and c would be copies of each other."""
    tree = JunctionTree.of(Domain.of({"a": 2, "b": 2, "c": 2}), [("a", "b"), ("b", "c")])
    tables = tuple(np.full((1, 4), 2_500) if parent < 0 else np.full((2, 2), 2_500) for parent in tree.parents)
    (codes,) = dealt_codes(tree, tables, 10_000, 10_000, np.random.default_rng(4))
    assert np.bincount(codes[:, 0] * 2 + codes[:, 2], minlength=4).tolist() == pytest.approx([2_500] * 4, abs=150)


def test_one_generator_state_gives_the_same_rows() -> None:
    model = random_model(SHAPES["grid"], 6)
    first, again, other = (np.concatenate(dealt(model, 50, 20, seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_wide_residual_is_drawn_to_its_last_cell() -> None:
    """100 values: as many splits of an urn; every unit of the last row is dealt."""
    tree = JunctionTree.of(Domain.of({"a": 100}), [])
    table = np.arange(100)[None, :]
    for block in (1_000, 4_950):
        codes = np.concatenate(list(dealt_codes(tree, (table.copy(),), 4_950, block, np.random.default_rng(1))))
        assert counted(codes, tree.domain, ("a",)) == list(range(100))


def halves(counts: list[int], low: int, high: int, urn: list[int]) -> None:
    """Sums of left halves, each from its cells."""
    if high - low > 1:
        middle = (low + high) // 2
        urn[middle] = sum(counts[low:middle])
        halves(counts, low, middle, urn)
        halves(counts, middle, high, urn)


@pytest.mark.parametrize("cells", [1, 2, 3, 7, 64, 101])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_urns_are_filled_in_the_place_of_the_counts(cells: int, dtype: type) -> None:
    counts = np.random.default_rng(cells).integers(0, 9, (4, cells)).astype(dtype)
    wanted = [[0] * cells for _ in counts]
    for row, urn in zip(counts.tolist(), wanted, strict=True):
        halves(row, 0, cells, urn)
    urns = counts.copy()
    assert _fill_urns(urns).tolist() == counts.sum(axis=1).tolist()
    assert urns.tolist() == wanted


def wide(seed: int = 1) -> GraphicalModel:
    """Three tables: 384,000 cells in one row, as many in 4,800 rows, and a small one, of joint probabilities."""
    tree = JunctionTree.of(
        Domain.of({"a": 80, "b": 60, "c": 80, "d": 80, "e": 3}), [("a", "b", "c"), ("b", "c", "d"), ("d", "e")]
    )
    generator = np.random.default_rng(seed)
    oracle = Inference(tree, tree.nodes)
    oracle.marginals(generator.normal(0, 2, oracle.queries.size))
    return GraphicalModel(tree, Conditionals(tree, oracle.take_tables()), 100.0)


def peak(call: Callable[[], object]) -> int:
    """Bytes of arrays at the worst moment, beside what there was."""
    call()  # Compiles.
    tracemalloc.start()
    call()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def test_rows_need_little_memory_beside_the_model() -> None:
    """Nine bytes a cell of the largest table, to be rounded, and less than one for its margins, offsets and so on."""
    model, units = wide(), 100
    cells = max(model.tree.sizes)
    assert model.tree.cells > 1.9 * cells
    small = 0.98 * cells  # Less than any further table.
    assert peak(lambda: model.rows(units, np.random.default_rng(1))) < 9 * cells + small
    assert peak(lambda: model.sample(units, np.random.default_rng(1))) < 8 * cells + small
    blocks = peak(lambda: list(model.row_blocks(units, 10, np.random.default_rng(1))))
    assert blocks < 9 * cells + 4 * model.tree.cells + small
