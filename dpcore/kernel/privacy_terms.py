"""The public terms of a release: what each kernel call costs, known before any data is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from dpcore.kernel.budget import Budget, Currency, rounded_down, rounded_up
from dpcore.kernel.events import Event, Loss
from dpcore.kernel.gaussian_dp import bounded_range_of_gdp, gdp_of_bounded_range
from dpcore.kernel.scales import noise_of, noise_scale, selection_scale
from dpcore.kernel.scores import GRID, Candidates, Score
from dpcore.kernel.sensitivity import (
    PrivacyUnit,
    answer_sensitivity,
    l1_sensitivity,
    marginal_l1_sensitivity,
    squared_l2_sensitivity,
)
from dpcore.kernel.weighted_sampler import XI
from dpcore.measurement import Noise
from dpcore.queries import Marginals, Measurable

_SLACK: Final = 1e-9


@dataclass(frozen=True)
class PrivacyTerms:
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

    def measure_scale(self, queries: Measurable, share: Fraction) -> float:
        """Noise scale of measuring these queries for this share, in steps of their integer answers: counts for most."""
        l1, squared_l2 = l1_sensitivity(queries, self.unit), squared_l2_sensitivity(queries, self.unit)
        return noise_scale(self.budget.currency, self.amount(share), l1, squared_l2)

    def errors_scale(self, candidates: Marginals, share: Fraction) -> float:
        """Noise scale of ``measure_errors`` for this share, in counts; exact noise is drawn in steps of 1 / GRID.

        A unit that moves a table by d in L1 moves its distance from a fixed estimate by at most d, either way: d = b
        rows, 2 b where a unit is replaced. So it moves the m distances by at most m d in L1 and m d^2 in squared L2.
        """
        moved = GRID * marginal_l1_sensitivity(self.unit)
        l1, squared_l2 = len(candidates.cliques) * moved, len(candidates.cliques) * moved**2
        return noise_scale(self.budget.currency, self.amount(share), l1, squared_l2) / GRID

    def select_scale(self, candidates: Candidates, score: Score, share: Fraction) -> float:
        """Noise scale, in steps of the score's grid, of one selection for this share."""
        sensitivity = score.sensitivity(candidates, self.unit)
        return selection_scale(self.budget.currency, self.amount(share), sensitivity)

    def measured(self, share: Fraction, calls: int = 1) -> Event:
        """What is fixed in advance about ``calls`` measurements, each for this share."""
        amount = self.amount(share)
        loss, size = {
            Currency.PURE: (Loss.PURE, amount),
            Currency.ZCDP: (Loss.GAUSSIAN, 2 * amount),
            Currency.GDP: (Loss.GAUSSIAN, amount),
        }[self.budget.currency]
        return Event(loss, size, calls, calls * amount, calls)

    def selected(self, share: Fraction, calls: int = 1) -> Event:
        """What is fixed in advance about ``calls`` selections, each for this share.

        Permute-and-flip, the selection of pure DP, is epsilon-DP but of a larger bounded range than epsilon.
        """
        amount = self.amount(share)
        loss, size = {
            Currency.PURE: (Loss.PURE, amount),
            Currency.ZCDP: (Loss.BOUNDED_RANGE, Fraction(math.sqrt(8 * float(amount)) * (1 + _SLACK))),
            Currency.GDP: (Loss.BOUNDED_RANGE, bounded_range_of_gdp(amount)),
        }[self.budget.currency]
        return Event(loss, size, calls, calls * amount, calls)

    def drawn(self, slope: Fraction, total: int, size: int) -> Event:
        """What is fixed in advance about ``size`` draws of one ``sample``."""
        width = self.draw_range(slope, total)
        return Event(Loss.BOUNDED_RANGE, width, size, self.draws_amount(slope, total, size))

    def draw_range(self, slope: Fraction, total: int) -> Fraction:
        """Bounded range of one draw of ``sample`` (weights exp(slope * count / total + tilt)).

        A unit that is added adds 0 or r to the count of each query, a conjunction, a parity or a cell of a marginal,
        and what is left of r to that of its complement: clamping shortens such a move and keeps its direction. So
        between neighbours that add or remove a unit all log-weights move in one direction, by at most slope r / total,
        which is the range; where a unit is replaced they move in both, so twice that. Log-weights that are off by less
        than XI in each dataset add less than 4 XI. With slope 0 nothing depends on the data.

        Source: full DualQuery paper, proof of Theorem 4.2, for replace-one; design, section 4, for add/remove.
        """
        if slope == 0:
            return Fraction(0)
        directions = 2 if self.unit.replaced else 1
        return directions * abs(slope) * answer_sensitivity(self.unit) / total + 4 * XI

    def draws_amount(self, slope: Fraction, total: int, size: int) -> Fraction:
        """Cost of ``size`` independent draws of one range."""
        return rounded_up(size * bounded_range_cost(self.budget.currency, self.draw_range(slope, total)))

    def retain_amount(self, slope: Fraction, total: int, gaps: Mapping[Fraction, int]) -> Fraction:
        """Cost of the acceptance bits of ``retain``, gaps[g] of them with chances never above exp(-g); g > 2 XI.

        Between neighbours of either relation a count moves by at most 1 and a weight is off by at most 2 XI in each, so
        ln p moves by at most w = |slope| / total + 4 XI, and p <= exp(-h) with h = g - 2 XI. The loss at 1 is at most w
        in size. The loss at 0 is that of ln(1 - p), whose derivative in ln p is -1 / (1 / p - 1): it has the other sign
        and is at most w / (exp(h) - 1). So a bit is epsilon-DP for the larger of the two, and of bounded range their
        sum w / (1 - exp(-h)), which bounds its cost under zCDP and Gaussian DP. With slope 0 the bits are free.

        Source: DQRS (Vietri et al. 2020), Algorithm 4 and, for the pure cost, Lemma 9 with exp(g) - 1 for g.
        """
        if slope == 0:
            return Fraction(0)
        width = abs(slope) / total + 4 * XI
        return rounded_up(sum((bits * self._bit_cost(width, gap) for gap, bits in gaps.items()), Fraction(0)))

    def _bit_cost(self, width: Fraction, gap: Fraction) -> Fraction:
        """One bit; the factors of ``width`` are rounded up by more than the error of their floats.

        A gap above 700, where doubles end, is priced as 700.
        """
        at_zero = Fraction((1 + _SLACK) / math.expm1(min(700.0, float(gap - 2 * XI))))
        if self.budget.currency is Currency.PURE:
            return width * max(Fraction(1), at_zero)
        return bounded_range_cost(self.budget.currency, width * (1 + at_zero))


def bounded_range_cost(currency: Currency, width: Fraction) -> Fraction:
    """Cost of one mechanism of bounded range ``width``: itself under pure DP, width^2 / 8 under zCDP.

    Under Gaussian DP mu^2 for mu = 2 Phi^-1(1 / (1 + exp(-width / 2))), for small widths pi / 8 width^2.

    Source: Durfee and Rogers (2019); Cesar and Rogers (2021); for Gaussian DP the proof in ``gaussian_dp``.
    """
    match currency:
        case Currency.PURE:
            return width
        case Currency.ZCDP:
            return width**2 / 8
        case Currency.GDP:
            return gdp_of_bounded_range(width)
