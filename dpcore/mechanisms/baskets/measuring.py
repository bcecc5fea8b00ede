"""The measurements of ``basket_mixture``, each with its clip norm, in the order in which they are taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.estimation.baskets.size_law import SizeLaw, size_law, size_starts
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.mechanisms.baskets.basket_queries import cell_quantile, count_clip, largest_pair_part
from dpcore.mechanisms.baskets.constants import BasketMixtureConstants
from dpcore.mechanisms.clipping.clip_choice import choose_clip, significant
from dpcore.mechanisms.clipping.marginals import norm_of, unit_stddev
from dpcore.queries import ClippedSums, Conjunctions, SatisfactionHistogram, UnitCount
from dpcore.queries.itemsets import all_pairs, positive


@dataclass(frozen=True)
class Shares:
    """Shares of the budget for each measurement; that of a public number of units is 0."""

    units: Fraction
    sizes: Fraction
    counts: Fraction
    histogram: Fraction
    pairs: Fraction

    @classmethod
    def of(cls, terms: PrivacyTerms, constants: BasketMixtureConstants) -> Shares:
        """The shares; pairs get what the other measurements leave."""
        units = Fraction(0) if terms.unit.units is not None else Fraction(constants.units_share)
        sizes, counts = Fraction(constants.sizes_share), Fraction(constants.counts_share)
        histogram = Fraction(constants.pair_histogram_share)
        return cls(units, sizes, counts, histogram, 1 - units - sizes - counts - histogram)

    @property
    def all(self) -> tuple[Fraction, ...]:
        """The shares of all calls, in order."""
        calls = (self.units, self.sizes, self.counts, self.histogram, self.pairs)
        return tuple(share for share in calls if share)


@dataclass
class BasketMeasuring:
    """Takes the measurements of one release and keeps them.

    taken: What has been measured, in order.
    """

    private: PrivateStatistics
    view: BinaryView
    constants: BasketMixtureConstants
    shares: Shares
    taken: list[Measurement] = field(default_factory=list)

    def units(self) -> float:
        """The number of units, >= 1: the public one, or a measured one."""
        public = self.private.terms.unit.units
        if public is not None:
            return float(public)
        return max(1.0, float(self._keep(self.private.measure(UnitCount(), self.shares.units)).values[0]))

    def sizes(self) -> SizeLaw:
        """The law of basket sizes, from a histogram."""
        largest = min(self.view.columns, self.private.terms.unit.contribution.bound)
        starts = size_starts(largest)
        request = SatisfactionHistogram(Conjunctions.single_columns(self.view), None, starts)
        cells = self._keep(self.private.measure(request, self.shares.sizes))
        return size_law(cells.values, starts, largest, cells.stddev)

    def counts(self, units: float, law: SizeLaw) -> Measurement:
        """Item counts, clipped to a norm with a small predicted error that most units keep."""
        terms, constants = self.private.terms, self.constants
        norm, stddev = norm_of(terms), unit_stddev(terms, self.shares.counts)
        clip = count_clip(law, units, stddev, constants.noise_factor, constants.kept_units, norm)
        request = ClippedSums.of(Conjunctions.single_columns(self.view), [clip], norm=norm)
        return self._keep(self.private.measure(request, self.shares.counts))

    def pairs(self, popular: NDArray[np.int64], counts: NDArray[np.float64]) -> Measurement:
        """Counts of all pairs of the popular items, clipped by a histogram of how many of them baskets have.

        popular: int64 [M], ascending. counts: float64 [items], noisy item counts.
        """
        queries = positive(self.view, all_pairs(popular.astype(np.int32)))
        histogram = self._keep(self.private.measure(SatisfactionHistogram(queries), self.shares.histogram))
        request = ClippedSums.of(
            queries, [self._pair_clip(histogram, counts[popular])], norm=norm_of(self.private.terms)
        )
        return self._keep(self.private.measure(request, self.shares.pairs))

    def _pair_clip(self, histogram: Measurement, counts: NDArray[np.float64]) -> float:
        """The norm with the smallest predicted error of a pair, but not above what most baskets need.

        histogram: Noisy numbers of baskets by their pairs. counts: float64 [M], noisy counts of the popular items.
        """
        terms, constants = self.private.terms, self.constants
        pairs, norm = counts.size * (counts.size - 1) // 2, norm_of(terms)
        cells, part = significant(histogram.values, histogram.stddev), largest_pair_part(counts)
        stddev = unit_stddev(terms, self.shares.pairs)
        choice = choose_clip(cells, pairs, stddev, constants.noise_factor, part, norm, completed=True)
        return min(choice.clip, float(cell_quantile(cells, constants.kept_pair_units, pairs) ** (1 / norm)))

    def _keep(self, measured: Measurement) -> Measurement:
        self.taken.append(measured)
        return measured
