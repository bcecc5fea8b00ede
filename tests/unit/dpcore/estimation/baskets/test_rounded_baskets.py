"""Baskets dealt from counts: every sum is kept, and all ways to keep them are about equally likely."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.estimation.baskets.rounded_baskets import RoundedBaskets
from dpcore.estimation.model import BasketRows
from dpcore.estimation.row_partitions import partition_rows


def counts_of(matrix: NDArray[np.bool_], classes: NDArray[np.int64]) -> RoundedBaskets:
    """The counts of the rows of a matrix, of which each has a class."""
    kinds, units = np.unique(np.stack([classes, matrix.sum(axis=1)]), axis=1, return_counts=True)
    holders = np.stack([matrix[classes == number].sum(axis=0) for number in range(classes.max() + 1)])
    return RoundedBaskets(
        kinds[1].astype(np.int32), kinds[0].astype(np.int32), units.astype(np.int32), holders.astype(np.int32)
    )


def matrix_of(rows: BasketRows, items: int) -> NDArray[np.bool_]:
    matrix = np.zeros((rows.units, items), dtype=np.bool_)
    assert not matrix[rows.unit, rows.item].any()
    matrix[rows.unit, rows.item] = True
    assert matrix.sum() == rows.unit.size
    return matrix


@pytest.mark.parametrize("density", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("units", [1, 2, 300])
def test_sizes_and_item_counts_are_kept(density: float, units: int) -> None:
    draw = np.random.default_rng(units)
    matrix = draw.random((units, 40)) < density * draw.random(40)
    counts = counts_of(matrix, np.arange(units) % 3 if units > 2 else np.zeros(units, dtype=np.int64))
    dealt = matrix_of(counts.rows(np.random.default_rng(1)), 40)
    assert counts.units == units
    assert np.array_equal(dealt.sum(axis=0), matrix.sum(axis=0))
    assert np.array_equal(np.sort(dealt.sum(axis=1)), np.sort(matrix.sum(axis=1)))


def test_classes_are_dealt_apart() -> None:
    """Items of one class never meet those of the other one."""
    matrix = np.zeros((60, 8), dtype=np.bool_)
    matrix[:30, :4] = np.random.default_rng(0).random((30, 4)) < 0.5
    matrix[30:, 4:] = np.random.default_rng(1).random((30, 4)) < 0.5
    dealt = matrix_of(counts_of(matrix, np.arange(60) // 30).rows(np.random.default_rng(2)), 8)
    assert not (dealt[:, :4].any(axis=1) & dealt[:, 4:].any(axis=1)).any()


def test_every_matrix_with_the_sums_is_equally_likely() -> None:
    """All 3 x 3 matrices with sums (2, 1, 1) both ways, up to the order of rows, which is random."""
    matrix = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1]], dtype=np.bool_)
    counts, seen = counts_of(matrix, np.zeros(3, dtype=np.int64)), Counter[tuple[str, ...]]()
    for seed in range(4000):
        dealt = matrix_of(counts.rows(np.random.default_rng(seed)), 3)
        seen["".join(map(str, dealt[dealt.sum(axis=1).argsort(kind="stable")].astype(int).ravel()))] += 1  # type: ignore[index]
    # The large basket misses item 0 (then two baskets hold it: one way), or one of the others (then two ways each).
    assert len(seen) == 5
    assert max(seen.values()) < 1.25 * min(seen.values())


def test_pairs_are_those_of_a_uniform_matrix() -> None:
    """Items that half of 2,000 units hold meet in a quarter of them less what a fixed size of 20 of 40 takes away."""
    matrix = np.tile(np.arange(40) < 20, (2000, 1))
    matrix[1000:] = ~matrix[1000:]
    dealt = matrix_of(counts_of(matrix, np.zeros(2000, dtype=np.int64)).rows(np.random.default_rng(3)), 40)
    pairs = (dealt.T.astype(float) @ dealt)[np.triu_indices(40, 1)] / 2000
    expected = 20 * 19 / (40 * 39)
    assert pairs.mean() == pytest.approx(expected)
    assert np.abs(pairs - expected).max() < 5.5 * np.sqrt(expected * (1 - expected) / 2000)


def test_partitions_have_all_counts_together() -> None:
    draw = np.random.default_rng(4)
    matrix = draw.random((700, 30)) < 0.2 * draw.random(30)
    counts = counts_of(matrix, np.arange(700) % 4)
    parts = [matrix_of(part, 30) for part in partition_rows(counts, 64, 5, 0, 11)]
    assert [len(part) for part in parts] == [64] * 10 + [60]
    whole = np.concatenate(parts)
    assert np.array_equal(np.sort(whole.sum(axis=1)), np.sort(matrix.sum(axis=1)))
    assert np.abs(whole.sum(axis=0) - matrix.sum(axis=0)).max() == 0
    alone = next(partition_rows(counts, 64, 5, 7, 8))
    assert np.array_equal(matrix_of(alone, 30), parts[7])


def test_more_holders_than_places_are_cut_off() -> None:
    counts = RoundedBaskets(np.array([1]), np.array([0]), np.array([3]), np.array([[3, 2, 0]]))  # type: ignore[arg-type]
    dealt = matrix_of(counts.rows(np.random.default_rng(0)), 3)
    assert dealt.sum(axis=0).tolist() == [3, 0, 0]
