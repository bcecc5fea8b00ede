"""PrivBayes's scores against their definitions, and their moves over every small table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.errors import ConfigError, IntegrityError
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel import dependence
from dpcore.kernel.scores import GRID, MutualInformation, RScore
from dpcore.kernel.sensitivity import PrivacyUnit
from dpcore.queries import Marginals, Product, Products
from dpcore.testing.doubles import ADD_REMOVE, REPLACE

Joint = NDArray[np.int64]
Score = MutualInformation | RScore
DOMAIN = Domain.of({"a": 2, "b": 3, "c": 3})
UNIT = PrivacyUnit(ADD_REMOVE, Contribution(Shape.TABLE, 1))
BOTH = {"mutual information": MutualInformation, "R": RScore}


def exchanged(units: int, bound: int = 1) -> PrivacyUnit:
    return PrivacyUnit(REPLACE, Contribution(Shape.TABLE, bound), units)


def value(score: Score, joint: Joint, unit: PrivacyUnit = UNIT) -> int:
    """The score of one table [child, parents]."""
    queries = Marginals(Domain.of({"x": joint.shape[0], "p": joint.shape[1]}), (("x", "p"),))
    return int(score.scores(queries, unit, [(0, joint.ravel())])[0])


def mutual_information(joint: Joint) -> float:
    rows = joint.sum()
    shares = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    held = joint > 0
    return float((joint[held] * np.log(joint[held] * rows / shares[held])).sum())


def distance(joint: Joint) -> Fraction:
    rows = int(joint.sum())
    pairs = [(int(joint[x].sum()), int(joint[:, p].sum()), int(joint[x, p])) for x, p in np.ndindex(joint.shape)]
    return sum((abs(Fraction(own * other, rows) - both) for own, other, both in pairs), Fraction(0)) / 2


def tables(rows: int, shape: tuple[int, int]) -> Iterator[Joint]:
    """Every table of so many rows."""
    cells = shape[0] * shape[1]
    for chosen in combinations_with_replacement(range(cells), rows):
        yield np.bincount(np.array(chosen, dtype=int), minlength=cells).reshape(shape)


def moves(score: Score, rows: int, shape: tuple[int, int]) -> tuple[int, int]:
    """Most that one row more, and that one row exchanged, moves a score that has ``rows`` rows with it."""
    one, two = 0, 0
    for joint in tables(rows - 1, shape):
        without, cells = value(score, joint), np.eye(joint.size, dtype=np.int64)
        with_row = [value(score, joint + cell.reshape(shape)) for cell in cells]
        one = max(one, *(abs(after - without) for after in with_row))
        two = max(two, max(with_row) - min(with_row))
    return one, two


@pytest.mark.parametrize(("shape", "most"), [((2, 2), 9), ((2, 3), 7), ((3, 3), 5), ((1, 3), 4)])
def test_no_row_moves_r_further_and_small_tables_come_near(shape: tuple[int, int], most: int) -> None:
    queries = Marginals(DOMAIN, (("a",),))
    score = RScore(("a",))
    for rows in range(1, most + 1):
        one, two = moves(RScore(("x",)), rows, shape)
        # m / (m + 1) of the bounds for m = rows - 1 further rows; a step of rounding.
        assert one <= GRID * 2 * (rows - 1) / rows + 1 <= score.sensitivity(queries, UNIT) + 1
        assert two <= GRID * 3 * (rows - 1) / rows + 1 <= score.sensitivity(queries, exchanged(rows)) + 1
    if min(shape) > 1:
        assert one >= GRID * 2 * (most - 1) / most - 1


def test_an_exchanged_row_moves_r_further_than_a_new_one() -> None:
    """By 2.76 of the bound of 3: planted as 2, it would be too little."""
    joint = np.array([[0, 65, 6], [0, 0, 0], [0, 11, 0]])
    cells = [joint + cell.reshape(3, 3) for cell in np.eye(9, dtype=np.int64)]
    values = [value(RScore(("x",)), cell) for cell in cells]
    assert 2.75 * GRID < max(values) - min(values) < 3 * GRID


@pytest.mark.parametrize(("shape", "most"), [((2, 2), 9), ((2, 3), 7), ((3, 3), 5), ((1, 3), 4)])
def test_no_row_moves_mutual_information_further(shape: tuple[int, int], most: int) -> None:
    queries = Marginals(Domain.of({"x": shape[0], "p": shape[1]}), (("x", "p"),))
    score = MutualInformation(("x",))
    for rows in range(1, most + 1):
        one, two = moves(score, rows, shape)
        gain = rows * math.log(rows) - (rows - 1) * math.log(max(1, rows - 1))
        assert one <= GRID * gain + 8
        assert two <= score.sensitivity(queries, exchanged(rows))
    if min(shape) > 1:
        assert one >= GRID * gain - 8  # The first row of a new child and new parents.
    if shape == (2, 2):
        assert two >= 0.9 * (score.sensitivity(queries, exchanged(most)) - 12)


def test_a_wide_table_moves_further_than_a_narrow_one() -> None:
    """From a cell whose child and parents both have half of the rows beside it, to a cell of its own: planted g(n)."""
    half = 20
    joint = np.zeros((4, 4), dtype=np.int64)
    joint[0, 1] = joint[1, 0] = half
    cells = [np.zeros((4, 4), dtype=np.int64) for _ in range(2)]
    cells[0][0, 0] = cells[1][3, 3] = 1
    shared, own = (value(MutualInformation(("x",)), joint + cell) for cell in cells)
    rows = 2 * half + 1
    wide = Marginals(Domain.of({"x": 4, "p": 4}), (("x", "p"),))
    narrow = Marginals(Domain.of({"x": 2, "p": 4}), (("x", "p"),))
    bound, too_small = (MutualInformation(("x",)).sensitivity(q, exchanged(rows)) for q in (wide, narrow))
    assert too_small < own - shared <= bound <= own - shared + 13


def test_bounds_by_their_formulas() -> None:
    n = 1001.0
    wide = Marginals(DOMAIN, (("b", "c"), ("a", "b")))
    g = n * math.log(n) - (n - 1) * math.log(n - 1)
    paper = 2 * math.log((n + 1) / 2) + (n - 1) * math.log((n + 1) / (n - 1))  # n times Lemma 4.1, in nats.
    for bound in (1, 3):
        unit = exchanged(1001 // bound if bound == 1 else 1001, bound)
        rows = 1001 * bound
        scored = MutualInformation(("b", "a")).sensitivity(wide, unit)
        if bound == 1:
            assert scored == pytest.approx(GRID * paper + 12, abs=1)
            assert MutualInformation(("a",)).sensitivity(wide.only([("a", "b")]), unit) == math.ceil(GRID * g) + 12
        assert scored >= bound * GRID * 2 * (math.log((rows + 1) / 2) + 0.999)
    assert MutualInformation(("b", "a")).sensitivity(wide, UNIT) == math.ceil(GRID * (44 * math.log(2) + 1)) + 8
    one, two = PrivacyUnit(ADD_REMOVE, Contribution(Shape.TABLE, 3)), exchanged(9, 3)
    assert [RScore(("b", "a")).sensitivity(wide, unit) for unit in (one, two)] == [6 * GRID, 9 * GRID]


@pytest.mark.parametrize("seed", range(20))
def test_scores_are_what_the_papers_define(seed: int) -> None:
    draw = np.random.default_rng(seed)
    joint = draw.integers(0, 10 ** draw.integers(1, 6), size=draw.integers(1, 6, size=2))
    joint[0, 0] += 1
    assert abs(value(MutualInformation(("x",)), joint) / GRID - mutual_information(joint)) < (joint.size + 12) / GRID
    assert value(RScore(("x",)), joint) == math.floor(GRID * distance(joint))


def test_the_child_may_be_any_attribute_of_its_clique_and_a_clique_may_come_twice() -> None:
    draw = np.random.default_rng(3)
    table = draw.integers(0, 9, size=(2, 3, 3))
    queries = Marginals(DOMAIN, (("a", "b", "c"),) * 3 + (("b",),))
    given = [(place, table.ravel()) for place in range(3)] + [(3, table.sum(axis=(0, 2)))]
    for make in BOTH.values():
        found = make(("a", "b", "c", "b")).scores(queries, UNIT, reversed(given))
        joints = [np.moveaxis(table, axis, 0).reshape(table.shape[axis], -1) for axis in range(3)]
        assert found.tolist() == [*(value(make(("x",)), joint) for joint in joints), 0]


@pytest.mark.parametrize("make", BOTH.values(), ids=BOTH)
def test_no_rows_and_independent_rows_score_nothing(make: Callable[[tuple[str, ...]], Score]) -> None:
    assert value(make(("x",)), np.zeros((2, 3), dtype=np.int64)) == 0
    assert abs(value(make(("x",)), np.outer([4, 2], [1, 3, 5]))) <= 8


def test_huge_tables_overflow_nothing() -> None:
    for joint in (np.diag([2**43, 2**43 - 1]), np.array([[2**43, 5], [2**42, 2**41]]), np.diag([2**30, 2**30 - 1])):
        assert value(RScore(("x",)), joint) == math.floor(GRID * distance(joint))
    found = value(MutualInformation(("x",)), np.diag([2**43, 2**43]))
    assert abs(found - GRID * 2**44 * math.log(2)) < GRID * 2**44 * 1e-12


def test_c_ln_c_is_off_by_less_than_a_step() -> None:
    draw = np.random.default_rng(5)
    counts = [0, 1, 2, 3, 2**26 - 1, 2**26, 2**44, *draw.integers(1, 2**26, 200).tolist()]
    counts += (2 ** draw.uniform(26, 44, 50)).astype(int).tolist()
    with localcontext() as context:
        context.prec = 80
        for count in counts:
            exact = GRID * count * Decimal(count).ln() if count else Decimal(0)
            assert abs(dependence._f(count) - exact) < 1


def test_arithmetic_does_not_depend_on_the_callers_context() -> None:
    wide = Marginals(DOMAIN, (("b", "c"),))
    wanted = [MutualInformation(("b",)).sensitivity(wide, unit) for unit in (UNIT, exchanged(123_456_789))]
    with localcontext() as context:
        context.prec = 2
        assert [MutualInformation(("b",)).sensitivity(wide, unit) for unit in (UNIT, exchanged(123_456_789))] == wanted
        assert dependence._f(2**40 + 1) == pytest.approx(GRID * 2**40 * 40 * math.log(2), rel=1e-9)


def test_more_rows_than_the_declared_units_can_hold_are_refused_without_a_number() -> None:
    joint = np.array([[4, 0], [3, 0]])
    assert value(MutualInformation(("x",)), joint, exchanged(7)) == 0
    assert value(MutualInformation(("x",)), joint, exchanged(4, 2)) == 0
    for unit in (exchanged(6), exchanged(3, 2)):
        with pytest.raises(IntegrityError, match="declared units") as refusal:
            value(MutualInformation(("x",)), joint, unit)
        assert not any(figure in str(refusal.value) for figure in "01234567")


@pytest.mark.parametrize("make", BOTH.values(), ids=BOTH)
def test_what_does_not_fit_is_refused(make: Callable[[object], Score]) -> None:
    queries = Marginals(DOMAIN, (("a", "b"), ("c",)))
    make(("b", "c")).check(queries, UNIT)
    for children, said in ((("a",), "want one for each"), (("c", "c"), "is not in its clique")):
        with pytest.raises(ValueError, match=said):
            make(children).check(queries, UNIT)
    with pytest.raises(TypeError, match="want marginals"):
        make(()).check(Products(DOMAIN, (Product((), ()),)), UNIT)
    with pytest.raises(ConfigError, match="baskets"):
        make(("b", "c")).check(queries, PrivacyUnit(ADD_REMOVE, Contribution(Shape.BASKETS, 3)))
    for wrong in (["a", "c"], (b"a", "c"), "ac"):
        with pytest.raises(TypeError, match="want one attribute per clique"):
            make(wrong)


def test_what_names_a_score_names_all_of_it() -> None:
    scores = [make(children) for make in BOTH.values() for children in (("a", "b"), ("b", "a"), ("a,b",))]
    assert len({score.digest() for score in scores}) == len(scores)
