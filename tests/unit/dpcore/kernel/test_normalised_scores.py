"""Normalised scores against their definition in fractions, and their sensitivity of 1."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel.normalised_scores import STEPS, normalised
from dpcore.kernel.scores import Generalised, L1Error, LinearL1Error, RScore
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.queries import Marginals, Product, Products
from dpcore.testing.doubles import ADD_REMOVE, REPLACE
from dpcore.testing.tiny_statistics import TinyTable
from tests.support.candidates import tables_from

DOMAIN = Domain.of({"a": 2, "b": 3})
BOTH = Marginals(DOMAIN, (("a",), ("b",), ("a", "b")))
VALUES = st.integers(-(10**6), 10**6) | st.integers(-5, 5) | st.integers(-(2**90), 2**90)
MOVES = st.integers(1, 10**6) | st.integers(1, 4) | st.integers(1, 2**70)
CANDIDATES = st.lists(st.tuples(VALUES, MOVES), min_size=1, max_size=14)
Law = Callable[[list[int], list[int]], NDArray[np.int64]]


def by_definition(scores: list[int], moves: list[int]) -> list[int]:
    least = [
        min(Fraction(score - other, move + of_other) for other, of_other in zip(scores, moves, strict=True))
        for score, move in zip(scores, moves, strict=True)
    ]
    return [max(-(1 << 62), math.floor(STEPS * one)) for one in least]


@given(candidates=CANDIDATES)
def test_the_hull_gives_what_all_pairs_give(candidates: list[tuple[int, int]]) -> None:
    scores, moves = map(list, zip(*candidates, strict=True))
    assert normalised(scores, moves).tolist() == by_definition(scores, moves)


def test_many_candidates_on_a_line_and_with_ties() -> None:
    draw = np.random.default_rng(0)
    for scores in (np.arange(200) * 7, draw.integers(9, size=200), np.sqrt(np.arange(200) * 10**6).astype(int)):
        moves = draw.integers(1, 60, size=200).tolist()
        assert normalised(scores.tolist(), moves).tolist() == by_definition(scores.tolist(), moves)


def own_sensitivity_alone(scores: list[int], moves: list[int]) -> NDArray[np.int64]:
    best = max(scores)
    return np.array([STEPS * (score - best) // move for score, move in zip(scores, moves, strict=True)])


def rounded_up_and_down(scores: list[int], moves: list[int]) -> NDArray[np.int64]:
    return np.array([value - score % 2 for value, score in zip(by_definition(scores, moves), scores, strict=True)])


def furthest(law: Law) -> int:
    """Largest move of a score over neighbours whose scores move by their sensitivities, in every direction."""
    draw, most = np.random.default_rng(1), 0
    for _ in range(300):
        count = int(draw.integers(1, 7))
        moves, scores = draw.integers(1, 50, size=count), draw.integers(-200, 200, size=count)
        moved = scores + draw.choice([-1, 0, 1], size=count) * moves
        change = law(moved.tolist(), moves.tolist()) - law(scores.tolist(), moves.tolist())
        most = max(most, int(np.abs(change).max()))
    return most


def test_the_sensitivity_is_one_and_is_reached() -> None:
    assert furthest(normalised) == STEPS


@pytest.mark.parametrize("wrong", [own_sensitivity_alone, rounded_up_and_down])
def test_planted_wrong_quotients_move_further(wrong: Law) -> None:
    assert furthest(wrong) > STEPS


@given(
    weights=st.lists(st.floats(0.01, 9), min_size=3, max_size=3),
    t=st.floats(0, 50),
    neighbours=st.sampled_from(list(Neighbours)),
    estimate=st.lists(st.floats(-9, 9), min_size=11, max_size=11),
    rows=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), max_size=5),
    unit=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), max_size=2),
    other=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), max_size=2),
)
def test_no_unit_moves_a_normalised_score_further(
    weights: list[float], t: float, neighbours: Neighbours, estimate: list[float],
    rows: list[tuple[int, int]], unit: list[tuple[int, int]], other: list[tuple[int, int]],
) -> None:  # fmt: skip
    score = Generalised(L1Error(np.array(estimate), np.array(weights), np.zeros(3)), t)
    protected = PrivacyUnit(neighbours, Contribution(Shape.TABLE, 2), 9)
    sides = [np.array(rows + held, dtype=int).reshape(-1, 2) for held in (unit, other * (neighbours is REPLACE))]
    old, new = (score.scores(BOTH, protected, tables_from(BOTH, TinyTable(DOMAIN, side))) for side in sides)
    assert np.abs(new - old).max() <= score.sensitivity(BOTH, protected) == STEPS


def test_a_candidate_is_weighed_by_its_own_sensitivity() -> None:
    """Scores 8 * 3 and 1 * 20, sensitivities 8 and 1 (times 2^16): 4 / 9 apart, and less t times 7."""
    unit = PrivacyUnit(ADD_REMOVE, Contribution(Shape.TABLE, 1))
    pair = BOTH.only([("a",), ("b",)])
    table = TinyTable(DOMAIN, np.zeros((3, 2), dtype=int))
    plain = L1Error(np.zeros(5), np.array([8.0, 1.0]), np.array([0.0, -17.0]))
    tables = tables_from(pair, table)
    assert np.allclose(plain.scores(pair, unit, tables) * plain.step(pair), [24, 20])
    found = Generalised(plain, 0).scores(pair, unit, tables)
    assert found.tolist() == [0, math.floor(-STEPS * 4 / 9)]
    found = Generalised(plain, Fraction(1)).scores(pair, unit, tables)
    assert found.tolist() == [math.floor(-STEPS * 3 / 9), 0]
    assert Generalised(plain, 0).step(pair) * STEPS == 1


def test_linear_queries_are_weighed_too() -> None:
    products = Products(DOMAIN, (Product(("b",), (np.tril(np.ones((3, 3), dtype=int)),)), Product((), ())))
    unit = PrivacyUnit(ADD_REMOVE, Contribution(Shape.TABLE, 1))
    score = Generalised(LinearL1Error(np.zeros(4), np.ones(2), np.zeros(2)), 0)
    score.check(products, unit)
    found = score.scores(products, unit, tables_from(products, TinyTable(DOMAIN, np.zeros((2, 2), dtype=int))))
    assert found.tolist() == [0, -STEPS]  # Scores 6 and 2, sensitivities 3 and 1.


def test_what_names_a_score_names_all_of_it() -> None:
    one = L1Error(np.zeros(11), np.ones(3), np.zeros(3))
    other = L1Error(np.ones(11), np.ones(3), np.zeros(3))
    linear = LinearL1Error(np.zeros(11), np.ones(3), np.zeros(3))
    named = [one, other, linear, *(Generalised(score, t) for score in (one, other, linear) for t in (0, 0.5))]
    assert len({score.digest() for score in named}) == len(named)


@pytest.mark.parametrize("t", [-1.0, float("nan"), float("inf"), 2.0**21, True, "1", np.float64(1)])
def test_an_offset_that_is_no_plain_number_is_refused(t: object) -> None:
    with pytest.raises(ValueError, match="t of a generalised score"):
        Generalised(L1Error(np.zeros(2), np.ones(1), np.zeros(1)), t)  # type: ignore[arg-type]


def test_other_scores_are_not_generalised() -> None:
    with pytest.raises(TypeError, match="want L1Error or LinearL1Error"):
        Generalised(RScore(("a",)), 0)  # type: ignore[arg-type]
