"""The cost and the noise scale of each kernel call, computed from public facts alone. TRUSTED."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from dpcore.kernel.budget import Bound, Budget, CostBasis, Currency, rounded_down, rounded_up
from dpcore.kernel.events import Event, Loss
from dpcore.kernel.gaussian_dp import bounded_range_of_gdp, gdp_of_bounded_range
from dpcore.kernel.noise import representable_scale
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
from dpcore.queries import ClippedSums, Marginals, Measurable, Products, SymmetricQueries

_SLACK: Final = 1e-9  # Relative amount by which results of floating-point arithmetic are moved to the safe side.


@dataclass(frozen=True)
class PrivacyTerms:
    """The public terms of one release: its privacy unit and its budget.

    unit: The privacy unit.
    budget: The budget of the whole release. A share is a fraction of it.
    """

    unit: PrivacyUnit
    budget: Budget

    @property
    def noise(self) -> Noise:
        """The law of additive noise that belongs to the currency of the budget."""
        return noise_of(self.budget.currency)

    def amount(self, share: Fraction) -> Fraction:
        """The amount that a call for this share is charged, and for which its noise is scaled.

        Raises ValueError for a share outside (0, 1] or an amount below 2^-80.
        """
        if not 0 < share <= 1:
            raise ValueError(f"share {share} of the budget; want 0 < share <= 1")
        amount = rounded_down(share * self.budget.amount)
        if amount == 0:
            raise ValueError(f"share {float(share):.3g} of the budget is below 2^-80; want a larger share or budget")
        return amount

    def measure_scale(self, queries: Measurable, share: Fraction) -> float:
        """Noise scale of ``measure`` for this share, in units of the integer answers (counts for most queries).

        Raises the errors of ``sensitivity.l1_sensitivity``, and ScaleError for a scale above 2^40.
        """
        return self.measure_basis(queries, share).scale

    def check_scale(self, scale: float) -> None:
        """Raises ScaleError when noise of this scale, in units of the integer answers, cannot be drawn: above 2^40."""
        representable_scale(self.noise, scale)

    def measure_basis(self, queries: Measurable, share: Fraction) -> CostBasis:
        """What the charge of ``measure`` follows from. Raises the errors of ``measure_scale``."""
        weighted = isinstance(queries, Products | ClippedSums | SymmetricQueries)
        denominator = queries.denominator if isinstance(queries, Products | ClippedSums) else 1
        l1, squared_l2 = l1_sensitivity(queries, self.unit), squared_l2_sensitivity(queries, self.unit)
        unit = "integer answers" if weighted else "counts"
        return self._noise_basis("measure", share, (l1, squared_l2), unit, denominator)

    def errors_scale(self, candidates: Marginals, share: Fraction) -> float:
        """Noise scale of ``measure_errors`` for this share, in counts.

        Sensitivity: a unit moves each table by at most d in L1, where d = b rows, or 2 b when a unit is replaced. By
        the triangle inequality the distance of the table to a fixed estimate moves by at most d. The m distances
        therefore move by at most m d in L1 and by at most m d^2 in squared L2. Noise is drawn in steps of 1 / GRID
        counts.
        """
        return self.errors_basis(candidates, share).scale / GRID

    def errors_basis(self, candidates: Marginals, share: Fraction) -> CostBasis:
        """What the charge of ``measure_errors`` follows from; the proof is in ``errors_scale``."""
        per_distance = GRID * marginal_l1_sensitivity(self.unit)
        l1, squared_l2 = len(candidates.cliques) * per_distance, len(candidates.cliques) * per_distance**2
        return self._noise_basis("measure_errors", share, (l1, squared_l2), f"steps of 1/{GRID} counts", GRID)

    def _noise_basis(
        self, verb: str, share: Fraction, sensitivities: tuple[int, int], unit: str, denominator: int
    ) -> CostBasis:
        """The basis of additive noise, from the L1 and the squared L2 sensitivity of the integer answers."""
        currency = self.budget.currency
        scale = noise_scale(currency, self.amount(share), *sensitivities)
        if currency is Currency.PURE:
            bound, sensitivity = Bound.L1, sensitivities[0]
        else:
            bound, sensitivity = Bound.SQUARED_L2, sensitivities[1]
        return CostBasis(verb, self.noise.value, bound, Fraction(sensitivity), unit, scale, denominator)

    def select_scale(self, candidates: Candidates, score: Score, share: Fraction) -> float:
        """Noise scale of one ``select`` for this share, in steps of the score."""
        return self.select_basis(candidates, score, share).scale

    def select_basis(self, candidates: Candidates, score: Score, share: Fraction) -> CostBasis:
        """What the charge of ``select`` follows from."""
        sensitivity = score.sensitivity(candidates, self.unit)
        scale = selection_scale(self.budget.currency, self.amount(share), sensitivity)
        law = "permute_and_flip" if self.budget.currency is Currency.PURE else "exponential_mechanism"
        return CostBasis("select", law, Bound.SCORE, Fraction(sensitivity), "steps of the score", scale)

    def measured(self, share: Fraction, calls: int = 1) -> Event:
        """The event of ``calls`` measurements, each for this share."""
        amount = self.amount(share)
        loss, size = {
            Currency.PURE: (Loss.PURE, amount),
            Currency.ZCDP: (Loss.GAUSSIAN, 2 * amount),
            Currency.GDP: (Loss.GAUSSIAN, amount),
        }[self.budget.currency]
        return Event(loss, size, calls, calls * amount, calls)

    def selected(self, share: Fraction, calls: int = 1) -> Event:
        """The event of ``calls`` selections, each for this share.

        Under pure DP a selection counts as an epsilon-DP mechanism, because the bounded range of permute-and-flip is
        larger than epsilon.
        """
        amount = self.amount(share)
        loss, size = {
            Currency.PURE: (Loss.PURE, amount),
            Currency.ZCDP: (Loss.BOUNDED_RANGE, Fraction(math.sqrt(8 * float(amount)) * (1 + _SLACK))),
            Currency.GDP: (Loss.BOUNDED_RANGE, bounded_range_of_gdp(amount)),
        }[self.budget.currency]
        return Event(loss, size, calls, calls * amount, calls)

    def drawn(self, slope: Fraction, total: int, size: int) -> Event:
        """The event of the ``size`` draws of one ``sample``."""
        width = self.draw_range(slope, total)
        return Event(Loss.BOUNDED_RANGE, width, size, self.draws_amount(slope, total, size))

    def draw_range(self, slope: Fraction, total: int) -> Fraction:
        """Bounded range of one draw of ``sample``, whose weights are exp(slope * count / total + public log-weight).

        Proof. A unit that is added raises the count of each query (a conjunction, a parity or a cell of a marginal) by
        0 to r, and the count of its complement by the rest of r. Clamping shortens a move and keeps its direction.
        Between neighbours that add or remove a unit, all log-weights therefore move in one direction, by at most
        |slope| r / total. This is the range. When a unit is replaced they may move in both directions, which doubles
        the range. The computed log-weights have an error below XI in each of the two datasets, which adds less than 4
        XI. With slope 0 the weights do not depend on the data.

        Source: full DualQuery paper (2022), proof of Theorem 4.2, for replace-one. The argument for add/remove, in
        which all log-weights move in one direction, is ours.
        """
        if slope == 0:
            return Fraction(0)
        directions = 2 if self.unit.replaced else 1
        return directions * abs(slope) * answer_sensitivity(self.unit) / total + 4 * XI

    def draws_amount(self, slope: Fraction, total: int, size: int) -> Fraction:
        """Cost of the ``size`` independent draws of one ``sample``, rounded up."""
        return rounded_up(size * bounded_range_cost(self.budget.currency, self.draw_range(slope, total)))

    def sample_basis(self, slope: Fraction, total: int, size: int) -> CostBasis:
        """What the charge of ``sample`` follows from."""
        width = self.draw_range(slope, total)
        return CostBasis("sample", "exponential_mechanism", Bound.RANGE, width, "nats", draws=size)

    def retain_amount(self, slope: Fraction, total: int, gaps: Mapping[Fraction, int]) -> Fraction:
        """Cost of the acceptance bits of one ``retain``, rounded up.

        gaps: For each gap g > 2 XI, the number of bits whose probability never exceeds exp(-g).

        Proof. Let p be the computed probability of a bit. Between neighbours of either relation a count moves by at
        most 1, and ln p is off by at most 2 XI in each dataset. Therefore ln p moves by at most w = |slope| / total + 4
        XI, and p <= exp(-h) with h = g - 2 XI. The privacy loss of the outcome 1 is at most w in size. The loss of the
        outcome 0 is the change of ln(1 - p). Its derivative with respect to ln p is -1 / (1 / p - 1), so the loss has
        the opposite sign and is at most w / (exp(h) - 1) in size. A bit is therefore epsilon-DP for the larger of the
        two, and its bounded range is at most their sum, w / (1 - exp(-h)), which determines its cost under zCDP and
        Gaussian DP. With slope 0 the bits do not depend on the data and are free.

        Source: Vietri et al. (2020), Algorithm 4 and, for the pure cost, Lemma 9 with exp(g) - 1 in place of g.
        """
        width = self.bit_move(slope, total)
        return rounded_up(sum((bits * self._bit_cost(width, gap) for gap, bits in gaps.items()), Fraction(0)))

    def bit_move(self, slope: Fraction, total: int) -> Fraction:
        """w of the proof in ``retain_amount``: how far the log-probability of one bit moves between neighbours."""
        if slope == 0:
            return Fraction(0)
        return abs(slope) / total + 4 * XI

    def retain_basis(self, slope: Fraction, total: int, gaps: Mapping[Fraction, int]) -> CostBasis:
        """What the charge of ``retain`` follows from. gaps: Those of ``retain_amount``; h of its proof is listed."""
        certain = tuple((gap - 2 * XI, gaps[gap]) for gap in sorted(gaps))
        move, bits = self.bit_move(slope, total), sum(gaps.values())
        return CostBasis("retain", "bernoulli", Bound.LOG_PROBABILITY, move, "nats", draws=bits, gaps=certain)

    def _bit_cost(self, width: Fraction, gap: Fraction) -> Fraction:
        """Cost of one bit whose log-probability moves by at most ``width``.

        Floating-point factors of ``width`` are raised by more than their error. A gap above 700 is priced as 700,
        because exp of a larger number overflows a double.
        """
        at_zero = Fraction((1 + _SLACK) / math.expm1(min(700.0, float(gap - 2 * XI))))
        if self.budget.currency is Currency.PURE:
            return width * max(Fraction(1), at_zero)
        return bounded_range_cost(self.budget.currency, width * (1 + at_zero))


def bounded_range_cost(currency: Currency, width: Fraction) -> Fraction:
    """Cost of one mechanism of bounded range ``width``.

    The cost is ``width`` under pure DP and width^2 / 8 under zCDP. Under Gaussian DP it is mu^2 with
    mu = 2 Phi^-1(1 / (1 + exp(-width / 2))), which is about pi / 8 width^2 for a small width.

    Source: Durfee and Rogers (2019) for pure DP; Cesar and Rogers (2021) for zCDP; the proof in ``gaussian_dp`` for
    Gaussian DP.
    """
    match currency:
        case Currency.PURE:
            return width
        case Currency.ZCDP:
            return width**2 / 8
        case Currency.GDP:
            return gdp_of_bounded_range(width)
