"""Satisfaction histograms and clipped sums: their weights, cells, digests and what they refuse."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.domain import BinaryView
from dpcore.queries import ClippedSums, Conjunctions, SatisfactionHistogram


def conjunctions(count: int, *, negated: bool = False) -> Conjunctions:
    columns = np.array([[query % 4, 4 + query % 3] for query in range(count)])
    return Conjunctions(BinaryView(7), columns, np.full(columns.shape, negated))


QUERIES = conjunctions(6)
GROUPS = np.array([0, 1, 1, 0, 0, 2], dtype=np.int32)


@given(
    clip=st.fractions(Fraction(1, 50), 9, max_denominator=1000),
    factor=st.fractions(Fraction(1, 9), 9, max_denominator=1000),
    size=st.integers(1, 120),
)
def test_weights_are_the_largest_steps_within_the_clip(clip: Fraction, factor: Fraction, size: int) -> None:
    """Both neighbours of each weight on the grid, by integer arithmetic: w <= 2^16 f min(1, C / k^(1/2)) < w + 1."""
    table = ClippedSums.of(conjunctions(size), [clip], factors=[factor]).weights if clip * factor > 1 / 1000 else None
    if table is None:
        return
    for k in range(1, size + 1):
        whole, clipped = factor * 2**16, (factor * clip * 2**16) ** 2
        w = int(table[0, k])
        assert w <= whole
        assert w**2 * k <= clipped
        assert w + 1 > whole or (w + 1) ** 2 * k > clipped


def test_weights_of_the_sum_norm_fall_with_k() -> None:
    table = ClippedSums.of(QUERIES, [2], norm=1).weights[0]
    assert table[1:].tolist() == [65536, 65536, 43690, 32768, 26214, 21845]


def test_each_group_has_its_own_clip_and_factor() -> None:
    sums = ClippedSums.of(QUERIES, [1, 100, 0.5], GROUPS, factors=[1, 0.5, 2])
    assert sums.group_sizes.tolist() == [3, 2, 1]
    assert sums.weights.tolist() == [
        [0, 65536, math.isqrt(2**31), math.isqrt(2**32 // 3)],
        [0, 32768, 32768, 0],
        [0, 65536, 0, 0],
    ]
    assert (sums.size, sums.denominator) == (6, 65536)


@pytest.mark.parametrize(("largest", "cells"), [(1, 2), (2, 3), (3, 3), (4, 4), (7, 4), (8, 5)])
def test_the_largest_group_sets_the_cells_of_all(largest: int, cells: int) -> None:
    groups = np.array([0] * largest + [1], dtype=np.int32)
    histogram = SatisfactionHistogram(conjunctions(largest + 1), groups)
    assert (histogram.cells, histogram.size) == (cells, 2 * cells)
    assert histogram.split(np.arange(2 * cells)).shape == (2, cells)


def test_digests_name_everything_that_is_asked() -> None:
    weights = ClippedSums.of(QUERIES, [1]).weights
    other = weights.copy()
    other[0, 3] += 1
    asked = [
        SatisfactionHistogram(QUERIES),
        SatisfactionHistogram(QUERIES, GROUPS),
        SatisfactionHistogram(conjunctions(7)),
        SatisfactionHistogram(QUERIES, None, np.array([0, 1])),
        SatisfactionHistogram(QUERIES, None, np.array([0, 2])),
        ClippedSums(QUERIES, weights),
        ClippedSums(QUERIES, other),
        ClippedSums(QUERIES, np.repeat(weights, 3, axis=0), GROUPS),
        ClippedSums(QUERIES, np.repeat(weights, 3, axis=0), GROUPS[::-1]),
    ]
    assert len({one.digest() for one in asked}) == len(asked)
    assert ClippedSums(QUERIES, weights.copy()).digest() == asked[5].digest()


def test_what_was_checked_cannot_be_changed() -> None:
    weights, groups = np.ones((3, 4), dtype=np.int64), GROUPS.copy()
    sums = ClippedSums(QUERIES, weights, groups)
    weights[:], groups[:] = 9, 0
    assert sums.weights.max() == 1
    assert sums.groups is not None
    assert sums.groups.tolist() == GROUPS.tolist()
    for array in (sums.weights, sums.groups):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0


@pytest.mark.parametrize(
    ("groups", "wanted"),
    [
        (GROUPS[:5], "want \\(6,\\) numbers from 0"),
        (GROUPS - 1, "want \\(6,\\) numbers from 0"),
        (GROUPS + 5, "want \\(6,\\) numbers from 0"),
        (GROUPS * 2, "without a gap"),
        (GROUPS + 0.5, "want \\(6,\\) numbers from 0"),
    ],
)
def test_groups_are_numbered_without_gaps(groups: np.ndarray, wanted: str) -> None:
    with pytest.raises(ValueError, match=wanted):
        SatisfactionHistogram(QUERIES, groups)
    with pytest.raises(ValueError, match=wanted):
        ClippedSums(QUERIES, np.ones((3, 7), dtype=np.int64), groups)


@pytest.mark.parametrize(
    ("starts", "wanted"),
    [
        ([1, 2], "want 0 first"),
        ([0, 2, 2], "want 0 first"),
        ([[0, 1]], "want 0 first"),
        (np.zeros(0, dtype=np.int64), "want 0 first"),
        ([0.0, 1.5], "want signed integers"),
        ([0, 7], "want at most 6, the largest group"),
    ],
)
def test_cells_start_at_0_and_ascend(starts: object, wanted: str) -> None:
    with pytest.raises(ValueError, match=wanted):
        SatisfactionHistogram(QUERIES, None, np.asarray(starts))


def test_cells_start_where_they_are_asked_to() -> None:
    histogram = SatisfactionHistogram(QUERIES, GROUPS, np.array([0, 1, 3]))
    assert (histogram.cells, histogram.size, histogram.cell_starts.tolist()) == (3, 9, [0, 1, 3])
    assert SatisfactionHistogram(QUERIES).cell_starts.tolist() == [0, 1, 2, 4]


def test_negated_literals_are_refused() -> None:
    negated = conjunctions(3, negated=True)
    with pytest.raises(ValueError, match="want positive literals alone"):
        SatisfactionHistogram(negated)
    with pytest.raises(ValueError, match="want positive literals alone"):
        ClippedSums(negated, np.ones((1, 4), dtype=np.int64))


@pytest.mark.parametrize(
    ("weights", "wanted"),
    [
        (np.ones((1, 6), dtype=np.int64), "7 or more"),
        (np.ones((2, 7), dtype=np.int64), "7 or more"),
        (np.ones(7, dtype=np.int64), "7 or more"),
        (np.ones((1, 7)), "want signed integers"),
        (np.ones((1, 7), dtype=np.uint64), "want signed integers"),
        (-np.eye(7, dtype=np.int64)[:1], "negative or above"),
        (np.full((1, 7), 2**40 + 1), "negative or above"),
        (np.eye(7, dtype=np.int64)[:1], "all 0"),
    ],
)
def test_a_table_of_weights_must_fit(weights: np.ndarray, wanted: str) -> None:
    with pytest.raises(ValueError, match=wanted):
        ClippedSums(QUERIES, weights)


@pytest.mark.parametrize(
    "wrong",
    [{"clips": [0]}, {"clips": [-1.0]}, {"clips": [math.inf]}, {"clips": [math.nan]}, {"clips": [1, 1]}, {"norm": 3},
     {"factors": [0]}, {"factors": [1, 1]}],
)  # fmt: skip
def test_clips_and_factors_are_positive_and_one_a_group(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="want"):
        ClippedSums.of(QUERIES, **({"clips": [1]} | wrong))  # type: ignore[arg-type]
