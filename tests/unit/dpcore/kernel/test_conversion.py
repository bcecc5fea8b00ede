"""The conversion against high-precision arithmetic over a grid of alpha, and against published figures."""

from __future__ import annotations

import math
import re
from decimal import Decimal, localcontext
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import (
    budget_of,
    delta_of_gdp,
    epsilon_of,
    epsilon_of_gdp,
    epsilon_of_zcdp,
    gdp_of,
    zcdp_of,
)
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from tests.support.zcdp_reference import delta_of_zcdp

CASES = [
    (rho, delta) for rho in (1e-10, 1e-6, 0.003, 0.1, 1.0, 17.0, 500.0) for delta in (1e-15, 1e-9, 1e-6, 1e-3, 0.2)
]


def epsilon_by_grid(rho: float, delta: float) -> float:
    """min over alpha > 1 of rho alpha + (ln(1/delta) - ln alpha) / (alpha - 1) + ln(1 - 1/alpha), in 40 digits.

    Every point of the grid is an upper bound; the grid is refined around the best point.
    """
    with localcontext() as context:
        context.prec = 40
        rho_, log_delta = Decimal(rho), Decimal(delta).ln()

        def bound(x: Decimal) -> Decimal:
            excess = x.exp()
            alpha = 1 + excess
            return rho_ * alpha - (log_delta + alpha.ln()) / excess + (excess / alpha).ln()

        best = min((Decimal(step) / 2 for step in range(-24, 60)), key=bound)
        width = Decimal(1) / 2
        for _ in range(14):
            best = min((best + width * step / 4 for step in range(-4, 5)), key=bound)
            width /= 3
        return max(0.0, float(bound(best)))


@pytest.mark.parametrize(("rho", "delta"), CASES)
def test_epsilon_is_the_smallest_bound_and_never_below_it(rho: float, delta: float) -> None:
    reference, got = epsilon_by_grid(rho, delta), epsilon_of_zcdp(rho, delta)
    assert reference * (1 - 1e-12) <= got <= reference * (1 + 1e-7) + 1e-15


@settings(max_examples=60)
@given(rho=st.floats(1e-8, 100), delta=st.floats(1e-14, 0.1))
def test_delta_and_epsilon_invert_each_other(rho: float, delta: float) -> None:
    epsilon = epsilon_of_zcdp(rho, delta)
    if epsilon > 0:
        assert delta_of_zcdp(rho, epsilon) == pytest.approx(delta, rel=1e-4)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3, 0.5])
def test_a_target_is_used_up_and_never_passed(epsilon: float, delta: float) -> None:
    rho = float(zcdp_of(epsilon, delta))
    assert epsilon_of_zcdp(rho, delta) <= epsilon
    assert epsilon_by_grid(rho, delta) <= epsilon
    assert epsilon_by_grid(rho * (1 + 1e-6), delta) > epsilon


def test_the_bound_is_better_than_the_classical_one_and_worse_than_the_exact_gaussian() -> None:
    """100 Gaussians of sigma 5 at delta 1e-9: 14.150; rho + 2 sqrt(rho ln(1/delta)) is 14.876, exactly 13.535."""
    assert epsilon_of_zcdp(2.0, 1e-9) == pytest.approx(14.150, abs=5e-4)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan])
def test_a_bad_delta_is_refused(delta: float) -> None:
    with pytest.raises(ValueError, match="want 0 < delta < 1"):
        epsilon_of_zcdp(1.0, delta)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_a_bad_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="want a finite number > 0"):
        zcdp_of(epsilon, 1e-6)


def test_no_privacy_loss_is_an_epsilon_of_zero() -> None:
    assert epsilon_of_zcdp(0.0, 1e-6) == 0.0


def test_a_target_without_delta_is_pure_and_exact() -> None:
    assert budget_of(0.1, 0.0) == Budget(Currency.PURE, Fraction(1, 10))
    assert budget_of(1.0, 1e-6) == Budget(Currency.ZCDP, zcdp_of(1.0, 1e-6))


# DualQuery at published settings: name, eta, rounds, samples a round, units, {delta: epsilon}.
PUBLISHED = [
    ("kdd99", 1.2, 170, 1750, 494_021, {1e-3: 0.320, 1e-6: 0.566, 1e-9: 0.739}),
    ("netflix", 1.2, 120, 4500, 480_189, {1e-3: 0.311}),
    ("adult", 0.8, 40, 1000, 30_162, {1e-3: 0.293}),
]
BASKETS = Contribution(Shape.BASKETS, 300)
REPLACE = Neighbours.REPLACE_ONE_UNIT
ADD_REMOVE = Neighbours.ADD_REMOVE_UNIT


def rho_of_rounds(neighbours: Neighbours, eta: float, rounds: int, samples: int, units: int) -> Fraction:
    """What the kernel charges for DualQuery's draws: slope eta (t - 1) in round t."""
    terms = PrivacyTerms(PrivacyUnit(neighbours, BASKETS, units), Budget.zcdp(1))
    slopes = [Fraction(str(eta)) * done for done in range(rounds)]
    return sum((terms.draws_amount(slope, units, samples) for slope in slopes), Fraction(0))


@pytest.mark.parametrize(("name", "eta", "rounds", "samples", "units", "epsilons"), PUBLISHED, ids=lambda v: str(v)[:8])
def test_published_settings_cost_what_the_bounded_range_bound_gives(
    name: str, eta: float, rounds: int, samples: int, units: int, epsilons: dict[float, float]
) -> None:
    closed_form = samples * eta**2 * (rounds - 1) * rounds * (2 * rounds - 1) / (12 * units**2)
    rho = float(rho_of_rounds(REPLACE, eta, rounds, samples, units))
    assert closed_form < rho < closed_form * (1 + 1e-3)
    for delta, epsilon in epsilons.items():
        assert round(epsilon_of_zcdp(rho, delta), 3) == epsilon
    halved = float(rho_of_rounds(ADD_REMOVE, eta, rounds, samples, units))
    assert closed_form / 4 < halved < closed_form / 4 * (1 + 1e-3)


