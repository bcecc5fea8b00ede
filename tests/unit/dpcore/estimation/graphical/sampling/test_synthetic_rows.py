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
from dpcore.estimation.model import TableRows
from dpcore.estimation.row_partitions import partition_rows
from tests.support.graphical_models import joint_table, random_model
from tests.support.graphs import SHAPES


def counted(codes: NDArray[np.int32], domain: Domain, node: tuple[str, ...]) -> list[int]:
    cells = np.ravel_multi_index(codes[:, list(domain.axes(node))].T, domain.shape(node))
    return np.bincount(cells, minlength=domain.size(node)).tolist()


def dealt(model: GraphicalModel, units: int, seed: int = 1) -> NDArray[np.int32]:
    tables = round_model(model.tree, model.conditionals, units, np.random.default_rng(9))
    return dealt_codes(model.tree, tables, units, np.random.default_rng(seed))


@pytest.mark.parametrize("name", SHAPES)
def test_dealt_rows_have_the_counts_of_the_tables(name: str) -> None:
    model = random_model(SHAPES[name], 5)
    codes = dealt(model, 40)
    tables = tuple(round_model(model.tree, model.conditionals, 40, np.random.default_rng(9)))
    for node, table in zip(model.tree.nodes, tables, strict=True):
        assert counted(codes, model.domain, node) == table.ravel().tolist()


def test_no_rows_have_the_shape_of_rows() -> None:
    model = random_model(SHAPES["disconnected"], 5)
    assert dealt(model, 0).shape == (0, 6)
    assert sampled_codes(model.tree, model.conditionals, 0, np.random.default_rng(1)).shape == (0, 6)


def frequencies(codes: NDArray[np.int32], sizes: tuple[int, ...]) -> NDArray[np.float64]:
    cells = np.ravel_multi_index(codes.T, sizes)
    return np.bincount(cells, minlength=int(np.prod(sizes))).reshape(sizes) / len(codes)


@pytest.mark.parametrize("name", ["tree", "cycle", "disconnected", "missing attribute", "one attribute"])
@pytest.mark.parametrize("way", ["sampled", "dealt", "in partitions"])
def test_records_come_as_often_as_the_joint_table_says(name: str, way: str) -> None:
    """20,000 rows: six standard deviations of a frequency, also for records that no node holds whole."""
    model, units = random_model(SHAPES[name], 6), 20_000
    if way == "sampled":
        codes = sampled_codes(model.tree, model.conditionals, units, np.random.default_rng(3))
    elif way == "dealt":
        codes = dealt(model, units)
    else:
        rounded = model.rounded(units, np.random.default_rng(9))
        parts = partition_rows(rounded, 300, 4, 0, 67)
        codes = np.concatenate([part.codes for part in parts if isinstance(part, TableRows)])
    joint = joint_table(model)
    error = np.abs(frequencies(codes, model.domain.sizes) - joint)
    assert (error <= 6 * np.sqrt(joint * (1 - joint) / units) + 1e-12).all()
    assert joint.max() < 1


def test_the_order_of_dealt_rows_says_nothing() -> None:
    """Each quarter is a random one: counts of its cells within six standard deviations of those of all rows."""
    model, units = random_model(SHAPES["chain"], 6, zeros=0.0), 20_000
    rows = dealt(model, units)
    whole = frequencies(rows, model.domain.sizes)
    for codes in np.split(rows, 4):
        error = np.abs(frequencies(codes, model.domain.sizes) - whole)
        assert (error <= 6 * np.sqrt(whole * (1 - whole) / len(codes)) + 1e-12).all()


def test_nodes_are_tied_by_their_separators_alone() -> None:
    """b is half 0 in either value of a, and c of b: dealt in order, a and c would be copies of each other."""
    tree = JunctionTree.of(Domain.of({"a": 2, "b": 2, "c": 2}), [("a", "b"), ("b", "c")])
    tables = tuple(np.full((1, 4), 2_500) if parent < 0 else np.full((2, 2), 2_500) for parent in tree.parents)
    codes = dealt_codes(tree, tables, 10_000, np.random.default_rng(4))
    assert np.bincount(codes[:, 0] * 2 + codes[:, 2], minlength=4).tolist() == pytest.approx([2_500] * 4, abs=150)


def test_one_generator_state_gives_the_same_rows() -> None:
    model = random_model(SHAPES["grid"], 6)
    first, again, other = (dealt(model, 50, seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_wide_residual_is_drawn_to_its_last_cell() -> None:
    """100 values: as many splits of an urn; every unit of the last row is dealt."""
    tree = JunctionTree.of(Domain.of({"a": 100}), [])
    table = np.arange(100)[None, :]
    codes = dealt_codes(tree, (table.copy(),), 4_950, np.random.default_rng(1))
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
    # A rounded table of int32 lies in the memory of float64 until it is copied.
    rounded = peak(lambda: model.rounded(units, np.random.default_rng(1)))
    assert rounded < 9 * cells + 4 * model.tree.cells + small
    whole = model.rounded(units, np.random.default_rng(1))
    # Two copies, and while a margin is summed, its axes.
    assert peak(lambda: next(partition_rows(whole, 10, 1, 3, 4))) < 2 * 4 * model.tree.cells + 2 * small
