"""Every charge carries what its amount follows from: the formulas of the certificate, written out by hand, hold."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.errors import BudgetExceededError
from dpcore.kernel.budget import Bound, Budget, Charge, CostBasis, Currency
from dpcore.kernel.gaussian_dp import gdp_of_bounded_range
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.scores import L1Error
from dpcore.kernel.sensitivity import Neighbours
from dpcore.queries import Conjunctions, Marginals, Product, Products, UnitCount
from dpcore.testing.doubles import private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from tests.support.tilts import flat

DOMAIN = Domain.of({"a": 2, "b": 3})
TABLE = TinyTable(DOMAIN, np.array([[0, 0], [1, 2]]))
MARGINALS = Marginals(DOMAIN, (("a",), ("b",)))
COLUMNS = Conjunctions.single_columns(BinaryView.one_hot(DOMAIN))
EIGHTHS = Products(DOMAIN, (Product(("a",), (np.array([[3, -1]]),)), Product((), (), 4)), denominator=8)
SCORE = L1Error(np.zeros(5), np.ones(2), np.zeros(2))
SHARE = Fraction(1, 7)

every_currency = pytest.mark.parametrize(
    "budget", [Budget.pure(3), Budget.zcdp(3), Budget.gdp(3)], ids=lambda b: b.currency.name
)
Call = Callable[[PrivateStatistics], object]
# Each call with its L1 and squared L2 sensitivity, its unit, and the number of units per count.
MEASURED: dict[str, tuple[Call, int, int, str, int]] = {
    "marginals": (lambda private: private.measure(MARGINALS, SHARE), 2, 2, "counts", 1),
    "conjunctions": (lambda private: private.measure(COLUMNS, SHARE), 2, 2, "counts", 1),
    "products": (lambda private: private.measure(EIGHTHS, SHARE), 7, 25, "integer answers", 8),
    "units": (lambda private: private.measure(UnitCount(), SHARE), 1, 1, "counts", 1),
    "errors": (
        lambda private: private.measure_errors(MARGINALS, np.zeros(5), SHARE),
        2 * 256, 2 * 256**2, "steps of 1/256 counts", 256,
    ),
}  # fmt: skip


def charge_of(call: Call, budget: Budget, **unit: object) -> Charge:
    private = private_statistics(TABLE, budget, **unit)  # type: ignore[arg-type]
    call(private)
    (charge,) = private.charges
    return charge


def basis_of(charge: Charge) -> CostBasis:
    assert charge.basis is not None
    return charge.basis


def nearly(exact: Fraction, amount: Fraction) -> bool:
    """Whether a recomputed cost is the amount, which a scale that is rounded up to a double may undercut a little."""
    return amount * (1 - Fraction(1, 10**12)) <= exact <= amount


@every_currency
@pytest.mark.parametrize("name", MEASURED)
def test_noise_is_paid_for_by_sensitivity_and_scale(budget: Budget, name: str) -> None:
    call, l1, squared_l2, unit, denominator = MEASURED[name]
    charge = charge_of(call, budget)
    basis = basis_of(charge)
    scale = Fraction(basis.scale)
    pure = budget.currency is Currency.PURE
    assert (basis.bound, basis.sensitivity) == ((Bound.L1, l1) if pure else (Bound.SQUARED_L2, squared_l2))
    exact = {
        Currency.PURE: l1 / scale,
        Currency.ZCDP: squared_l2 / (2 * scale**2),
        Currency.GDP: squared_l2 / scale**2,
    }[budget.currency]
    assert nearly(exact, charge.amount)
    assert (basis.unit, basis.denominator, basis.draws) == (unit, denominator, 1)
    law = {"PURE": "discrete_laplace", "ZCDP": "discrete_gaussian", "GDP": "rounded_gaussian"}[budget.currency.name]
    assert (basis.verb, basis.law) == ("measure_errors" if name == "errors" else "measure", law)
    assert charge.scale == basis.scale / denominator


@every_currency
def test_a_selection_is_paid_for_by_the_sensitivity_of_its_score(budget: Budget) -> None:
    charge = charge_of(lambda private: private.select(MARGINALS, SCORE, SHARE), budget)
    basis = basis_of(charge)
    assert (basis.verb, basis.bound, basis.sensitivity) == ("select", Bound.SCORE, 256 * 256)
    width = 2 * basis.sensitivity / Fraction(basis.scale)
    if budget.currency is Currency.PURE:
        assert basis.law == "permute_and_flip"
        assert nearly(width, charge.amount)
    elif budget.currency is Currency.ZCDP:
        assert basis.law == "exponential_mechanism"
        assert nearly(width**2 / 8, charge.amount)
    else:
        assert float(gdp_of_bounded_range(width)) == pytest.approx(float(charge.amount), rel=1e-8)


@every_currency
def test_draws_are_paid_for_by_their_number_and_range(budget: Budget) -> None:
    charge = charge_of(lambda private: private.sample(COLUMNS, Fraction(1, 10), flat(5), 5, 6), budget)
    basis = basis_of(charge)
    assert (basis.verb, basis.bound, basis.draws, basis.scale) == ("sample", Bound.RANGE, 6, 0.0)
    assert Fraction(1, 50) <= basis.sensitivity <= Fraction(1, 50) + Fraction(1, 10**8)
    one = {
        Currency.PURE: basis.sensitivity,
        Currency.ZCDP: basis.sensitivity**2 / 8,
        Currency.GDP: gdp_of_bounded_range(basis.sensitivity),
    }[budget.currency]
    assert 0 <= charge.amount - 6 * one < Fraction(1, 2**79)
    assert charge.scale is None


@every_currency
def test_acceptance_bits_name_their_move_and_free_calls_move_nothing(budget: Budget) -> None:
    drawn = np.array([0, 9])
    charge = charge_of(lambda private: private.retain(COLUMNS, drawn, Fraction(1, 10), flat(5, -2.0), 5), budget)
    basis = basis_of(charge)
    assert (basis.verb, basis.bound, basis.draws) == ("retain", Bound.LOG_PROBABILITY, 2)
    assert Fraction(1, 50) <= basis.sensitivity <= Fraction(1, 50) + Fraction(1, 10**8)
    free = charge_of(lambda private: private.retain(COLUMNS, drawn, Fraction(0), flat(5, -2.0), 5), budget)
    assert (free.amount, basis_of(free).sensitivity) == (0, 0)


@every_currency
def test_a_replaced_unit_doubles_what_it_moves(budget: Budget) -> None:
    def call(private: PrivateStatistics) -> object:
        return private.measure(MARGINALS, SHARE)

    replaced = basis_of(charge_of(call, budget, neighbours=Neighbours.REPLACE_ONE_UNIT, units=2))
    assert replaced.sensitivity == 2 * basis_of(charge_of(call, budget)).sensitivity


def test_a_refused_call_leaves_no_basis() -> None:
    private = private_statistics(TABLE, Budget.pure(1))
    private.measure(MARGINALS, Fraction(1))
    with pytest.raises(BudgetExceededError):
        private.measure(MARGINALS, SHARE)
    assert len(private.charges) == 1