@pytest.mark.parametrize(
    ("eta", "samples", "units", "neighbours", "rounds"),
    [
        (2.0, 1000, 494_021, REPLACE, 279),
        (2.0, 1000, 494_021, ADD_REMOVE, 443),
        (2.0, 5000, 480_189, REPLACE, 160),
        (2.0, 5000, 480_189, ADD_REMOVE, 254),
        (2.0, 1000, 30_162, REPLACE, 43),
        (2.0, 1000, 30_162, ADD_REMOVE, 69),
        (1.2, 1750, 494_021, REPLACE, 326),
    ],
)
def test_published_rounds_are_the_most_that_fit(
    eta: float, samples: int, units: int, neighbours: Neighbours, rounds: int
) -> None:
    budget = zcdp_of(1.0, 1e-3)
    assert rho_of_rounds(neighbours, eta, rounds, samples, units) <= budget
    assert rho_of_rounds(neighbours, eta, rounds + 1, samples, units) > budget


def exact_delta(mu_squared: float, epsilon: float) -> mpmath.mpf:
    """Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu) in 60 digits."""
    with mpmath.workdps(60):
        mu = mpmath.sqrt(mu_squared)
        ratio = mpmath.mpf(epsilon) / mu
        return mpmath.ncdf(mu / 2 - ratio) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - ratio)


@given(log_mu_squared=st.floats(-20, 12), log_epsilon=st.floats(-20, 7))
def test_delta_of_gaussian_dp_is_never_below_the_truth_and_hardly_above(
    log_mu_squared: float, log_epsilon: float
) -> None:
    mu_squared, epsilon = math.exp(log_mu_squared), math.exp(log_epsilon)
    wanted, got = exact_delta(mu_squared, epsilon), delta_of_gdp(mu_squared, epsilon)
    if wanted > 1e-300:
        # The difference of the two terms cancels where mu is small, or epsilon far above mu^2.
        assert 0 <= got / wanted - 1 < 1e-10 * (1 + epsilon / mu_squared + 1 / math.sqrt(mu_squared))


def test_delta_of_gaussian_dp_by_hand() -> None:
    """At epsilon 0 it is the total variation distance 2 Phi(mu/2) - 1; at (1, 1e-6) sigma 4.2247 (Balle and Wang)."""
    assert delta_of_gdp(1.0, 0.0) == pytest.approx(0.38292492254802624, rel=1e-12)
    assert 1 / math.sqrt(gdp_of(1.0, 1e-6)) == pytest.approx(4.2247, abs=5e-5)
    assert delta_of_gdp(0.0, 1.0) == 0.0
    assert delta_of_gdp(1e9, 1.0) == 1.0


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 8.0, 100.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3, 0.5])
def test_a_gaussian_dp_target_is_used_up_and_never_passed(epsilon: float, delta: float) -> None:
    mu_squared = gdp_of(epsilon, delta)
    assert exact_delta(float(mu_squared), epsilon) <= delta
    assert exact_delta(float(mu_squared) * (1 + 1e-6), epsilon) > delta
    found = epsilon_of_gdp(float(mu_squared), delta)
    assert found == pytest.approx(epsilon, rel=1e-9)
    assert exact_delta(float(mu_squared), found) <= delta


def test_gaussian_dp_is_worth_more_than_zcdp_for_the_same_target() -> None:
    """mu-GDP is mu^2/2-zCDP; the target is met by a mu^2/2 that is 12 to 40 percent above the rho that meets it."""
    for epsilon in (0.1, 1.0, 10.0):
        for delta in (1e-9, 1e-6, 1e-3):
            ratio = float(gdp_of(epsilon, delta) / 2 / zcdp_of(epsilon, delta))
            assert 1.08 < ratio < 1.40


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 1e-305, math.nan])
def test_a_delta_without_gaussian_dp_is_refused(delta: float) -> None:
    for convert in (epsilon_of_gdp, gdp_of):
        with pytest.raises(ValueError, match="want 1e-300 <= delta < 1"):
            convert(1.0, delta)
    with pytest.raises(ValueError, match="want a finite number > 0"):
        gdp_of(0.0, 1e-6)


def test_a_target_is_met_in_the_currency_that_is_named() -> None:
    assert budget_of(1.0, 1e-6, Currency.GDP) == Budget(Currency.GDP, gdp_of(1.0, 1e-6))
    assert budget_of(1.0, 0.0, Currency.PURE) == Budget.pure(1)
    for currency, delta in ((Currency.PURE, 1e-6), (Currency.ZCDP, 0.0), (Currency.GDP, 0.0)):
        with pytest.raises(ValueError, match=re.escape(f"for a budget in {currency}; want 0 for epsilon")):
            budget_of(1.0, delta, currency)


def test_every_budget_has_an_epsilon() -> None:
    assert epsilon_of(Budget.pure(Fraction(1, 4)), 1e-6) == 0.25
    assert all(epsilon_of(Budget.pure(Fraction(k, 7)), 0.0) >= Fraction(k, 7) for k in range(1, 50))
    assert epsilon_of(Budget.zcdp(0.5), 1e-6) == epsilon_of_zcdp(0.5, 1e-6)
    assert epsilon_of(Budget.gdp(1), 1e-6) == epsilon_of_gdp(1.0, 1e-6) < epsilon_of_zcdp(0.5, 1e-6)
