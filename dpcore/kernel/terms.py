"""The public terms of a release: what each kernel call costs, known before any data is read."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpcore.kernel.budget import Budget, Currency, rounded_down, rounded_up
from dpcore.kernel.noise import noise_of, noise_scale, selection_scale
from dpcore.kernel.scores import L1Error
from dpcore.kernel.sensitivity import PrivacyUnit, answer_sensitivity, l1_sensitivity, squared_l2_sensitivity
from dpcore.kernel.weighted_sampler import XI
from dpcore.measurement import Noise
from dpcore.queries import Queries, UnitCount


@dataclass(frozen=True)
class Terms:
    """Privacy unit and budget of one release. Shares are fractions of the whole budget."""

    unit: PrivacyUnit
    budget: Budget

    @property
    def noise(self) -> Noise:
        """The law of additive noise in this currency."""
        return noise_of(self.budget.currency)

    def amount(self, share: Fraction) -> Fraction:
        """What a call for this share is charged, and draws its noise for."""
        if not 0 < share <= 1:
            raise ValueError(f"share {share} of the budget; want 0 < share <= 1")
        amount = rounded_down(share * self.budget.amount)
        if amount == 0:
            raise ValueError(f"share {float(share):.3g} of the budget is below 2^-80; want a larger share or budget")
        return amount

    def measure_scale(self, queries: Queries | UnitCount, share: Fraction) -> float:
        """Noise scale, in counts, of measuring these queries for this share."""
        l1, squared_l2 = l1_sensitivity(queries, self.unit), squared_l2_sensitivity(queries, self.unit)
        return noise_scale(self.budget.currency, self.amount(share), l1, squared_l2)

    def select_scale(self, score: L1Error, share: Fraction) -> float:
        """Noise scale, in steps of the score's grid, of one selection for this share."""
        return selection_scale(self.budget.currency, self.amount(share), score.sensitivity(self.unit))

    def draw_range(self, slope: Fraction, total: int) -> Fraction:
        """Bounded range of one draw of ``sample`` (weights exp(slope * count / total + offset)).

        A count moves every log-weight by slope r / total: between neighbours that add or remove a unit all in one
        direction or not at all, so the range is slope r / total; where a unit is replaced in both, so twice that.
        Weights of relative error XI add 4 XI. With slope 0 nothing depends on the data.

        Source: full DualQuery paper, proof of Theorem 4.2, for replace-one; design, section 4, for add/remove.
        """
        if slope == 0:
            return Fraction(0)
        directions = 2 if self.unit.replaced else 1
        return directions * abs(slope) * answer_sensitivity(self.unit) / total + 4 * XI

    def draws_amount(self, slope: Fraction, total: int, size: int) -> Fraction:
        """Cost of ``size`` draws: their ranges add up under pure DP; each costs range^2 / 8 under zCDP."""
        width = self.draw_range(slope, total)
        one = width if self.budget.currency is Currency.PURE else width**2 / 8
        return rounded_up(size * one)
