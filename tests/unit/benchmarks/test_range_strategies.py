"""Baselines against explicit matrices, closed forms and the figures printed in the thesis."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.measurement import Noise
from dpcore.queries.ranges import all_ranges, prefix
from tests.benchmarks.matrix.tables import ALL_RANGE, GAUSSIAN, LAPLACE, PERMUTED, PREFIX, SVDB, Row, agrees
from tests.support.implicit_matrices import Dense, Identity, Permuted
from tests.support.implicit_ranges import AllRanges, Ranges
from tests.support.linear_operators import ImplicitMatrix
from tests.support.range_strategies import (
    Privelet,
    best_branches,
    greedy_h,
    hb,
    hierarchy,
    inverse_traces,
    squared_error,
    svd_bound,
)

SIGMA = 4.2246788893268326  # The analytic Gaussian mechanism at epsilon 1, delta 1e-6.
MADE: Mapping[str, Callable[[int, NDArray[np.float64]], ImplicitMatrix]] = {
    "identity": lambda size, gram: Identity(size),
    "h2": lambda size, gram: hierarchy(size),
    "privelet": lambda size, gram: Privelet(size),
    "hb": lambda size, gram: hb(size),
    "greedy_h": lambda size, gram: greedy_h(gram),
}


def workload(name: str, size: int) -> ImplicitMatrix:
    if name == PREFIX:
        return Ranges.prefixes(size)
    return AllRanges(size) if name in (ALL_RANGE, PERMUTED) else Ranges.of_width(size, 32)


def rmse(row: Row, column: str, noise: Noise) -> float:
    asked = workload(row.workload, row.size)
    gram = asked.gram()
    if column == SVDB:
        total = svd_bound(gram)
    else:
        total = squared_error(gram, MADE[column](row.size, gram), noise)
    return math.sqrt((2 if noise is Noise.LAPLACE else SIGMA**2) * total / asked.shape[0])


@pytest.mark.parametrize(("noise", "table"), [(Noise.LAPLACE, LAPLACE), (Noise.GAUSSIAN, GAUSSIAN)])
@pytest.mark.parametrize("size", [64, 256])
def test_every_figure_of_the_thesis_comes_out_again(noise: Noise, table: tuple[Row, ...], size: int) -> None:
    """Thesis, Tables 3.2 and 3.3."""
    compared = 0
    for row in table:
        for column in row.comparable if row.size == size else ():
            found = rmse(row, column, noise)
            assert agrees(found, row.printed[column]), (row.workload, column, found)
            compared += 1
    assert compared == 3 * 6 + 2


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 20])
@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_the_error_is_that_of_the_pseudo_inverse_of_the_matrix_written_out(
    made: Callable[[int, NDArray[np.float64]], ImplicitMatrix], size: int
) -> None:
    for asked in (all_ranges(size).astype(float), prefix(size).astype(float), np.ones((1, size))):
        gram = asked.T @ asked
        strategy = made(size, gram)
        written = strategy.dense()
        assert np.allclose(strategy.gram(), written.T @ written)
        assert np.allclose(strategy.column_norms(1), np.abs(written).sum(axis=0))
        assert np.allclose(strategy.column_norms(2), np.linalg.norm(written, axis=0))
        columns = RANDOM.normal(size=(len(written), 2))
        assert np.allclose(strategy.rmatmat(columns), written.T @ columns)
        answers = asked @ np.linalg.pinv(written)
        assert np.allclose(answers @ written, asked)
        for noise, norm in (
            (Noise.LAPLACE, np.abs(written).sum(axis=0)),
            (Noise.GAUSSIAN, np.sqrt((written**2).sum(0))),
        ):
            error = squared_error(gram, strategy, noise)
            assert error == pytest.approx(norm.max() ** 2 * (answers**2).sum())
            assert error >= svd_bound(gram) * (1 - 1e-9)


RANDOM = np.random.default_rng(3)


def test_a_workload_is_its_own_strategy_with_the_error_of_its_rank() -> None:
    """The Laplace and Gaussian mechanisms: W W^+ projects on as many dimensions as W has."""
    for asked, rank in ((AllRanges(9), 9), (Ranges.of_width(12, 5), 8), (Dense(np.ones((3, 4))), 1)):
        gram = asked.gram()
        assert squared_error(gram, asked, Noise.LAPLACE) == pytest.approx(rank * asked.sensitivity(1) ** 2)
        assert squared_error(gram, asked, Noise.ROUNDED_GAUSSIAN) == pytest.approx(rank * asked.sensitivity(2) ** 2)


def test_a_strategy_that_does_not_reach_the_workload_is_refused() -> None:
    total = Ranges.total(6)
    with pytest.raises(ValueError, match="does not determine the workload; want"):
        squared_error(np.eye(6), total, Noise.LAPLACE)
    assert inverse_traces([np.ones((6, 6))], total.gram()) == [pytest.approx(1.0)]


def test_a_permutation_changes_nothing_for_what_asks_each_value_alone() -> None:
    order = RANDOM.permutation(30)
    plain, permuted = AllRanges(30).gram(), Permuted(AllRanges(30), order).gram()
    assert squared_error(permuted, Identity(30), Noise.LAPLACE) == pytest.approx(plain.trace())
    assert svd_bound(permuted) == pytest.approx(svd_bound(plain))
    assert squared_error(permuted, hierarchy(30), Noise.LAPLACE) > squared_error(plain, hierarchy(30), Noise.LAPLACE)


def test_a_hierarchy_has_the_nodes_of_the_tree() -> None:
    assert hierarchy(4).dense().tolist() == [
        [1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1],
    ]  # fmt: skip
    uneven = hierarchy(7, 3, root=False)
    assert list(zip(uneven.low.tolist(), uneven.high.tolist(), strict=True)) == [
        (0, 3), (3, 5), (5, 7), *((code, code + 1) for code in range(7)),
    ]  # fmt: skip
    assert hierarchy(1, root=False).dense().tolist() == [[1]]
    with pytest.raises(ValueError, match="want one value and two branches"):
        hierarchy(4, 1)


def test_wavelets_are_orthogonal_and_signed() -> None:
    assert Privelet(4).dense().tolist() == [[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -1]]
    rows = Privelet(32).dense()
    products = rows @ rows.T
    assert np.count_nonzero(products - np.diag(products.diagonal())) == 0
    assert np.array_equal(Privelet(21).dense(), rows[:, :21])
    with pytest.raises(ValueError, match="want one or more"):
        Privelet(0)


def test_the_best_number_of_branches_is_that_of_the_formula() -> None:
    """Qardaji, Yang and Li (2013), equation (3), tried one by one."""
    for size in (3, 10, 64, 100, 256, 777, 1024):

        def variance(b: int, size: int = size) -> float:
            height = next(h for h in range(1, 20) if b**h >= size)
            return (b - 1) * height**3 - 2 * (b + 1) * height**2 / 3

        assert variance(best_branches(size)) == min(variance(b) for b in range(2, size + 1))
    assert [best_branches(size) for size in (1, 2, 64, 256, 1024)] == [2, 2, 64, 16, 32]


def test_greedy_weights_use_the_budget_up_and_beat_equal_ones() -> None:
    gram = AllRanges(50).gram()
    strategy = greedy_h(gram)
    assert np.allclose(strategy.column_norms(1), 1.0)
    greedy, equal = (squared_error(gram, one, Noise.LAPLACE) for one in (strategy, hierarchy(50)))
    assert greedy < 0.5 * equal


def test_values_that_are_always_asked_together_are_measured_together() -> None:
    strategy = greedy_h(np.ones((8, 8)))
    assert strategy.dense().tolist() == [[1.0] * 8]
