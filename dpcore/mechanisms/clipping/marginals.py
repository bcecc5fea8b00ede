"""One-way marginals of baskets, clipped so that their noise does not depend on the largest basket."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.kernel.budget import Currency
from dpcore.kernel.events import Event
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, noise_stddev
from dpcore.mechanisms.api import Step
from dpcore.mechanisms.clipping.clip_choice import choose_clip, largest_clip, loss_bound, significant
from dpcore.queries import ClippedSums, Conjunctions, SatisfactionHistogram
from dpcore.queries.clipped import WEIGHT_BITS
from dpcore.uncertainty import half_width

HISTOGRAM_PART = Fraction(1, 4)  # Part of the share that measures the histogram of basket sizes.


@dataclass(frozen=True, eq=False)
class OneWay:
    """Noisy one-way marginals of some columns.

    columns: int32 [columns], ascending.
    values: float64 [columns], in counts; they may be negative. Clipped values are usually slightly too small.
    stddev: Standard deviation of the noise in each value, in counts.
    units: The number of units, public or noisy, at least 1.
    measurements: All measurements behind the values: the histogram of basket sizes, if there is one, and the marginals.
    """

    columns: NDArray[np.int32]
    values: NDArray[np.float64]
    stddev: float
    units: float
    measurements: tuple[Measurement, ...]

    def upper(self, confidence: float) -> NDArray[np.float64]:
        """Upper bounds on the exact counts, float64 [columns]; each alone holds at this confidence or more."""
        *histogram, measured = self.measurements
        tail = (1 - confidence) / 2
        steps = measured.denominator
        noise = half_width(measured.noise, measured.scale * steps, 1 - 2 * tail) / steps
        if not histogram or not isinstance(measured.queries, ClippedSums):
            return self.values + noise
        return self.values + noise + loss_bound(histogram[0], histogram[0].values, measured.queries, 1 - tail)


def clipped_marginals(
    private: PrivateStatistics, view: BinaryView, share: Fraction, columns: NDArray[np.int32] | None = None
) -> OneWay:
    """Measures how many units have a 1 in each column.

    private: The kernel.
    view: The columns of the table or the baskets.
    share: Share of the budget for all measurements together.
    columns: The columns to measure, int32 [columns]; all columns by default.

    For baskets, a quarter of the share measures a histogram of basket sizes in powers of two. From it follows the norm
    C to which each basket is clipped: it balances the largest noise over all columns against the loss of the most
    common item. The noise is then proportional to C, and not to the largest basket that the declared contribution
    allows. For tables nothing is clipped, because a row has exactly one 1 in each one-hot group.
    """
    terms = private.terms
    literals = one_way_queries(view, columns)
    indices = literals.columns[:, 0]
    if view.groups:
        measured = private.measure(literals, share)  # MEASURE
        units = terms.unit.units or _row_count(measured.values, indices, view)
        return OneWay(indices, measured.values, measured.stddev, max(1.0, float(units)), (measured,))
    histogram = private.measure(SatisfactionHistogram(literals), HISTOGRAM_PART * share)  # MEASURE
    units = max(1.0, float(terms.unit.units or histogram.values.sum()))
    sums_share = (1 - HISTOGRAM_PART) * share
    noise_factor = math.sqrt(2 * math.log(max(2, literals.size)))  # About the largest of that many normal variables.
    cells = significant(histogram.values, histogram.stddev)
    choice = choose_clip(cells, literals.size, unit_stddev(terms, sums_share), noise_factor, 1.0, norm_of(terms))
    sums = ClippedSums.of(literals, [choice.clip], norm=norm_of(terms))
    measured = private.measure(sums, sums_share)  # MEASURE
    return OneWay(indices, measured.values, measured.stddev, units, (histogram, measured))


def plan_clipped_marginals(
    terms: PrivacyTerms, view: BinaryView, share: Fraction, columns: NDArray[np.int32] | None = None
) -> tuple[list[Step], list[Event]]:
    """The steps and kernel calls of ``clipped_marginals``, from public facts alone."""
    if view.groups:
        stddev = noise_stddev(terms.noise, terms.measure_scale(one_way_queries(view, columns), share))
        return [Step("measure one-way marginals", float(share), 1, stddev)], [terms.measured(share)]
    parts = HISTOGRAM_PART * share, (1 - HISTOGRAM_PART) * share
    check_clipped_noise(terms, parts[1], view.columns if columns is None else columns.size)
    steps = [
        Step("measure basket sizes", float(parts[0]), 1, unit_stddev(terms, parts[0])),
        Step("measure clipped one-way marginals", float(parts[1]), 1),
    ]
    return steps, [terms.measured(part) for part in parts]


def one_way_queries(view: BinaryView, columns: NDArray[np.int32] | None) -> Conjunctions:
    """The positive literal of each distinct column, ascending; of all columns if ``columns`` is None."""
    indices = np.arange(view.columns, dtype=np.int32) if columns is None else np.unique(columns)
    return Conjunctions(view, indices[:, None], np.zeros((indices.size, 1), dtype=np.bool_))


def unit_scale(terms: PrivacyTerms, share: Fraction) -> float:
    """Noise scale, in counts, of answers whose sensitivity in the norm of the currency is 1."""
    literal = Conjunctions(BinaryView(1), np.zeros((1, 1), dtype=np.int32), np.zeros((1, 1), dtype=np.bool_))
    return terms.measure_scale(SatisfactionHistogram(literal), share)


def check_clipped_noise(terms: PrivacyTerms, share: Fraction, queries: int) -> None:
    """Checks that the noise of clipped sums can be drawn for every clip that a histogram may choose.

    terms: The terms of the release.
    share: Share of the budget that measures the sums.
    queries: Number of queries that are clipped together.

    Raises: ScaleError when the noise of the largest clip is too large.
    """
    terms.check_scale(unit_scale(terms, share) * largest_clip(queries, norm_of(terms)) * 2.0**WEIGHT_BITS)


def unit_stddev(terms: PrivacyTerms, share: Fraction) -> float:
    """Standard deviation of the noise of ``unit_scale``, in counts."""
    return noise_stddev(terms.noise, unit_scale(terms, share))


def norm_of(terms: PrivacyTerms) -> int:
    """The norm of the sensitivity: 1 for Laplace noise (pure DP), 2 for Gaussian noise."""
    return 1 if terms.budget.currency is Currency.PURE else 2


def _row_count(values: NDArray[np.float64], columns: NDArray[np.int32], view: BinaryView) -> float:
    """A noisy number of rows: the largest sum of counts over the columns of one attribute.

    The counts of all columns of an attribute sum to the number of rows; some of them may not have been measured.
    """
    groups = view.group_of_column()[columns]
    return float(np.bincount(groups, weights=values).max())
