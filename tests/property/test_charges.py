"""No neighbour pair moves an answer, a draw or a bit further than the kernel charges: every pair of all tiny datasets.

One table of cases. Each bound must also be reached, up to a hundredth: a planted smaller sensitivity would be caught.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.exact_statistics import Contribution, QueryAnswers, Shape, Statistics
from dpcore.kernel import dependence, l1_scores, product_sensitivity, sensitivity
from dpcore.kernel import privacy_terms as terms
from dpcore.kernel.budget import Budget
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.scores import (
    GRID,
    Candidates,
    L1Error,
    LinearL1Error,
    MutualInformation,
    RScore,
    Score,
)
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit, l1_sensitivity, squared_l2_sensitivity
from dpcore.queries import (
    ClippedSums,
    Conjunctions,
    Marginals,
    Parities,
    Product,
    Products,
    Queries,
    SatisfactionHistogram,
    UnitCount,
    UnitQueries,
    rounded_rows,
)
from dpcore.testing.doubles import ADD_REMOVE, REPLACE
from dpcore.testing.tiny_statistics import TinyBaskets, TinyTable
from tests.support.candidates import cliques_of, tables_of
from tests.support.product_cases import dense, random_products

DOMAIN = Domain.of({"a": 2, "b": 3})
ONE_HOT, ITEMS = BinaryView.one_hot(DOMAIN), BinaryView(3)
N0, SLOPE, GAMMA = 2, Fraction(7, 5), 0.35
GENTLE = Fraction(1, 100)  # The bound on a bit is reached as its slope falls.
Vector = NDArray[np.float64]
Moved = Callable[[Vector, Vector, int, int], float]


def literals(view: BinaryView, *rows: tuple[int, ...]) -> Conjunctions:
    """Conjunctions from signed literals: column c is c + 1, its negation -(c + 1)."""
    signed = np.array(rows)
    return Conjunctions(view, (np.abs(signed) - 1).astype(np.int32), signed < 0)


def l1(before: Vector, after: Vector, *_: int) -> float:
    return float(np.abs(after - before).sum())


def squared_l2(before: Vector, after: Vector, *_: int) -> float:
    return float(((after - before) ** 2).sum())


def units_moved(before: Vector, after: Vector, units: int, units_after: int) -> float:
    return float(abs(units_after - units))


def log_weights(counts: Vector, units: int, slope: Fraction, offset: float) -> Vector:
    slots = np.concatenate([counts, units - counts])
    return np.asarray(float(slope) * np.clip(slots, 0, N0) / N0 + offset)


def draw_moved(before: Vector, after: Vector, units: int, units_after: int) -> float:
    """Bounded range of a draw: largest less smallest log-ratio of chances."""
    ratio = log_weights(after, units_after, SLOPE, 0.0) - log_weights(before, units, SLOPE, 0.0)
    return float(ratio.max() - ratio.min())


def bit_losses(before: Vector, after: Vector, units: int, units_after: int) -> tuple[Vector, Vector]:
    old, new = (log_weights(c, n, GENTLE, -float(GENTLE) - GAMMA) for c, n in ((before, units), (after, units_after)))
    return new - old, np.log1p(-np.exp(new)) - np.log1p(-np.exp(old))


def bit_moved(*pair: object) -> float:
    """Largest privacy loss of an acceptance bit."""
    at_one, at_zero = bit_losses(*pair)  # type: ignore[arg-type]
    return float(np.maximum(np.abs(at_one), np.abs(at_zero)).max())


def bit_range(*pair: object) -> float:
    at_one, at_zero = bit_losses(*pair)  # type: ignore[arg-type]
    return float(np.abs(at_one - at_zero).max())


def scores_moved(candidates: Candidates, score: Score, before: Vector, after: Vector, *_: int) -> float:
    every = Marginals(DOMAIN, tuple(cliques_of(candidates)))
    sides = (tables_of(every, counts.astype(np.int64)) for counts in (before, after))
    old, new = (score.scores(candidates, ANY_UNIT, tables) for tables in sides)
    return float(np.abs(new - old).max())


def score_charged(candidates: Candidates, score: Score, unit: PrivacyUnit) -> float:
    return score.sensitivity(candidates, unit)


def errors_moved(power: int, before: Vector, after: Vector, *_: int) -> float:
    sides = (tables_of(SCORED, counts.astype(np.int64)) for counts in (before, after))
    old, new = (SCORE.distances(SCORED, tables) / GRID for tables in sides)
    return float((np.abs(new - old) ** power).sum())


def errors_charged(power: int, unit: PrivacyUnit) -> float:
    """epsilon 1 buys noise of scale L1, rho 1/2 that of scale L2."""
    budget = Budget.pure(1) if power == 1 else Budget.zcdp(Fraction(1, 2))
    return PrivacyTerms(unit, budget).errors_scale(SCORED, Fraction(1)) ** power


def draw_charged(unit: PrivacyUnit) -> float:
    return float(PrivacyTerms(unit, Budget.pure(1)).draws_amount(SLOPE, N0, 1))


def bit_charged(unit: PrivacyUnit) -> float:
    return float(PrivacyTerms(unit, Budget.pure(1)).retain_amount(GENTLE, N0, {Fraction(GAMMA): 1}))


def bit_range_charged(unit: PrivacyUnit) -> float:
    return math.sqrt(8 * PrivacyTerms(unit, Budget.zcdp(1)).retain_amount(GENTLE, N0, {Fraction(GAMMA): 1}))


@dataclass(frozen=True)
class Case:
    """What is asked, how far a pair of neighbours moves it, and what the kernel charges for.

    reached: Relations in which some pair reaches the bound.
    """

    name: str
    shape: Shape
    bound: int
    queries: Queries | UnitQueries
    moved: Moved
    charged: Callable[[PrivacyUnit], float]
    reached: tuple[Neighbours, ...] = (ADD_REMOVE, REPLACE)


def measured(name: str, shape: Shape, bound: int, queries: Queries | UnitQueries, *reached: Neighbours) -> list[Case]:
    both = reached or (ADD_REMOVE, REPLACE)
    l1_charged, l2_charged = partial(l1_sensitivity, queries), partial(squared_l2_sensitivity, queries)
    return [
        Case(f"L1 of {name}", shape, bound, queries, l1, l1_charged, both),
        Case(f"L2 of {name}", shape, bound, queries, squared_l2, l2_charged, both),
    ]


TABLE, BASKETS = Shape.TABLE, Shape.BASKETS
CELLS = np.eye(3, dtype=np.int64)
PREFIX = np.tril(np.ones((3, 3), dtype=np.int64))
ZERO_MEAN, _ = rounded_rows(np.array([[2.0, -1.0, -1.0], [0.0, 3.0**0.5, -(3.0**0.5)]]), 6)
SCORED = Marginals(DOMAIN, (("a",), ("b",)))
PAIRS = literals(ITEMS, (1, 2), (1, 3), (2, 3))
TWO_GROUPS = np.array([0, 0, 1], dtype=np.int32)
ANY_UNIT = PrivacyUnit(ADD_REMOVE, Contribution(TABLE, 2))
SCORE = L1Error(np.array([2.0, 0, 2.0, 0, 0]), np.array([1.0, 0.5]), np.zeros(2))
LINEAR = Products(DOMAIN, (Product(("b",), (PREFIX,)), Product(("a", "b"), (np.array([[1, -1], [1, 1]]), PREFIX))), 3)
LINEAR_SCORE = LinearL1Error(np.zeros(9), np.array([3.0, 1.0]), np.array([0.0, 4.0]))
FAMILIES = Marginals(DOMAIN, (("a", "b"), ("a", "b"), ("a",)))
CASES = [
    *measured("marginals", TABLE, 2, Marginals(DOMAIN, (("a",), ("a", "b"), ("b",)))),
    *measured("the number of rows", TABLE, 2, Marginals(DOMAIN, ((),)), ADD_REMOVE),
    *measured("conjunctions of a table", TABLE, 2, literals(ONE_HOT, (1, -3), (1, -4), (-2, 5))),
    *measured("single columns of a table", TABLE, 2, Conjunctions.single_columns(ONE_HOT)),
    *measured("conjunctions of baskets", BASKETS, 3, literals(ITEMS, (1, 2), (1, 3)), ADD_REMOVE, REPLACE),
    *measured("single items", BASKETS, 2, literals(ITEMS, (1,), (2,))),
    *measured("products: cells and a total", TABLE, 2,
              Products(DOMAIN, (Product(("b",), (CELLS,), 3), Product(("a", "b"), (np.eye(2, dtype=int), CELLS)))),
              ),
    *measured("products: a prefix", TABLE, 2, Products(DOMAIN, (Product(("b",), (PREFIX,)),)), ADD_REMOVE),
    *measured("products: zero-mean rows", TABLE, 2, Products(DOMAIN, (Product(("b",), (ZERO_MEAN,)),)), ADD_REMOVE),
    *measured("products: opposite signs", TABLE, 2, Products(DOMAIN, (Product(("a",), (np.array([[5, -5]]),), 2),))),
    Case("a product of two rounded matrices, L2", TABLE, 1,
         Products(DOMAIN, (Product(("a", "b"), (np.array([[3, -3]]), ZERO_MEAN)),)), squared_l2,
         lambda unit: squared_l2_sensitivity(
             Products(DOMAIN, (Product(("a", "b"), (np.array([[3, -3]]), ZERO_MEAN)),)), unit)),
    Case("the number of units", TABLE, 2, Marginals(DOMAIN, ((),)), units_moved,
         lambda unit: l1_sensitivity(UnitCount(), unit) if not unit.units else 0.0),
    *[case for shape in Shape for case in (
        Case(f"a draw, {shape}", shape, 1 if shape is TABLE else 3,
             literals(ONE_HOT if shape is TABLE else ITEMS, (1,), (-3,)), draw_moved, draw_charged),
        Case(f"the loss of a bit, {shape}", shape, 1 if shape is TABLE else 3,
             literals(ONE_HOT if shape is TABLE else ITEMS, (1,), (-3,)), bit_moved, bit_charged),
        Case(f"the range of a bit, {shape}", shape, 1 if shape is TABLE else 3,
             literals(ONE_HOT if shape is TABLE else ITEMS, (1,), (-3,)), bit_range, bit_range_charged),
    )],
    Case("a draw of cells", TABLE, 1, Marginals(DOMAIN, (("b",), ("a", "b"))), draw_moved, draw_charged),
    Case("a draw of parities, table", TABLE, 1, Parities.of_sets(ONE_HOT, [[0, 3], [2, 3, 4]]),
         draw_moved, draw_charged),
    Case("a draw of parities, baskets", BASKETS, 3, Parities.of_sets(ITEMS, [[0], [0, 1, 2]]),
         draw_moved, draw_charged),
    *measured("a satisfaction histogram", BASKETS, 3, SatisfactionHistogram(PAIRS, TWO_GROUPS)),
    *measured("a histogram of few cells", BASKETS, 3, SatisfactionHistogram(PAIRS, TWO_GROUPS, np.array([0, 1]))),
    *measured("a histogram of a table", TABLE, 1, SatisfactionHistogram(literals(ONE_HOT, (1, 3), (2, 4)))),
    # A clip at 1: three pairs weigh 1 / 3^(1/2) each, which falls 2^-16 short.
    *measured("clipped sums", BASKETS, 3, ClippedSums.of(PAIRS, [1]), ADD_REMOVE),
    *measured("clipped sums of two groups", BASKETS, 3,
              ClippedSums.of(PAIRS, [1, 2], TWO_GROUPS, factors=[2, 0.5]), ADD_REMOVE),
    *measured("clipped sums of a table", TABLE, 1,
              ClippedSums.of(literals(ONE_HOT, (1, 3), (1, 4), (2, 3), (2, 4)), [1], norm=1)),
    *measured("sums clipped in L1", BASKETS, 3, ClippedSums.of(PAIRS, [1], norm=1), ADD_REMOVE),
    *measured("sums of weights that rise with k", BASKETS, 3, ClippedSums(PAIRS, np.array([[0, 1, 2, 7]])), ADD_REMOVE),
    Case("a score", TABLE, 2, SCORED, partial(scores_moved, SCORED, SCORE), partial(score_charged, SCORED, SCORE)),
    *[Case(f"a score of {name}", TABLE, 2, Marginals(DOMAIN, tuple(cliques_of(candidates))),
           partial(scores_moved, candidates, score), partial(score_charged, candidates, score), reached)
      for name, candidates, score, reached in (
          ("linear queries", LINEAR, LINEAR_SCORE, (ADD_REMOVE,)),
          ("R", FAMILIES, RScore(("a", "b", "a")), ()),
          ("mutual information", FAMILIES, MutualInformation(("a", "b", "a")), ()),
      )],
    Case("L1 of errors", TABLE, 2, SCORED, partial(errors_moved, 1), partial(errors_charged, 1)),
    Case("L2 of errors", TABLE, 2, SCORED, partial(errors_moved, 2), partial(errors_charged, 2)),
]  # fmt: skip
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def table_of(rows: tuple[tuple[int, int], ...], bound: int) -> Statistics:
    return TinyTable(DOMAIN, np.array(rows, dtype=np.int64).reshape(len(rows), 2), bound)


def units_of(case: Case) -> list[Statistics]:
    """Every unit there can be."""
    if case.shape is BASKETS:
        sets = [
            np.array(held, dtype=bool)[None, :] for held in product([0, 1], repeat=3) if 0 < sum(held) <= case.bound
        ]
        return [TinyBaskets(ITEMS, held, case.bound) for held in sets]
    cells = list(product(range(2), range(3)))
    return [
        table_of(rows, case.bound)
        for count in range(1, case.bound + 1)
        for rows in combinations_with_replacement(cells, count)
    ]


def counts_of(unit: Statistics, queries: Queries | UnitQueries) -> Vector:
    if isinstance(queries, UnitQueries):
        return unit.aggregate(queries).astype(np.float64)
    if isinstance(queries, Products):
        tables = Marginals(DOMAIN, tuple(term.clique for term in queries.terms))
        split = tables.split(unit.aggregate(QueryAnswers(tables)))
        return queries.of_tables([np.asarray(table) for table in split], 1 << 44).astype(np.float64)
    return unit.aggregate(QueryAnswers(queries)).astype(np.float64)


def neighbour_pairs(added: list[Vector], neighbours: Neighbours) -> Iterator[tuple[Vector, Vector, int, int]]:
    """All pairs (answers before, after, units before, after) over datasets of up to two units and one that moves."""
    nothing = np.zeros_like(added[0])
    for size in range(3 if len(added) < 8 else 2):
        for rest in combinations_with_replacement(range(len(added)), size):
            common = sum((added[unit] for unit in rest), nothing)
            for unit in added:
                if neighbours is ADD_REMOVE:
                    yield common, common + unit, size, size + 1
                    yield common + unit, common, size + 1, size
                else:
                    for other in added:
                        yield common + unit, common + other, size + 1, size + 1


def furthest(case: Case, neighbours: Neighbours) -> float:
    added = [counts_of(unit, case.queries) for unit in units_of(case)]
    return max(case.moved(*pair) for pair in neighbour_pairs(added, neighbours))


def unit_of(case: Case, neighbours: Neighbours) -> PrivacyUnit:
    return PrivacyUnit(neighbours, Contribution(case.shape, case.bound), 10 if neighbours is REPLACE else None)


@pytest.mark.smoke(19)
@every_case
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_no_neighbour_pair_moves_further_than_is_charged(case: Case, neighbours: Neighbours) -> None:
    most, charged = furthest(case, neighbours), case.charged(unit_of(case, neighbours))
    assert most <= charged * (1 + 1e-12)
    if neighbours in case.reached:
        assert most >= 0.99 * charged


def of_one_query(queries: ClippedSums, power: int) -> list[int]:
    """As if a unit that satisfies many queries added to one of them."""
    return [int(row.max()) ** power for row in queries.weights]


def of_the_largest_group(queries: ClippedSums, unit: PrivacyUnit, power: int) -> int:
    return max(sensitivity.largest_clipped(queries, power))


ONE_COLUMN = product_sensitivity.largest_squared_l2
PLANTED = [
    (sensitivity, "_rows_of_unit", lambda unit: unit.contribution.bound - 1, "L1 of marginals", ADD_REMOVE),
    (sensitivity, "_twice_if_replaced", lambda amount, unit: amount, "L2 of marginals", REPLACE),
    (sensitivity, "answer_sensitivity", lambda unit: 1, "L1 of conjunctions of a table", ADD_REMOVE),
    (sensitivity, "_largest_addition", lambda queries, unit: 1, "L1 of single items", ADD_REMOVE),
    (sensitivity, "largest_squared_exchange", ONE_COLUMN, "L2 of products: opposite signs", REPLACE),
    (sensitivity, "largest_squared_exchange", ONE_COLUMN, "L2 of products: zero-mean rows", REPLACE),
    (sensitivity, "_of_one_record", lambda *_: 1, "L1 of a satisfaction histogram", ADD_REMOVE),
    (sensitivity, "_twice_if_replaced", lambda amount, unit: amount, "L2 of clipped sums of a table", REPLACE),
    (sensitivity, "largest_clipped", of_one_query, "L2 of sums of weights that rise with k", ADD_REMOVE),
    (sensitivity, "_of_one_record", of_the_largest_group, "L2 of clipped sums of two groups", ADD_REMOVE),
    (l1_scores, "marginal_l1_sensitivity", lambda unit: unit.contribution.bound, "a score", REPLACE),
    (l1_scores, "largest_l1_of", lambda term: term.weight, "a score of linear queries", ADD_REMOVE),
    (dependence, "_g", lambda count: Decimal(0), "a score of mutual information", ADD_REMOVE),
    (RScore, "sensitivity", lambda *_: GRID, "a score of R", REPLACE),
    (terms, "marginal_l1_sensitivity", lambda unit: 1, "L1 of errors", ADD_REMOVE),
    (terms, "marginal_l1_sensitivity", lambda unit: unit.contribution.bound, "L2 of errors", REPLACE),
    (PrivacyTerms, "retain_amount", lambda self, slope, total, gaps: slope / total, "the loss of a bit, table",
     ADD_REMOVE),
    (PrivacyTerms, "draw_range", lambda self, slope, total: slope / total, "a draw, baskets", REPLACE),
]  # fmt: skip


@pytest.mark.smoke(3)
@pytest.mark.parametrize(
    ("place", "name", "wrong", "caught", "neighbours"), PLANTED, ids=[plant[3] for plant in PLANTED]
)
def test_a_planted_smaller_sensitivity_is_caught(
    place: object, name: str, wrong: object, caught: str, neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    (case,) = [case for case in CASES if case.name == caught]
    monkeypatch.setattr(place, name, wrong)
    with pytest.raises(AssertionError):
        test_no_neighbour_pair_moves_further_than_is_charged(case, neighbours)


@given(seed=st.integers(0, 10**6), bound=st.integers(1, 2), neighbours=st.sampled_from(list(Neighbours)))
def test_no_pair_moves_random_products_further(seed: int, bound: int, neighbours: Neighbours) -> None:
    queries = random_products(DOMAIN, np.random.default_rng(seed))
    unit = PrivacyUnit(neighbours, Contribution(TABLE, bound), 10 if neighbours is REPLACE else None)
    columns = dense(queries).T.astype(np.int64)
    rows = [sum(rows) for n in range(1, bound + 1) for rows in combinations_with_replacement(list(columns), n)]
    added = np.stack(rows)
    changes = added if neighbours is ADD_REMOVE else (added[:, None] - added[None, :]).reshape(-1, added.shape[1])
    l1_most, l2_most = int(np.abs(changes).sum(axis=1).max()), int((changes**2).sum(axis=1).max())
    assert l1_most <= l1_sensitivity(queries, unit)
    assert l2_most <= squared_l2_sensitivity(queries, unit)
    if neighbours is ADD_REMOVE:  # The joint maximum is exact here.
        assert (l1_most, l2_most) == (l1_sensitivity(queries, unit), squared_l2_sensitivity(queries, unit))


@pytest.mark.parametrize("seed", range(20))
def test_bounds_without_the_joint_maximum_hold_too(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attributes too large for pairs and joint cells: the product of maxima, and Cauchy-Schwarz."""
    queries = random_products(DOMAIN, np.random.default_rng(seed), signed=seed % 2 == 0)
    exact = [PrivacyUnit(n, Contribution(TABLE, 1), 10 if n is REPLACE else None) for n in Neighbours]
    tight = [(l1_sensitivity(queries, unit), squared_l2_sensitivity(queries, unit)) for unit in exact]
    monkeypatch.setattr(product_sensitivity, "_LARGEST_JOINT", 0)
    monkeypatch.setattr(product_sensitivity, "_LARGEST_GRAM", 0)
    loose = [(l1_sensitivity(queries, unit), squared_l2_sensitivity(queries, unit)) for unit in exact]
    assert (np.array(tight, dtype=object) <= np.array(loose, dtype=object)).all()
    if (dense(queries) >= 0).all():
        assert loose[1][1] <= 2 * loose[0][1]


