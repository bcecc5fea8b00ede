"""What a release costs in the currency of its dataset."""

from __future__ import annotations

from fractions import Fraction

from dpcore.errors import ConfigError, NoBudgetError
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.gaussian_dp import gdp_of_pure
from jobs.figures import format_exact

_OPEN = (Currency.ZCDP, Currency.GDP)  # What a budget with delta > 0 may be counted in.


def charged_amount(budget: Budget, currency: Currency, dataset: str) -> Fraction:
    """What a release costs in the dataset's currency; exact, or rounded up.

    Formal guarantees:
        * epsilon-DP implies epsilon^2 / 2 zCDP: Bun and Steinke (2016), Proposition 1.4.
        * mu-GDP implies mu^2 / 2 zCDP: its order-alpha divergence is that of N(0, 1) and N(mu, 1), alpha mu^2 / 2
          (Dong, Roth and Su 2022, Corollary B.6; Bun and Steinke 2016, Definition 1.1).
        * epsilon-DP implies mu-GDP with mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)): ``gdp_of_pure``.

    Raises NoBudgetError for every other pair: no theorem bounds it.
    """
    match budget.currency, currency:
        case (given, wanted) if given is wanted:
            return budget.amount
        case (Currency.PURE, Currency.ZCDP):
            return budget.amount**2 / 2
        case (Currency.GDP, Currency.ZCDP):
            return budget.amount / 2
        case (Currency.PURE, Currency.GDP):
            return gdp_of_pure(budget.amount)
        case (Currency.ZCDP, Currency.GDP):
            raise NoBudgetError(
                f"dataset {dataset!r} is accounted in Gaussian DP, which bounds no release in zCDP; "
                "want privacy.accounting: gdp"
            )
        case _:
            raise NoBudgetError(
                f"dataset {dataset!r} has a budget of pure epsilon, which no release with delta > 0 can be charged to; "
                "want privacy.delta: 0"
            )


def settled_currency(first: Currency) -> Currency:
    """The currency that the first reservation gives to a dataset with delta > 0 that has none.

    A pure release says nothing; zCDP then leaves every kind of later release possible.
    """
    return Currency.ZCDP if first is Currency.PURE else first


def total_of(epsilon: float, delta: float, currency: Currency) -> Fraction:
    """What (epsilon, delta) is in a currency. Raises ConfigError where it is nothing."""
    try:
        return budget_of(epsilon, delta, currency).amount
    except ValueError as error:
        raise ConfigError(f"no budget: {error}") from error


def granted_amount(epsilon: float, delta: float, currency: Currency | None) -> Fraction | None:
    """What (epsilon, delta) is in a dataset's currency, None where that is open: delta > 0 without ``currency``.

    An open one is worked out all the same, in each that may be chosen, so that no first reservation can fail later.

    Raises ConfigError where it is nothing.
    """
    amounts = [_granted_in(epsilon, delta, one) for one in ((currency,) if currency else _OPEN)]
    return amounts[0] if currency else None


def _granted_in(epsilon: float, delta: float, currency: Currency) -> Fraction:
    try:
        return total_of(epsilon, delta, currency)
    except ConfigError as error:
        raise ConfigError(
            f"--epsilon {format_exact(epsilon)} with --delta {format_exact(delta)} cannot be counted in "
            f"{currency.value}, {error}"
        ) from error


def advice(budget: Budget, currency: Currency, promise: tuple[float, float] | None) -> str:
    """What a release with the same (epsilon, delta) would cost if it were accounted as its dataset is; may be empty."""
    if promise is None or (budget.currency, currency) != (Currency.GDP, Currency.ZCDP):
        return ""
    cost = float(total_of(*promise, Currency.ZCDP))
    return f" (with privacy.accounting: zcdp the same promise costs {currency.value}={cost:.6g})"
