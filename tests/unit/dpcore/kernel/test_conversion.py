"""The conversion against high-precision arithmetic over a grid of alpha, and against published figures."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import budget_of, delta_of_zcdp, epsilon_of_zcdp, zcdp_of
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.kernel.terms import Terms

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


def test_extremes_are_answered() -> None:
    assert epsilon_of_zcdp(0.0, 1e-6) == 0.0
    assert delta_of_zcdp(0.0, 1.0) == 0.0
    assert delta_of_zcdp(1e9, 1.0) == 1.0
    assert delta_of_zcdp(1e-4, 1000.0) < 1e-300


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
    terms = Terms(PrivacyUnit(neighbours, BASKETS, units), Budget.zcdp(1))
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
