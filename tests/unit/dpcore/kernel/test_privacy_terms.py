"""What calls cost, against the true law of the draws on all tiny datasets."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import logit, ndtr

from dpcore.domain import BinaryView, Domain
from dpcore.exact_statistics import Contribution, QueryAnswers, Shape, Statistics
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.gaussian_dp import gdp_of_bounded_range
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.scores import GRID, L1Error
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.kernel.weighted_sampler import XI
from dpcore.measurement import Noise
from dpcore.queries import Conjunctions, Marginals, UnitCount
from dpcore.testing.doubles import ADD_REMOVE, REPLACE
from dpcore.testing.tiny_statistics import TinyBaskets, TinyTable

ITEMS = BinaryView(2)
DOMAIN = Domain.of({"a": 2, "b": 2})
BASKETS = [np.array(basket, dtype=bool) for basket in product([0, 1], repeat=2) if any(basket)]
ROWS = [np.array(row) for row in product([0, 1], repeat=2)]
SLOPE = 1.7


def datasets(shape: Shape, units: int) -> list[tuple[tuple[int, ...], Statistics]]:
    """Every dataset of so many units, as the multiset of its units and as statistics."""
    choices = BASKETS if shape is Shape.BASKETS else ROWS
    found: list[tuple[tuple[int, ...], Statistics]] = []
    for chosen in combinations_with_replacement(range(len(choices)), units):
        rows = np.array([choices[index] for index in chosen]).reshape(units, 2)
        made = TinyBaskets(ITEMS, rows, 2) if shape is Shape.BASKETS else TinyTable(DOMAIN, rows)
        found.append((chosen, made))
    return found


def law(statistics: Statistics, queries: Conjunctions, offsets: NDArray[np.float64], n0: int) -> NDArray[np.float64]:
    """Log-chances of queries and complements: exp(slope c / n0 + offset), c clamped to [0, n0], written out."""
    counts = statistics.aggregate(QueryAnswers(queries)).tolist()
    units = int(statistics.aggregate(UnitCount())[0])
    slots = [*counts, *(units - count for count in counts)]
    scores = np.array([SLOPE * min(max(c, 0), n0) / n0 for c in slots]) + offsets
    return np.asarray(scores - np.log(np.exp(scores).sum()))


def neighbouring(left: tuple[int, ...], right: tuple[int, ...], neighbours: Neighbours) -> bool:
    if neighbours is ADD_REMOVE:
        return any(sorted([*left, extra]) == list(right) for extra in range(4))
    return any(
        sorted([*left[:gone], *left[gone + 1 :], new]) == list(right) for gone in range(len(left)) for new in range(4)
    )


def true_range(shape: Shape, neighbours: Neighbours, n0: int) -> float:
    """max over neighbours of (max - min) over slots of the log-ratio of chances, for datasets of up to 3 units."""
    view = ITEMS if shape is Shape.BASKETS else BinaryView.one_hot(DOMAIN)
    columns = [[0], [1]] if shape is Shape.BASKETS else [[0], [2]]
    queries = Conjunctions(view, np.array(columns, dtype=np.int32), np.array([[False], [True]]))
    offsets = np.array([0.3, -1.0, 0.0, 2.0])
    widest = 0.0
    for units in range(1, 4):
        smaller = datasets(shape, units)
        larger = datasets(shape, units + 1) if neighbours is ADD_REMOVE else smaller
        for left, one in smaller:
            for right, other in larger:
                if neighbouring(left, right, neighbours):
                    ratio = law(other, queries, offsets, n0) - law(one, queries, offsets, n0)
                    widest = max(widest, float(ratio.max() - ratio.min()))
    return widest


@pytest.mark.parametrize("shape", list(Shape))
@pytest.mark.parametrize("n0", [1, 2, 3, 7])
@pytest.mark.parametrize(("neighbours", "directions"), [(ADD_REMOVE, 1), (REPLACE, 2)])
def test_the_range_of_a_draw_is_the_true_one(shape: Shape, n0: int, neighbours: Neighbours, directions: int) -> None:
    terms = PrivacyTerms(
        PrivacyUnit(neighbours, Contribution(shape, 2 if shape is Shape.BASKETS else 1), n0), Budget.pure(1)
    )
    bound = float(terms.draw_range(Fraction(SLOPE), n0) - 4 * XI)
    found = true_range(shape, neighbours, n0)
    assert found <= bound + 1e-12
    assert found == pytest.approx(bound)  # Reached: the bound is no larger than it must be.
    assert bound == pytest.approx(directions * SLOPE / n0)


@pytest.mark.parametrize(("neighbours", "directions"), [(ADD_REMOVE, 1), (REPLACE, 2)])
def test_draws_cost_their_ranges_or_multiples_of_their_squares(neighbours: Neighbours, directions: int) -> None:
    unit = PrivacyUnit(neighbours, Contribution(Shape.BASKETS, 5), 1000)
    width = directions * Fraction(3, 2) / 1000 + 4 * Fraction(1, 2**29)
    pure, zcdp, gdp = (PrivacyTerms(unit, Budget(currency, Fraction(1))) for currency in Currency)
    step = Fraction(1, 2**80)
    for slope in (Fraction(3, 2), Fraction(-3, 2)):
        assert 0 <= pure.draws_amount(slope, 1000, 70) - 70 * width < step
        assert 0 <= zcdp.draws_amount(slope, 1000, 70) - 70 * width**2 / 8 < step
        assert 0 <= gdp.draws_amount(slope, 1000, 70) - 70 * gdp_of_bounded_range(width) < step
        assert float(gdp.draws_amount(slope, 1000, 70)) == pytest.approx(70 * math.pi / 8 * float(width) ** 2, rel=1e-6)


def test_draws_that_ignore_the_data_are_free() -> None:
    for currency in Currency:
        terms = PrivacyTerms(PrivacyUnit(REPLACE, Contribution(Shape.TABLE, 1), 10), Budget(currency, Fraction(1)))
        assert terms.draws_amount(Fraction(0), 10, 1000) == 0


@given(share=st.fractions(min_value=Fraction(1, 10**6), max_value=1), budget=st.fractions(Fraction(1, 100), 50))
def test_an_amount_never_passes_its_share(share: Fraction, budget: Fraction) -> None:
    terms = PrivacyTerms(PrivacyUnit(ADD_REMOVE, Contribution(Shape.TABLE, 1)), Budget.zcdp(budget))
    assert 0 <= share * budget - terms.amount(share) < Fraction(1, 2**80)


@pytest.mark.parametrize("share", [Fraction(0), Fraction(-1, 2), Fraction(101, 100), Fraction(1, 2**90)])
def test_a_share_outside_the_budget_or_lost_in_rounding_is_refused(share: Fraction) -> None:
    with pytest.raises(ValueError, match="want"):
        PrivacyTerms(PrivacyUnit(ADD_REMOVE, Contribution(Shape.TABLE, 1)), Budget.pure(1)).amount(share)


@pytest.mark.parametrize(("neighbours", "factor"), [(ADD_REMOVE, 1), (REPLACE, 2)])
@pytest.mark.parametrize("bound", [1, 3])
def test_scales_follow_the_declared_contribution(neighbours: Neighbours, factor: int, bound: int) -> None:
    """Two marginals, half of the budget: b = factor 2 bound / (1/2), sigma^2 = l2^2 / (2 rho) and l2^2 / mu^2."""
    unit = PrivacyUnit(neighbours, Contribution(Shape.TABLE, bound), 10)
    queries = Marginals(DOMAIN, (("a",), ("b",)))
    score = L1Error(np.zeros(4), np.ones(2), np.zeros(2))
    pure, zcdp, gdp = (PrivacyTerms(unit, Budget(currency, Fraction(1))) for currency in Currency)
    half = Fraction(1, 2)
    assert (pure.noise, zcdp.noise, gdp.noise) == (Noise.LAPLACE, Noise.GAUSSIAN, Noise.ROUNDED_GAUSSIAN)
    assert pure.measure_scale(queries, half) == pytest.approx(4 * factor * bound)
    assert gdp.measure_scale(queries, half) == pytest.approx(2 * math.sqrt(factor) * bound)
    assert zcdp.measure_scale(queries, half) == pytest.approx(math.sqrt(2 * factor) * bound)
    step = factor * bound * GRID**2
    assert pure.select_scale(queries, score, half) == 4 * step  # epsilon = 2 step / scale.
    assert zcdp.select_scale(queries, score, half) == pytest.approx(step)  # rho = (2 step / scale)^2 / 8.
    # mu = 2 Phi^-1(1 / (1 + exp(-step / scale))).
    assert gdp.select_scale(queries, score, half) == pytest.approx(step / logit(ndtr(math.sqrt(0.5) / 2)))
