"""Privacy amounts, and the filter that keeps the sum of all charges within a budget. TRUSTED."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from dpcore.errors import BudgetExceededError

_GRID = 1 << 80  # Amounts are rounded to multiples of 1 / _GRID.


class Currency(StrEnum):
    """The definition of privacy in which a release is accounted.

    PURE: epsilon-DP; amounts are epsilon.
    ZCDP: rho-zero-concentrated DP; amounts are rho.
    GDP: mu-Gaussian DP; amounts are mu^2.
    """

    PURE = "epsilon"
    ZCDP = "rho"
    GDP = "mu^2"


@dataclass(frozen=True)
class Budget:
    """An exact, positive amount of privacy loss in one currency.

    Raises ValueError for an amount that is not positive.
    """

    currency: Currency
    amount: Fraction

    def __post_init__(self) -> None:
        if self.amount <= 0:
            raise ValueError(f"a budget of {self.currency}={self.amount}; want > 0")

    @classmethod
    def pure(cls, epsilon: Fraction | int | float) -> Budget:
        """A budget of epsilon-DP."""
        return cls(Currency.PURE, Fraction(epsilon))

    @classmethod
    def zcdp(cls, rho: Fraction | int | float) -> Budget:
        """A budget of rho-zCDP."""
        return cls(Currency.ZCDP, Fraction(rho))

    @classmethod
    def gdp(cls, mu_squared: Fraction | int | float) -> Budget:
        """A budget of mu-Gaussian DP, given as mu^2."""
        return cls(Currency.GDP, Fraction(mu_squared))


class Bound(StrEnum):
    """What a sensitivity bounds, between neighbours.

    L1: L1 distance of the integer answers.
    SQUARED_L2: Squared L2 distance of the integer answers.
    SCORE: Move of any score, in steps of the score.
    RANGE: Bounded range of one draw.
    LOG_PROBABILITY: Move of the log-probability of one acceptance bit.
    """

    L1 = "L1"
    SQUARED_L2 = "squared L2"
    SCORE = "largest move of a score"
    RANGE = "bounded range of one draw"
    LOG_PROBABILITY = "largest move of a log-probability"


@dataclass(frozen=True)
class CostBasis:
    """The public facts from which the amount of a charge follows.

    verb: The verb of the kernel.
    law: Law of the noise, or name of the random mechanism.
    bound: What the sensitivity bounds.
    sensitivity: The sensitivity, exact.
    unit: Unit of the sensitivity and the scale.
    scale: Scale of the noise in that unit; 0 for draws, which add no noise.
    denominator: Number of these units per answer unit, by which ``scale`` is divided for ``Measurement.scale``.
    draws: Number of independent draws, each of this sensitivity; 1 for noise and selections.
    gaps: For the bits of ``retain``, ascending gaps with the number of bits that accept with probability at most
        exp(-gap) whatever the data; empty for other verbs.
    """

    verb: str
    law: str
    bound: Bound
    sensitivity: Fraction
    unit: str
    scale: float = 0.0
    denominator: int = 1
    draws: int = 1
    gaps: tuple[tuple[Fraction, int], ...] = ()


@dataclass(frozen=True)
class Charge:
    """The public record of what one kernel call cost.

    label: Description of the call.
    amount: The cost, in the currency of the budget.
    basis: What the amount follows from; None for a charge that was made outside the verbs.
    """

    label: str
    amount: Fraction
    basis: CostBasis | None = None

    @property
    def scale(self) -> float | None:
        """Scale of the noise: that of ``Measurement`` or ``NoisyErrors``, or steps of the score; None without noise."""
        return self.basis.scale / self.basis.denominator if self.basis is not None and self.basis.scale else None


@dataclass
class Filter:
    """A privacy filter: the sum of the charges never exceeds the budget.

    budget: The privacy guarantee of the whole interaction.
    spent: The sum of all charges.
    charges: All charges in their order.

    Formal guarantees:
        * Later calls and their charges may be chosen adaptively from earlier outputs. While the sum of the charges
          stays within the budget, the whole interaction has the privacy guarantee of the budget. This holds for sums of
          epsilon (Rogers, Roth, Ullman and Vadhan 2016, Theorem 4.1 with basic composition), for sums of rho (Feldman
          and Zrnic 2021, Theorem 4.3, applied at every order), and for sums of mu^2 (Smith and Thakurta 2022).
        * Proof for mu^2, by induction on the number of calls still allowed. The charge mu_1^2 is fixed before its
          answer is drawn. After any answer, the remaining interaction is sqrt(mu^2 - mu_1^2)-GDP by the induction
          hypothesis. Both together are mu-GDP (Dong, Roth and Su 2022, Theorem 4 and Corollary 2). General trade-off
          curves have no such filter; the argument works only within one family of curves.
        * All charges are in the currency of the budget. An amount of another currency is not equivalent: mu-GDP implies
          mu^2/2-zCDP, but rho-zCDP implies no mu-GDP. A selection of bounded range epsilon costs epsilon^2/8 in zCDP,
          and in Gaussian DP a mu^2 of up to pi/2 times what the equivalence rho = mu^2/2 would suggest.
        * A refused charge changes nothing.
    """

    budget: Budget
    spent: Fraction = Fraction(0)
    charges: list[Charge] = field(default_factory=list)

    @property
    def remaining(self) -> Fraction:
        """The part of the budget that has not been charged."""
        return self.budget.amount - self.spent

    def charge(self, label: str, amount: Fraction, basis: CostBasis | None = None) -> None:
        """Adds a charge.

        Raises BudgetExceededError, and records nothing, when the amount exceeds what remains. Raises ValueError for a
        negative amount.
        """
        if amount < 0:
            raise ValueError(f"{label}: amount {amount}; want >= 0")
        if amount > self.remaining:
            raise BudgetExceededError(label, amount, self.remaining, self.budget.currency.value)
        self.spent += amount
        self.charges.append(Charge(label, amount, basis))


def rounded_up(amount: Fraction) -> Fraction:
    """Rounds a cost up to a multiple of 2^-80, so that long sums keep short denominators."""
    return -rounded_down(-amount)


def rounded_down(amount: Fraction) -> Fraction:
    """Rounds an allowance down to a multiple of 2^-80, so that shares with sum 1 always fit the budget."""
    return Fraction((amount.numerator * _GRID) // amount.denominator, _GRID)
