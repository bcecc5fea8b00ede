"""Planned strides against numpy's own broadcasting and sums."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.inference.strides import (
    add_block,
    add_part,
    block_cells,
    clear_part,
    row_sum,
    stride_plans,
    sum_block,
    sum_part,
)

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4, "d": 1, "e": 5})
TABLES = [("a", "b", "c", "d", "e"), ("e", "c", "a"), ("d",), ("b", "d", "a", "e"), ()]
PAIRS = [
    (table, part)
    for table in TABLES
    for part in chain.from_iterable(combinations(table, size) for size in range(len(table) + 1))
]
# Parts whose attributes come in another order than those of the table.
PAIRS += [(("a", "b", "c"), ("c", "a")), (("e", "c", "a"), ("a", "e")), (("a", "b", "c"), ("b", "a"))]
LARGE = Domain.of({"a": 3, "b": 70, "c": 5, "d": 90})


def summed(domain: Domain, table: Clique, values: NDArray[np.float64], part: Clique) -> NDArray[np.float64]:
    letters = {name: chr(97 + place) for place, name in enumerate(domain.names)}
    text = "".join(letters[name] for name in table) + "->" + "".join(letters[name] for name in part)
    return np.asarray(np.einsum(text, values.reshape(domain.shape(table))))


def spread(domain: Domain, table: Clique, part: Clique, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The part's values in every cell of the table above them."""
    found = np.zeros(domain.shape(table))
    for cell in np.ndindex(found.shape):
        found[cell] = values.reshape(domain.shape(part))[tuple(cell[table.index(name)] for name in part)]
    return found


@pytest.mark.parametrize(("table", "part"), PAIRS)
def test_a_part_is_the_sum_of_its_table(table: Clique, part: Clique) -> None:
    generator = np.random.default_rng(1)
    tables = generator.normal(size=DOMAIN.size(table) + 5)
    values = np.full(DOMAIN.size(part) + 4, 7.0)  # Junk that the sums replace, between two that they leave.
    sum_part(stride_plans(DOMAIN, [(table, 3, part, 2)]), 0, tables, values)
    wanted = summed(DOMAIN, table, tables[3:-2], part)
    np.testing.assert_allclose(values[2:-2], wanted.ravel(), rtol=1e-12, atol=1e-12)
    assert values[[0, 1, -2, -1]].tolist() == [7.0] * 4


@pytest.mark.parametrize(("table", "part"), PAIRS)
def test_a_part_is_added_to_every_cell_above_it(table: Clique, part: Clique) -> None:
    generator = np.random.default_rng(2)
    tables, values = generator.normal(size=DOMAIN.size(table) + 5), generator.normal(size=DOMAIN.size(part) + 4)
    before = tables.copy()
    add_part(stride_plans(DOMAIN, [(table, 3, part, 2)]), 0, tables, values)
    np.testing.assert_array_equal(tables[3:-2], before[3:-2] + spread(DOMAIN, table, part, values[2:-2]).ravel())
    np.testing.assert_array_equal(tables[[0, 1, 2, -2, -1]], before[[0, 1, 2, -2, -1]])


@pytest.mark.parametrize("part", [("a", "c"), ("b",), ("d",), ("b", "d"), ("d", "b"), (), ("a", "b", "c", "d")])
def test_tables_of_several_blocks(part: Clique) -> None:
    tables = np.random.default_rng(3).normal(size=LARGE.size())
    plan = stride_plans(LARGE, [(LARGE.names, 0, part, 0)])
    values = np.zeros(LARGE.size(part))
    sum_part(plan, 0, tables, values)
    np.testing.assert_allclose(values, summed(LARGE, LARGE.names, tables, part).ravel(), rtol=1e-9, atol=1e-9)
    back = np.zeros(LARGE.size())
    add_part(plan, 0, back, values)
    cells = np.array(np.unravel_index(np.arange(LARGE.size()), LARGE.sizes))
    below = cells[list(LARGE.axes(part))]
    at = np.ravel_multi_index(tuple(below), LARGE.shape(part)) if part else np.zeros(LARGE.size(), dtype=int)
    np.testing.assert_array_equal(back, values[at])


@pytest.mark.parametrize("part", [("a", "c"), ("b",), ("d",), ("d", "b"), (), ("a", "b", "c", "d")])
def test_blocks_one_by_one_are_the_whole(part: Clique) -> None:
    generator = np.random.default_rng(5)
    tables, below = generator.normal(size=LARGE.size()), generator.normal(size=LARGE.size(part))
    plan, cells = stride_plans(LARGE, [(LARGE.names, 0, part, 0)]), block_cells(LARGE.sizes)
    whole, piecewise = tables.copy(), tables.copy()
    add_part(plan, 0, whole, below)
    blocks = piecewise.reshape(-1, cells)
    assert len(blocks) == plan.outer_length[0] > 1
    for block in reversed(range(len(blocks))):
        add_block(plan, 0, block, blocks[block], below)
    np.testing.assert_array_equal(piecewise, whole)
    found = np.full(LARGE.size(part) + 2, 7.0)
    clear_part(plan, 0, found[:-2])
    for block in range(len(blocks)):
        sum_block(plan, 0, block, blocks[block], found)
    np.testing.assert_allclose(found[:-2], summed(LARGE, LARGE.names, whole, part).ravel(), rtol=1e-9, atol=1e-9)
    assert found[-2:].tolist() == [7, 7]


def test_a_block_is_the_last_axes_that_fit() -> None:
    assert block_cells((3, 70, 5, 90)) == 450
    assert block_cells((3, 64, 64)) == 4096
    assert block_cells((3, 9_000)) == 9_000
    assert block_cells((3, 9_000, 1)) == 9_000
    assert block_cells((5, 1, 2)) == 10
    assert block_cells(()) == 1


def test_many_pairs_share_a_plan() -> None:
    generator = np.random.default_rng(4)
    pairs = [(("a", "b"), 0, ("b",), 0), (("c", "e"), 6, ("c",), 3), (("a", "b"), 0, (), 7)]
    tables, values = generator.normal(size=26), np.zeros(8)
    plan = stride_plans(DOMAIN, pairs)
    for index in range(len(pairs)):
        sum_part(plan, index, tables, values)
    one, other = tables[:6].reshape(2, 3), tables[6:].reshape(4, 5)
    np.testing.assert_allclose(values, [*one.sum(axis=0), *other.sum(axis=1), one.sum()], rtol=1e-12, atol=1e-12)


def test_no_pairs_make_an_empty_plan() -> None:
    assert stride_plans(DOMAIN, []).table.size == 0


@pytest.mark.parametrize("length", range(11))
def test_row_sums_of_every_length(length: int) -> None:
    values = 2.0 ** np.arange(12)
    assert row_sum(values, 1, length) == values[1 : 1 + length].sum()


def test_infinities_are_added() -> None:
    tables, values = np.zeros(6), np.array([0.0, -np.inf, 1.0])
    add_part(stride_plans(DOMAIN, [(("a", "b"), 0, ("b",), 0)]), 0, tables, values)
    assert tables.tolist() == [0, -np.inf, 1] * 2
