"""Privacy amounts, and the filter that no charge passes once they are spent."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from dpcore.errors import BudgetExceededError

_GRID = 1 << 80


class Currency(StrEnum):
    """PURE: epsilon-DP, amounts are epsilon. ZCDP: rho-zCDP, amounts are rho. GDP: mu-Gaussian DP, amounts are mu^2."""

    PURE = "epsilon"
    ZCDP = "rho"
    GDP = "mu^2"


@dataclass(frozen=True)
class Budget:
    """An amount of privacy loss in one currency; amounts are exact."""

    currency: Currency
    amount: Fraction

    def __post_init__(self) -> None:
        if self.amount <= 0:
            raise ValueError(f"a budget of {self.currency}={self.amount}; want > 0")

    @classmethod
    def pure(cls, epsilon: Fraction | int | float) -> Budget:
        return cls(Currency.PURE, Fraction(epsilon))

    @classmethod
    def zcdp(cls, rho: Fraction | int | float) -> Budget:
        return cls(Currency.ZCDP, Fraction(rho))

    @classmethod
    def gdp(cls, mu_squared: Fraction | int | float) -> Budget:
        return cls(Currency.GDP, Fraction(mu_squared))


@dataclass(frozen=True)
class Charge:
    """What one kernel call cost, public.

    scale: Of the noise that it paid for, from public terms: as ``Measurement.scale`` for a measurement, in counts; in
        steps of the score's grid for a selection; None for a call without noise of one scale.
    """

    label: str
    amount: Fraction
    scale: float | None = None


@dataclass
class Filter:
    """A privacy filter: the sum of the charges never passes the budget.

    Formal guarantees:
        * Charges may be chosen adaptively from earlier outputs. Sums of epsilon (Rogers et al. 2016, Theorem 4.1 with
          basic composition), of rho (Feldman and Zrnic 2021, Theorem 4.3, applied at every order) and of mu^2 (Smith
          and Thakurta 2022: where the sum of mu_i^2 never passes mu^2 the whole is mu-GDP) are valid filters: the whole
          interaction is ``budget``-DP.
        * Proof for mu^2, by induction on the calls still allowed: the charge mu_1^2 is fixed before its answer; what
          follows any answer is sqrt(mu^2 - mu_1^2)-GDP by induction; both together are mu-GDP (Dong, Roth and Su 2022,
          Theorem 4 and Corollary 2). General trade-off curves have no such filter: only sums within one family do.
        * Currencies never mix: mu-GDP is mu^2/2-zCDP, but rho-zCDP is not sqrt(2 rho)-GDP; a selection of bounded range
          epsilon, epsilon^2/8-zCDP, needs up to pi/2 times that mu^2.
        * A refused charge changes nothing.
    """

    budget: Budget
    spent: Fraction = Fraction(0)
    charges: list[Charge] = field(default_factory=list)

    @property
    def remaining(self) -> Fraction:
        return self.budget.amount - self.spent

    def charge(self, label: str, amount: Fraction, scale: float | None = None) -> None:
        """Records the cost, or raises BudgetExceededError and records nothing."""
        if amount < 0:
            raise ValueError(f"{label}: amount {amount}; want >= 0")
        if amount > self.remaining:
            raise BudgetExceededError(label, amount, self.remaining, self.budget.currency.value)
        self.spent += amount
        self.charges.append(Charge(label, amount, scale))


def rounded_up(amount: Fraction) -> Fraction:
    """A cost rounded up to a multiple of 2^-80, so that long sums keep short denominators."""
    return -rounded_down(-amount)


def rounded_down(amount: Fraction) -> Fraction:
    """An allowance rounded down to a multiple of 2^-80, so that shares that sum to 1 fit the budget."""
    return Fraction((amount.numerator * _GRID) // amount.denominator, _GRID)
