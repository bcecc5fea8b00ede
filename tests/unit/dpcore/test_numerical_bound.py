"""Renyi curves against their definition, and what the bound says of whole logs."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import budget_of, epsilon_of_zcdp
from dpcore.kernel.events import Event, Loss
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.scores import L1Error
from dpcore.kernel.sensitivity import PrivacyUnit
from dpcore.numerical_bound import divergence, epsilon_of_events
from dpcore.queries import Marginals
from dpcore.testing.doubles import ADD_REMOVE

EPSILONS = [1e-4, 0.05, 0.7, 3.0, 12.0]
ORDERS = [1.0001, 1.5, 2.0, 7.3, 40.0, 900.0]
UNIT = PrivacyUnit(ADD_REMOVE, Contribution(Shape.BASKETS, 5), 1000)


def renyi(p: mpmath.mpf, q: mpmath.mpf, alpha: float) -> mpmath.mpf:
    """Divergence of order alpha between coins with chances p and q of heads."""
    moment = p**alpha * q ** (1 - alpha) + (1 - p) ** alpha * (1 - q) ** (1 - alpha)
    return mpmath.log(moment) / (alpha - 1)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("alpha", ORDERS)
def test_a_bounded_range_diverges_as_its_worst_pair(epsilon: float, alpha: float) -> None:
    with mpmath.workdps(50):
        found = []
        for t in [mpmath.mpf(epsilon) * part / 200 for part in range(1, 200)]:
            heads = mpmath.expm1(t - epsilon) / mpmath.expm1(-mpmath.mpf(epsilon))
            found.append(renyi(heads, heads * mpmath.exp(-t), alpha))
        worst = float(max(found))
    got = divergence(Loss.BOUNDED_RANGE, epsilon, alpha)
    assert worst <= got <= alpha * epsilon**2 / 8
    assert got == pytest.approx(
        worst, rel=1e-2 if alpha * epsilon < 50 else 0.1
    )  # The grid of t is coarse at the ends.


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("alpha", ORDERS)
def test_a_pure_mechanism_diverges_as_randomised_response(epsilon: float, alpha: float) -> None:
    with mpmath.workdps(50):
        truth = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        worst = float(renyi(truth, 1 - truth, alpha))
    got = divergence(Loss.PURE, epsilon, alpha)
    assert worst <= got <= min(alpha * epsilon**2 / 2, epsilon * (1 + 1e-8))
    assert got == pytest.approx(worst, rel=1e-4)


def test_a_gaussian_diverges_by_half_alpha_mu_squared() -> None:
    assert divergence(Loss.GAUSSIAN, 0.3, 7.0) == pytest.approx(7 * 0.3 / 2)
    event = Event(Loss.GAUSSIAN, Fraction(1, 10), 5, Fraction(1, 2))
    assert epsilon_of_events([event], 1e-6) == pytest.approx(epsilon_of_zcdp(0.25, 1e-6), rel=1e-12)
    assert epsilon_of_events([], 1e-6) == 0.0


@pytest.mark.parametrize("currency", list(Currency))
@pytest.mark.parametrize("rounds", [1, 10, 100])
def test_the_bound_of_a_fixed_log_never_passes_the_budget_by_much_and_often_beats_it(
    currency: Currency, rounds: int
) -> None:
    """Rounds of one selection and one measurement that use the budget up."""
    delta = 1e-6
    terms = PrivacyTerms(UNIT, budget_of(1.0, 0.0 if currency is Currency.PURE else delta, currency))
    share = Fraction(1, 2 * rounds)
    events = [terms.selected(share, rounds), terms.measured(share, rounds)]
    assert sum(event.charged for event in events) == pytest.approx(float(terms.budget.amount))
    found = epsilon_of_events(events, delta)
    # A little below zCDP with few rounds, far below pure with many.
    low, high = {
        Currency.PURE: {1: (0.9, 1.01), 10: (0.7, 0.9), 100: (0.25, 0.4)},
        Currency.ZCDP: {1: (0.88, 0.9), 10: (0.98, 0.99), 100: (0.997, 1.0)},
        Currency.GDP: {1: (0.8, 1.0), 10: (0.9, 1.0), 100: (0.9, 1.0)},
    }[currency][rounds]
    assert low < found < high


def test_draws_are_counted_one_by_one() -> None:
    terms = PrivacyTerms(UNIT, Budget.pure(1))
    event = terms.drawn(Fraction(3, 2), 1000, 70)
    assert (event.size, event.count) == (terms.draw_range(Fraction(3, 2), 1000), 70)
    assert event.charged == terms.draws_amount(Fraction(3, 2), 1000, 70)
    by_zcdp = epsilon_of_zcdp(70 * float(event.size) ** 2 / 8, 1e-6)
    assert epsilon_of_events([event], 1e-6) == pytest.approx(by_zcdp, rel=0.02)
    assert epsilon_of_events([event], 1e-6) <= by_zcdp


def test_permute_and_flip_is_pure_but_of_more_range_than_its_epsilon() -> None:
    """Two candidates of equal score, then of scores that differ by 2 sensitivities: both losses in closed form."""
    epsilon = 0.5
    losses = math.log(0.5 / (0.5 * math.exp(-epsilon))), math.log(0.5 / (1 - 0.5 * math.exp(-epsilon)))
    assert max(map(abs, losses)) <= epsilon + 1e-12
    assert max(losses) - min(losses) > 1.5 * epsilon
    assert PrivacyTerms(UNIT, Budget.pure(1)).selected(Fraction(1, 3)).loss is Loss.PURE


def test_a_selection_has_the_range_that_its_scale_gives_it() -> None:
    score, asked = L1Error(np.zeros(2), np.ones(1), np.zeros(1)), Marginals(Domain.of({"a": 2}), (("a",),))
    unit = PrivacyUnit(ADD_REMOVE, Contribution(Shape.TABLE, 1))
    for budget in (Budget.zcdp(1), Budget.gdp(1)):
        terms = PrivacyTerms(unit, budget)
        true = 2 * score.sensitivity(asked, unit) / terms.select_scale(asked, score, Fraction(1, 3))
        assert true <= float(terms.selected(Fraction(1, 3)).size) == pytest.approx(true, rel=1e-8)
    assert math.isfinite(divergence(Loss.PURE, 300.0, 500.0))
