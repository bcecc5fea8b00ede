"""Scores of linear queries on marginals: values, proved moves, and integers that never overflow."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel import l1_scores
from dpcore.kernel.scores import GRID, L1Error, LinearL1Error
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.queries import Marginals, Product, Products
from dpcore.testing.doubles import ADD_REMOVE, REPLACE
from dpcore.testing.tiny_statistics import TinyTable
from tests.support.candidates import tables_from
from tests.support.product_cases import dense, random_products

DOMAIN = Domain.of({"a": 2, "b": 3})
ONE_ROW = PrivacyUnit(ADD_REMOVE, Contribution(Shape.TABLE, 1))
PREFIX = np.tril(np.ones((3, 3), dtype=np.int64))
PREFIXES = Products(DOMAIN, (Product(("b",), (PREFIX,)), Product(("a", "b"), (np.eye(2, dtype=int), PREFIX), 2)), 4)
CELLS = list(product(range(2), range(3)))


def data(rows: list[tuple[int, int]]) -> TinyTable:
    return TinyTable(DOMAIN, np.array(rows, dtype=np.int64).reshape(-1, 2))


def some_score(queries: Products, draw: np.random.Generator) -> LinearL1Error:
    terms = len(queries.terms)
    return LinearL1Error(draw.normal(scale=5, size=queries.size), draw.exponential(size=terms) ** 4 + 1e-9,
                         draw.normal(scale=9, size=terms))  # fmt: skip


def slow(queries: Products, score: LinearL1Error, table: TinyTable) -> NDArray[np.float64]:
    """weight * (|W M - estimate|_1 - penalty) of each term, by the dense matrix."""
    counts = np.array([(table.codes == cell).all(axis=1).sum() for cell in CELLS])
    answers = (dense(queries) @ counts).astype(float) / queries.denominator
    ends = np.cumsum([term.size for term in queries.terms])[:-1]
    gaps = [np.abs(part).sum() for part in np.split(answers - score.estimate, ends)]
    return np.asarray(score.weights * (np.array(gaps) - score.penalties))


@given(seed=st.integers(0, 10**6), rows=st.lists(st.sampled_from(CELLS), max_size=6))
def test_a_score_is_the_weighted_distance_less_the_penalty(seed: int, rows: list[tuple[int, int]]) -> None:
    draw = np.random.default_rng(seed)
    queries = random_products(DOMAIN, draw)
    score = some_score(queries, draw)
    found = score.scores(queries, ONE_ROW, tables_from(queries, data(rows))) * score.step(queries)
    # Half a step of the grid for each answer and the penalty, and 2^-40 of the largest weight.
    off = score.weights * (max(t.size for t in queries.terms) + 1) / GRID / queries.denominator + 1e-6
    assert (np.abs(found - slow(queries, score, data(rows))) <= off + score.step(queries)).all()


@given(seed=st.integers(0, 10**6), neighbours=st.sampled_from(list(Neighbours)), bound=st.integers(1, 2))
def test_no_unit_moves_a_score_further(seed: int, neighbours: Neighbours, bound: int) -> None:
    draw = np.random.default_rng(seed)
    queries = random_products(DOMAIN, draw)
    score = some_score(queries, draw)
    unit = PrivacyUnit(neighbours, Contribution(Shape.TABLE, bound), 9)
    others = [CELLS[place] for place in draw.integers(6, size=int(draw.integers(3)))]
    units = list(combinations_with_replacement(CELLS, bound))
    every = [score.scores(queries, unit, tables_from(queries, data([*others, *held]))) for held in units]
    without = [score.scores(queries, unit, tables_from(queries, data(others)))]
    befores = every if neighbours is REPLACE else without
    most = max(np.abs(one - other).max() for one in every for other in befores)
    assert most <= score.sensitivity(queries, unit)


@pytest.mark.parametrize("weights", [[1.0, 1.0], [1.0, 1e-6], [3.0, 0.7]])
def test_the_sensitivity_is_reached_and_any_smaller_one_is_wrong(weights: list[float]) -> None:
    """A row in the first cell moves all prefixes: 3 answers of the first term, 3 of the second that weigh 2 each."""
    score = LinearL1Error(np.zeros(9), np.array(weights), np.zeros(2))
    new, old = (score.scores(PREFIXES, ONE_ROW, tables_from(PREFIXES, data(rows))) for rows in ([(0, 0)], []))
    reached = np.abs(new - old).max()
    assert score.sensitivity(PREFIXES, ONE_ROW) - 1 <= reached <= score.sensitivity(PREFIXES, ONE_ROW)
    assert reached >= 1 << 16
    assert reached * score.step(PREFIXES) == pytest.approx(max(3 * weights[0], 6 * weights[1]) / 4, rel=1e-4)


def test_the_largest_column_is_that_of_the_matrix_with_its_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(30):
        queries = random_products(DOMAIN, np.random.default_rng(seed))
        ends = np.cumsum([term.size for term in queries.terms])[:-1]
        wanted = [int(np.abs(part).sum(axis=0).max()) for part in np.split(dense(queries), ends)]
        assert [l1_scores.largest_l1_of(term) for term in queries.terms] == wanted
    monkeypatch.setattr(l1_scores, "largest_l1_of", lambda term: 1)  # Planted: as if a row moved one answer by 1.
    with pytest.raises(AssertionError):
        test_the_sensitivity_is_reached_and_any_smaller_one_is_wrong([1.0, 1.0])


def test_cells_alone_are_scored_as_marginals_are() -> None:
    cells = Products(DOMAIN, (Product(("a",), (np.eye(2, dtype=int),)), Product(("b",), (np.eye(3, dtype=int),))))
    marginals = Marginals(DOMAIN, (("a",), ("b",)))
    parts = np.array([1.0, 0, 2, 0.5, 0]), np.array([1.0, 0.5]), np.array([0.0, 1.0])
    table = tables_from(cells, data([(0, 1), (1, 1), (1, 2)]))
    linear, plain = LinearL1Error(*parts), L1Error(*parts)
    assert (linear.scores(cells, ONE_ROW, table) == plain.scores(marginals, ONE_ROW, table)).all()
    for unit in (ONE_ROW, PrivacyUnit(REPLACE, Contribution(Shape.TABLE, 3), 9)):
        assert linear.sensitivity(cells, unit) == plain.sensitivity(marginals, unit)
    assert linear.step(cells) == plain.step(marginals)


def test_huge_answers_are_summed_exactly_and_scores_are_cut_off() -> None:
    rows, entry = 1 << 44, 1 << 29
    queries = Products(DOMAIN, (Product(("a",), (np.array([[entry, 0], [1, 1]]),)), Product((), (), 1 << 10)))
    score = LinearL1Error(np.array([1.5, -(2.0**52), 0]), np.ones(2), np.array([0.25, -1e300]))
    score.check(queries, ONE_ROW)
    tables = [(0, np.array([rows, 0])), (1, np.array([rows]))]
    first, second = score.exact_scores(queries, tables)
    # Answers of 2^73 are cut off at 2^62.
    assert first == (1 << 40) * (GRID * ((1 << 62) + rows + (1 << 52)) - GRID * 3 // 2 - GRID // 4)
    assert second == (1 << 40) * (GRID * (rows << 10) + round(Fraction(1e300) * GRID))
    assert score.scores(queries, ONE_ROW, tables)[1] == 1 << 62


REFUSED = {
    "another shape": (LinearL1Error(np.zeros(8), np.ones(2), np.zeros(2)), PREFIXES, ValueError, "have shape"),
    "a matrix": (LinearL1Error(np.zeros((9, 9)), np.ones(2), np.zeros(2)), PREFIXES, ValueError, "have shape"),
    "one weight": (LinearL1Error(np.zeros(9), np.ones(1), np.zeros(2)), PREFIXES, ValueError, "have shape"),
    "too large": (LinearL1Error(np.full(9, 2.0**51), np.ones(2), np.zeros(2)), PREFIXES, ValueError, "above 2"),
    "infinite": (LinearL1Error(np.full(9, 1e308), np.ones(2), np.zeros(2)), PREFIXES, ValueError, "above 2"),
    "marginals": (LinearL1Error(np.zeros(2), np.ones(1), np.zeros(1)), Marginals(DOMAIN, (("a",),)), TypeError, "want"),
    "products": (L1Error(np.zeros(9), np.ones(2), np.zeros(2)), PREFIXES, TypeError, "want"),
}


@pytest.mark.parametrize(("score", "candidates", "error", "said"), REFUSED.values(), ids=REFUSED)
def test_parts_that_do_not_fit_the_candidates_are_refused(
    score: L1Error | LinearL1Error, candidates: Marginals | Products, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        score.check(candidates, ONE_ROW)


@pytest.mark.parametrize("parts", [
    (np.full(9, np.nan), np.ones(2), np.zeros(2)),
    (np.zeros(9), np.array([1.0, 0.0]), np.zeros(2)),
    (np.zeros(9), np.array([1.0, np.inf]), np.zeros(2)),
    (np.zeros(9), np.ones(2), np.array([0.0, -np.inf])),
])  # fmt: skip
def test_parts_that_are_no_numbers_are_refused(parts: tuple[NDArray[np.float64], ...]) -> None:
    with pytest.raises(ValueError, match="score"):
        LinearL1Error(*parts)
