from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.exact_statistics import Contribution, QueryAnswers, Shape
from dpcore.kernel.scores import GRID, L1Error
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.queries import Marginals
from dpcore.testing.doubles import REPLACE
from dpcore.testing.tiny_statistics import TinyTable
from tests.support.candidates import tables_of

DOMAIN = Domain.of({"a": 2, "b": 3})
QUERIES = Marginals(DOMAIN, (("a",), ("a", "b"), ("b",)))
ONE_ROW = PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, Contribution(Shape.TABLE, 1))
CODES = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), max_size=6)
ESTIMATES = st.lists(st.floats(-50, 50), min_size=11, max_size=11)


def exact(codes: list[tuple[int, int]]) -> NDArray[np.int64]:
    rows = np.array(codes, dtype=np.int64).reshape(-1, 2)
    return TinyTable(DOMAIN, rows).aggregate(QueryAnswers(QUERIES))


@given(
    codes=CODES,
    estimate=ESTIMATES,
    weights=st.lists(st.floats(0.01, 100), min_size=3, max_size=3),
    penalties=st.lists(st.floats(-30, 30), min_size=3, max_size=3),
)
def test_a_score_is_the_weighted_distance_less_the_penalty_up_to_the_grid(
    codes: list[tuple[int, int]], estimate: list[float], weights: list[float], penalties: list[float]
) -> None:
    score = L1Error(np.array(estimate), np.array(weights), np.array(penalties))
    found = score.scores(QUERIES, ONE_ROW, tables_of(QUERIES, exact(codes)))
    assert found.dtype == np.int64
    tables = QUERIES.split(np.abs(exact(codes) - estimate))
    for index, table in enumerate(tables):
        rounded = max(1, round(weights[index] / max(weights) * GRID))
        wanted = rounded * GRID * (table.sum() - penalties[index])
        assert abs(int(found[index]) - wanted) <= rounded * (table.size + 1) / 2 + 1e-6


@given(
    before=CODES,
    unit=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), max_size=3),
    other=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), max_size=3),
    neighbours=st.sampled_from(list(Neighbours)),
    estimate=ESTIMATES,
    weights=st.lists(st.floats(0.01, 100), min_size=3, max_size=3),
)
def test_no_unit_moves_a_score_further(
    before: list[tuple[int, int]],
    unit: list[tuple[int, int]],
    other: list[tuple[int, int]],
    neighbours: Neighbours,
    estimate: list[float],
    weights: list[float],
) -> None:
    score = L1Error(np.array(estimate), np.array(weights), np.zeros(3))
    changed = before + other if neighbours is REPLACE else before
    protected = PrivacyUnit(neighbours, Contribution(Shape.TABLE, 3), 9)
    sides = (tables_of(QUERIES, exact(codes)) for codes in (before + unit, changed))
    new, old = (score.scores(QUERIES, protected, tables) for tables in sides)
    change, allowed = new - old, score.sensitivity(QUERIES, protected)
    assert np.abs(change).max() <= allowed


@pytest.mark.parametrize(("neighbours", "step"), [(Neighbours.ADD_REMOVE_UNIT, 3), (REPLACE, 6)])
def test_the_sensitivity_is_reached(neighbours: Neighbours, step: int) -> None:
    """Three rows of a unit appear where none were expected; replaced, they also leave a cell that was right."""
    estimate = np.array([3.0 if neighbours is REPLACE else 0.0, *[0.0] * 10])
    score = L1Error(estimate, np.ones(3), np.zeros(3))
    unit = PrivacyUnit(neighbours, Contribution(Shape.TABLE, 3), 9)
    before = exact([(0, 0)] * 3 if neighbours is REPLACE else [])
    new, old = (score.scores(QUERIES, unit, tables_of(QUERIES, side)) for side in (exact([(1, 0)] * 3), before))
    assert np.abs(new - old).max() == score.sensitivity(QUERIES, unit) == step * GRID * GRID


@pytest.mark.parametrize(
    ("estimate", "weights", "penalties"),
    [
        (np.full(11, np.nan), np.ones(3), np.zeros(3)),
        (np.full(11, np.inf), np.ones(3), np.zeros(3)),
        (np.full(11, 2.0**45), np.ones(3), np.zeros(3)),
        (np.zeros(11), np.full(3, np.inf), np.zeros(3)),
        (np.zeros(11), np.ones(3), np.full(3, -(2.0**45))),
        (np.zeros(11), np.array([1.0, 0.0, 1.0]), np.zeros(3)),
        (np.zeros(11), np.array([1.0, -1.0, 1.0]), np.zeros(3)),
    ],
)
def test_parts_that_are_no_numbers_or_too_large_are_refused(
    estimate: NDArray[np.float64], weights: NDArray[np.float64], penalties: NDArray[np.float64]
) -> None:
    with pytest.raises(ValueError, match="score"):
        L1Error(estimate, weights, penalties)


@pytest.mark.parametrize(
    ("estimate", "weights", "penalties"),
    [
        (np.zeros(10), np.ones(3), np.zeros(3)),
        (np.zeros(1), np.ones(3), np.zeros(3)),
        (np.zeros((4, 11)), np.ones(3), np.zeros(3)),  # Broadcast, a unit would move four scores into one.
        (np.zeros(11), np.ones(1), np.zeros(3)),
        (np.zeros(11), np.ones(3), np.zeros((3, 3))),
        (np.full(11, 2.0**43), np.ones(3), np.zeros(3)),  # Sums of tables could overflow.
    ],
)
def test_parts_that_do_not_fit_the_candidates_are_refused(
    estimate: NDArray[np.float64], weights: NDArray[np.float64], penalties: NDArray[np.float64]
) -> None:
    with pytest.raises(ValueError, match="of a score"):
        L1Error(estimate, weights, penalties).check(QUERIES, ONE_ROW)


def test_the_largest_parts_that_are_allowed_overflow_nothing() -> None:
    estimate = np.array([2.0**44, 0, *[0] * 6, 2.0**43, -(2.0**43), 0])
    score = L1Error(estimate, np.array([1e-9, 1, 1]), np.array([-(2.0**44), 2.0**44, -(2.0**44)]))
    score.check(QUERIES, ONE_ROW)
    rows = np.zeros(11, dtype=np.int64)
    rows[[1, 2, 8]] = 2**44
    first, second, third = score.scores(QUERIES, ONE_ROW, tables_of(QUERIES, rows)).tolist()
    assert first == GRID * 3 * 2**44
    assert second == 0
    assert third == GRID * GRID * 2 * 2**44
