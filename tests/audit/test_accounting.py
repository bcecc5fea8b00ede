"""The accounting audit at its fast size, and that it rejects wrong conversions."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import pytest

from dpcore.kernel.budget import Currency
from dpcore.kernel.conversion import epsilon_of_gdp, epsilon_of_zcdp
from dpcore.kernel.privacy_terms import bounded_range_cost
from dpcore.numerical_bound import epsilon_of_events
from tests.audit.accounting import Claims, run
from tests.audit.section import Size

pytestmark = pytest.mark.false_alarm(0)  # Of tests that no draw decides; the others say theirs.


@pytest.mark.smoke
def test_no_claim_is_below_the_reference() -> None:
    rows = run(Size.FAST)
    assert len(rows) == 14
    assert [dict(row.cells) for row in rows if not row.passed] == []


def half_the_root(rho: float, delta: float) -> float:
    return rho + math.sqrt(rho * math.log(1 / delta))


def half_a_selection(currency: Currency, width: Fraction) -> Fraction:
    return bounded_range_cost(currency, width) / 2


def selections_as_in_zcdp(currency: Currency, width: Fraction) -> Fraction:
    return width**2 / 4 if currency is Currency.GDP else bounded_range_cost(currency, width)


def as_if_gaussian(epsilon: Fraction) -> Fraction:
    return epsilon**2 / 4


PLANTED = {
    "half the root of zCDP": Claims(epsilon_of_zcdp=half_the_root),
    "ten times the delta in zCDP": Claims(
        epsilon_of_zcdp=lambda rho, delta: epsilon_of_zcdp(rho, min(0.9, 10 * delta))
    ),
    "ten times the delta in Gaussian DP": Claims(
        epsilon_of_gdp=lambda mu_squared, delta: epsilon_of_gdp(mu_squared, min(0.9, 10 * delta))
    ),
    "mu taken as mu^2": Claims(epsilon_of_gdp=lambda mu_squared, delta: epsilon_of_gdp(mu_squared**2, delta)),
    "half of a selection": Claims(bounded_range_cost=half_a_selection),
    "selections without pi/2": Claims(bounded_range_cost=selections_as_in_zcdp),
    "half of the events": Claims(
        epsilon_of_events=lambda events, delta: epsilon_of_events(events[: len(events) // 2], delta)
    ),
    "a quarter of a pure charge": Claims(gdp_of_pure=as_if_gaussian),
}


@pytest.mark.parametrize("claims", PLANTED.values(), ids=PLANTED)
def test_a_wrong_conversion_is_found(claims: Claims) -> None:
    assert dataclasses.asdict(claims) != dataclasses.asdict(Claims())
    assert not all(row.passed for row in run(Size.FAST, claims))
