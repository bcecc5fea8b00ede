"""Amounts of budget: the cost of a release in the currency of its dataset, and the amount of a grant."""

from __future__ import annotations

from fractions import Fraction

from dpcore.errors import ConfigError, NoBudgetError
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.gaussian_dp import gdp_of_pure
from jobs.figures import format_exact

_APPROXIMATE = (Currency.ZCDP, Currency.GDP)  # The currencies of a budget with delta > 0.


def replacement_factor(currency: Currency) -> int:
    """The factor on the amount of an add/remove release that is charged to a replace-one total.

    Proof. Let D' be D with unit u replaced by unit v, and let C be D without u, which is also D' without v. The release
    is add/remove private for the two pairs (D, C) and (C, D'), so the claim is group privacy for two steps:

    * epsilon-DP: P(M(D) in S) <= e^epsilon P(M(C) in S) <= e^(2 epsilon) P(M(D') in S), so epsilon doubles.
    * rho-zCDP: two steps give 4 rho (Bun and Steinke 2016, Proposition 1.9: k steps give k^2 rho).
    * mu-GDP: two steps give 2 mu (Dong, Roth and Su 2022, Theorem 2.14: k steps give k mu), so mu^2 grows fourfold.

    C has one unit less than D, which matters to no add/remove release: its guarantee holds for datasets of every size,
    and a number of units that its config declares is a constant of the mechanism.

    There is no factor for the reverse: a replace-one release may publish the number of units exactly.

    currency: Currency of the release.
    """
    return 2 if currency is Currency.PURE else 4


def charged_amount(budget: Budget, currency: Currency, dataset: str, *, replacing: bool = False) -> Fraction:
    """The cost of a release in the currency of its dataset, exact or rounded up.

    budget: Budget of the release, in its own currency.
    currency: Currency of the dataset.
    dataset: Name of the dataset, for error messages.
    replacing: Whether the release is for add/remove and the dataset for replace-one.

    Formal guarantees:
        * epsilon-DP implies epsilon^2 / 2 zCDP: Bun and Steinke (2016), Proposition 1.4.
        * mu-GDP implies mu^2 / 2 zCDP: its order-alpha divergence is that of N(0, 1) and N(mu, 1), alpha mu^2 / 2
          (Dong, Roth and Su 2022, Corollary B.6; Bun and Steinke 2016, Definition 1.1).
        * epsilon-DP implies mu-GDP with mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)): ``gdp_of_pure``.

    Raises: NoBudgetError for every other pair of currencies, because no theorem bounds such a cost.
    """
    if replacing:
        budget = Budget(budget.currency, replacement_factor(budget.currency) * budget.amount)
    match budget.currency, currency:
        case (release_currency, dataset_currency) if release_currency is dataset_currency:
            return budget.amount
        case (Currency.PURE, Currency.ZCDP):
            return budget.amount**2 / 2
        case (Currency.GDP, Currency.ZCDP):
            return budget.amount / 2
        case (Currency.PURE, Currency.GDP):
            return gdp_of_pure(budget.amount)
        case (Currency.ZCDP, Currency.GDP):
            raise NoBudgetError(
                f"dataset {dataset!r} is accounted in Gaussian DP, which cannot bound the cost of a release in zCDP; "
                "want privacy.accounting: gdp"
            )
        case _:
            raise NoBudgetError(
                f"dataset {dataset!r} has a pure budget (delta 0), to which a release with delta > 0 cannot be "
                "charged; want privacy.delta: 0"
            )


def settled_currency(first: Currency) -> Currency:
    """The currency that a dataset with delta > 0 takes from its first reservation.

    If the first release is pure, the currency is zCDP, which accepts every kind of later release.

    first: Currency of the first release.
    """
    return Currency.ZCDP if first is Currency.PURE else first


def total_of(epsilon: float, delta: float, currency: Currency) -> Fraction:
    """The amount of a guarantee (epsilon, delta) in a currency.

    Raises: ConfigError when there is no positive amount.
    """
    try:
        return budget_of(epsilon, delta, currency).amount
    except ValueError as error:
        raise ConfigError(f"there is no such budget: {error}") from error


def granted_amount(epsilon: float, delta: float, currency: Currency | None) -> Fraction | None:
    """The amount of a grant (epsilon, delta) in the currency of its dataset.

    As long as the currency is open, the amount is computed in both possible currencies, so that the first reservation
    cannot fail later.

    epsilon: Epsilon of the grant, positive.
    delta: Delta of the grant, in [0, 1).
    currency: Currency of the dataset; None if the first reservation will choose it.

    Returns: The amount; None as long as the currency is open.
    Raises: ConfigError when there is no positive amount.
    """
    currencies = (currency,) if currency else _APPROXIMATE
    amounts = [_granted_in(epsilon, delta, candidate) for candidate in currencies]
    return amounts[0] if currency else None


def _granted_in(epsilon: float, delta: float, currency: Currency) -> Fraction:
    try:
        return total_of(epsilon, delta, currency)
    except ConfigError as error:
        raise ConfigError(
            f"--epsilon {format_exact(epsilon)} with --delta {format_exact(delta)} cannot be expressed in "
            f"{currency.value}: {error}"
        ) from error


def advice(budget: Budget, currency: Currency, promise: tuple[float, float] | None, *, replacing: bool = False) -> str:
    """For an error message: what the same guarantee would cost if it were accounted in the currency of the dataset.

    budget: Budget of the release.
    currency: Currency of the dataset.
    promise: (epsilon, delta) of the release, if it is known.
    replacing: Whether the release is for add/remove and the dataset for replace-one.

    Returns: The advice in brackets; empty when there is none.
    """
    if promise is None or (budget.currency, currency) != (Currency.GDP, Currency.ZCDP):
        return ""
    factor = replacement_factor(Currency.ZCDP) if replacing else 1
    cost = float(factor * total_of(*promise, Currency.ZCDP))
    return f" (with privacy.accounting: zcdp, the same guarantee costs {currency.value}={cost:.6g})"
