"""Satisfaction histograms and clipped sums through the kernel: what is refused, and the law of what comes back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError, IntegrityError
from dpcore.exact_statistics import Contribution, Request, Shape
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.exact_answers import LARGEST_ROWS, ExactAnswers
from dpcore.kernel.sensitivity import PrivacyUnit, l1_sensitivity, largest_clipped, squared_l2_sensitivity
from dpcore.measurement import GRID_BITS, noise_stddev
from dpcore.queries import ClippedSums, Conjunctions, SatisfactionHistogram, UnitCount
from dpcore.testing.doubles import ADD_REMOVE, REPLACE, NoStatistics, WatchedStatistics, private_statistics
from dpcore.testing.memory import MemoryJournal
from dpcore.testing.tiny_statistics import TinyBaskets, TinyTable
from dpcore.uncertainty import of_measurements
from tests.support import laws
from tests.support.laws import REJECT_BELOW

VIEW = BinaryView(6)
BASKETS = TinyBaskets(VIEW, np.array([[1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]], dtype=bool), 6)


def positive(view: BinaryView, *columns: tuple[int, ...]) -> Conjunctions:
    return Conjunctions(view, np.array(columns), np.zeros((len(columns), len(columns[0])), dtype=np.bool_))


QUERIES = positive(VIEW, (0, 1), (0, 2), (1, 2), (3, 4))
GROUPS = np.array([0, 0, 1, 1], dtype=np.int32)
HISTOGRAM = SatisfactionHistogram(QUERIES, GROUPS)
SUMS = ClippedSums.of(QUERIES, [1, 2], GROUPS)


@dataclass
class Wrong:
    """Baskets of which one answer is another one."""

    request: Request
    answer: object
    inner: TinyBaskets = BASKETS

    @property
    def contribution(self) -> Contribution:
        return self.inner.contribution

    def aggregate(self, request: Request) -> NDArray[np.int64]:
        wrong = type(request) is type(self.request)
        return self.answer if wrong else self.inner.aggregate(request)  # type: ignore[return-value]


def test_exact_answers_are_those_of_the_definition() -> None:
    exact = ExactAnswers(BASKETS)
    assert exact.of(HISTOGRAM).tolist() == [1, 1, 1, 2, 1, 0]
    whole, half = 65536, math.isqrt(2**31)
    assert exact.of(SUMS).tolist() == [half + whole, half, whole, 0]


def test_each_is_asked_once() -> None:
    watched = WatchedStatistics(BASKETS)
    exact = ExactAnswers(watched)
    for _ in range(2):
        exact.of(HISTOGRAM)
        exact.of(SUMS)
    assert [type(request) for request in watched.requests] == [SatisfactionHistogram, ClippedSums]


@pytest.mark.parametrize(
    "answer",
    [
        np.array([1, 1, 1, 2, 1, 1]),  # A unit too many in one group.
        np.array([2, 1, 1, 3, 1, 0]),  # And in both, where the number is known.
        np.array([4, -1, 0, 2, 1, 0]),
        np.array([1, 1, 1, 2, 1]),
        np.array([1.0, 1, 1, 2, 1, 0]),
        np.array([LARGEST_ROWS + 1, 1, 1, 2, 1, 0]),
    ],
)
def test_a_histogram_holds_every_unit_once(answer: NDArray[np.int64]) -> None:
    exact = ExactAnswers(Wrong(HISTOGRAM, answer))
    exact.of(UnitCount())
    with pytest.raises(IntegrityError):
        exact.of(HISTOGRAM)


def test_a_histogram_tells_the_number_of_units() -> None:
    exact = ExactAnswers(Wrong(UnitCount(), np.array([4])))
    exact.of(HISTOGRAM)
    with pytest.raises(IntegrityError, match="another number of units"):
        exact.of(UnitCount())


@pytest.mark.parametrize(
    "answer",
    [
        np.array([3 * 65536 + 1, 0, 0, 0]),  # More than three units at their largest weight.
        np.array([2 * 65536, 2 * 65536, 0, 0]),  # More in a group than three units of norm 1 add to two queries.
        np.array([-1, 0, 0, 0]),
        np.array([0, 0, 0]),
        np.array([0.0, 0, 0, 0]),
    ],
)
def test_clipped_sums_are_no_more_than_the_units_make_them(answer: NDArray[np.int64]) -> None:
    sums = ClippedSums.of(QUERIES, [1, 2], GROUPS, norm=1)
    exact = ExactAnswers(Wrong(sums, answer))
    exact.of(UnitCount())
    with pytest.raises(IntegrityError) as refusal:
        exact.of(sums)
    assert "65536" not in str(refusal.value)


def test_sums_that_pass_64_bits_together_are_refused() -> None:
    queries = positive(VIEW, *[(0, 1)] * 8)
    sums = ClippedSums(queries, np.array([[0, 1 << 18, *[0] * 7]]))
    exact = ExactAnswers(Wrong(sums, np.full(8, 1 << 61)))
    with pytest.raises(IntegrityError, match="larger than its units"):
        exact.of(sums)


@pytest.mark.parametrize("asked", [HISTOGRAM, SUMS])
def test_units_of_several_rows_are_refused_before_the_data_are_touched(
    asked: SatisfactionHistogram | ClippedSums,
) -> None:
    for contribution in (Contribution(Shape.TABLE, 2), Contribution(Shape.TABLE, 9)):
        private = private_statistics(NoStatistics(contribution), Budget.pure(1))
        with pytest.raises(ConfigError, match="want max_rows_per_unit: 1"):
            private.measure(asked, Fraction(1))
        assert private.charges == ()


def test_a_table_of_one_row_a_unit_is_answered() -> None:
    domain = Domain.of({"a": 2, "b": 2})
    table = TinyTable(domain, np.array([[0, 0], [0, 1], [1, 1]]))
    queries = positive(BinaryView.one_hot(domain), (0, 2), (1, 3), (0, 3))
    assert ExactAnswers(table).of(SatisfactionHistogram(queries)).tolist() == [0, 3, 0]
    assert ExactAnswers(table).of(ClippedSums.of(queries, [0.5])).tolist() == [32768] * 3


def test_subclasses_are_refused() -> None:
    class Other(Conjunctions):
        pass

    other = Other(QUERIES.view, QUERIES.columns, QUERIES.negated)
    for asked in (SatisfactionHistogram(other), ClippedSums(other, np.ones((1, 5), dtype=np.int64))):
        with pytest.raises(TypeError, match="subclass"):
            private_statistics(NoStatistics(BASKETS.contribution), Budget.pure(1)).measure(asked, Fraction(1))


def test_sensitivities_are_exact_beyond_64_bits() -> None:
    weights = np.full((1, 1 + QUERIES.size), 1 << 40)
    unit = PrivacyUnit(ADD_REMOVE, BASKETS.contribution)
    huge = ClippedSums(QUERIES, weights)
    assert largest_clipped(huge, 2) == [QUERIES.size << 80]
    assert squared_l2_sensitivity(huge, unit) == QUERIES.size << 80
    assert l1_sensitivity(huge, PrivacyUnit(REPLACE, BASKETS.contribution, 3)) == QUERIES.size << 41


@pytest.mark.parametrize("seed", range(10))
def test_no_basket_moves_them_further_than_the_kernel_says(seed: int) -> None:
    """All baskets of five items, added or exchanged, against random tables of weights; queries come several times."""
    draw = np.random.default_rng(seed)
    queries = positive(BinaryView(5), *(tuple(draw.choice(5, 2, replace=False)) for _ in range(9)))
    groups = draw.permutation([0, 1, 2, *draw.integers(0, 3, 6)]).astype(np.int32)
    requests = [
        SatisfactionHistogram(queries, groups),
        ClippedSums.of(queries, draw.uniform(0.2, 3, 3), groups, norm=1 + seed % 2),
        ClippedSums(queries, draw.integers(0, 50, (3, 11)), groups),
    ]
    every = (np.arange(32)[:, None] >> np.arange(5) & 1).astype(bool)
    for request in requests:
        added = np.stack([TinyBaskets(queries.view, basket[None]).aggregate(request) for basket in every])
        moved = {ADD_REMOVE: added, REPLACE: (added[:, None] - added[None]).reshape(-1, request.size)}
        for neighbours, changes in moved.items():
            unit = PrivacyUnit(neighbours, BASKETS.contribution, 9 if neighbours is REPLACE else None)
            assert np.abs(changes).sum(axis=1).max() <= l1_sensitivity(request, unit)
            assert (changes**2).sum(axis=1).max() <= squared_l2_sensitivity(request, unit)


COPIES = 2000


@pytest.mark.parametrize("currency", list(Currency))
@pytest.mark.parametrize("replaced", [False, True])
def test_noise_of_clipped_sums_has_the_law_of_its_sensitivity(currency: Currency, replaced: bool) -> None:
    """2,000 copies of a query to which a unit adds 1 step each: L1 is f m, L2^2 f m; the budget makes the scale 3."""
    weights = np.zeros((1, COPIES + 1), dtype=np.int64)
    weights[0, COPIES] = 1
    sums = ClippedSums(positive(VIEW, *[(0, 1)] * COPIES), weights)
    moved = COPIES * (2 if replaced else 1)
    amount = {Currency.PURE: Fraction(moved, 3), Currency.ZCDP: Fraction(moved, 18), Currency.GDP: Fraction(moved, 9)}
    neighbours, units = (REPLACE, 3) if replaced else (ADD_REMOVE, None)
    private = private_statistics(BASKETS, Budget(currency, amount[currency]), neighbours=neighbours, units=units)
    measured = private.measure(sums, Fraction(1))
    steps = measured.values * sums.denominator
    assert measured.scale * sums.denominator == pytest.approx(3, rel=1e-12)
    draws = steps - BASKETS.aggregate(sums)
    assert laws.noise_p_value(draws, currency, 3.0) > REJECT_BELOW
    assert laws.noise_p_value(draws, currency, 3.0 * 1.3) < REJECT_BELOW
    assert abs(laws.neighbour_z(draws)) < 5
    grid = 1 << GRID_BITS if currency is Currency.GDP else 1
    assert (steps * grid == np.rint(steps * grid)).all()
    assert measured.stddev == pytest.approx(noise_stddev(measured.noise, 3.0) / 65536)
    answers = of_measurements([measured])
    assert np.allclose(answers.stddev, measured.stddev)
    inside = np.abs(draws) <= (answers.upper - answers.values) * 65536
    assert 0.93 < inside.mean() < 0.995


@pytest.mark.parametrize("currency", list(Currency))
def test_noise_of_a_histogram_pays_for_every_group(currency: Currency) -> None:
    budget = Budget(currency, Fraction(1, 2))
    one = private_statistics(BASKETS, budget).measure(SatisfactionHistogram(QUERIES), Fraction(1))
    both = private_statistics(BASKETS, budget).measure(HISTOGRAM, Fraction(1))
    factor = 2.0 if currency is Currency.PURE else math.sqrt(2.0)
    assert both.scale == pytest.approx(factor * one.scale)
    assert one.denominator == both.denominator == 1


def test_answers_are_replayed() -> None:
    journal = MemoryJournal()
    found = []
    for _ in range(2):
        private = private_statistics(BASKETS, Budget.zcdp(1), journal=journal)
        found.append([private.measure(asked, Fraction(1, 2)).values.tolist() for asked in (HISTOGRAM, SUMS)])
    assert found[0] == found[1]
    assert len(journal.answers) == 2
    other = ClippedSums.of(QUERIES, [0.5, 2], GROUPS)
    private = private_statistics(BASKETS, Budget.zcdp(1), journal=journal)
    private.measure(HISTOGRAM, Fraction(1, 2))
    with pytest.raises(IntegrityError):
        private.measure(other, Fraction(1, 2))