@given(seed=st.integers(0, 10**6), neighbours=st.sampled_from(list(Neighbours)), baskets=st.booleans())
def test_no_pair_moves_random_clipped_sums_further(seed: int, neighbours: Neighbours, baskets: bool) -> None:
    """Any weights of up to three groups, over random queries; every unit there can be."""
    draw = np.random.default_rng(seed)
    view, shape, bound = (ITEMS, BASKETS, 3) if baskets else (ONE_HOT, TABLE, 1)
    order, count = int(draw.integers(1, 3)), int(draw.integers(1, 9))
    columns = np.array([draw.choice(view.columns, size=order, replace=False) for _ in range(count)])
    queries = Conjunctions(view, columns, np.zeros_like(columns, dtype=bool))
    groups = np.unique(draw.integers(0, 3, size=count), return_inverse=True)[1].astype(np.int32)
    weights = draw.integers(0, 2 ** draw.integers(1, 40), size=(groups.max() + 1, count + 1))
    weights[:, 1] += 1
    case = Case("random", shape, bound, queries, l1, lambda _: 0.0)
    unit = unit_of(case, neighbours)
    for asked in (ClippedSums(queries, weights, groups), SatisfactionHistogram(queries, groups)):
        added = [held.aggregate(asked).astype(object) for held in units_of(case)]
        pairs = [(0, one) for one in added] if neighbours is ADD_REMOVE else product(added, added)
        changes = [np.asarray(one - other) for one, other in pairs]
        assert max(abs(change).sum() for change in changes) <= l1_sensitivity(asked, unit)
        assert max((change**2).sum() for change in changes) <= squared_l2_sensitivity(asked, unit)
