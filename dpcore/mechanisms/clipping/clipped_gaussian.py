"""Clipped answers: conjunctions over sparse data with noise for the usual unit, not for the heaviest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.estimation.clipping.column_factors import Predicted, cross_predicted
from dpcore.estimation.clipping.expected_loss import expected_loss
from dpcore.estimation.clipping.shrinkage import shrunk
from dpcore.kernel.events import Event
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import answer_sensitivity
from dpcore.measurement import Measurement, mean_absolute_noise
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.clipping.clip_choice import (
    Choice,
    choose_clip,
    loss_bound,
    mean_satisfied,
    points_inside,
    significant,
)
from dpcore.mechanisms.clipping.marginals import (
    OneWay,
    clipped_marginals,
    norm_of,
    plan_clipped_marginals,
    unit_scale,
    unit_stddev,
)
from dpcore.queries import ClippedSums, Conjunctions, SatisfactionHistogram
from dpcore.uncertainty import Answers, half_width
from dpcore.workload import Workload

LARGEST_ANSWERS = 20_000_000
# Whether a query is measured depends on the first two measurements: with 0.96 for the noise of the third and 0.995 for
# each bound that follows from those two, all three hold with 0.95.
_NOISE_CONFIDENCE = 0.96
_BOUND_CONFIDENCE = 0.995
_HEADS = (1.0, 0.3, 0.1, 0.03, 0.01)  # Parts of the queries, the most popular ones, that may be measured alone.
_FINEST_HEADS = 0.0005  # Of the units: the noise of a cell above which only all queries are counted.
_SPREAD = 4.0  # Largest answer of a slice of queries, in its mean: 3.5 to 8 on four datasets.
_SHRUNK_NOISE = 3.0  # Largest error after shrinkage, in standard deviations: 2.5 to 3.5 on five datasets.
_CERTAIN = 4.0  # Deviations below which a cell adds nothing to answers: an empty one that did would be in all of them.
_EXTREME = 4.5  # The same without shrinkage: of about 100,000 normal variables.


@final
@dataclass(frozen=True)
class ClippedGaussian:
    """Scales each unit's 0/1 answers to a norm of at most C, and adds noise to their sum in proportion to C.

    In sparse data nearly every unit satisfies few queries; only the heaviest are scaled down, which makes answers a
    little too small. C, and which queries are measured, follow from a noisy histogram: post-processing. Under zCDP and
    Gaussian DP the norm is the Euclidean one, under pure DP the sum (with Laplace noise).

    1. MEASURE basket sizes and clipped one-way marginals (``marginals_share``).
    2. MEASURE how many queries units satisfy, for all queries and for those of the most common columns
       (``histogram_share``).
    3. CHOOSE the queries that are worth measuring and C: least predicted largest error.
    4. MEASURE the clipped sums with the rest.
    5. ESTIMATE: predict each answer from the others (``estimation.clipping.column_factors``) and draw it towards the
       prediction by at most its noise interval (``shrinkage``). Queries that were not measured get the prediction. What
       clipping is expected to have taken is added (``estimation.clipping.expected_loss``).

    Formal guarantees of ``answers`` for each query alone, over all noise, whatever the data hold:
        * [lower, upper] holds the exact answer with probability 0.95 or more. A measured query: the noise interval of
          its clipped answer at 0.96, its upper end raised by a bound on the loss of any query that holds at 0.995 (the
          noisy histogram shows how much weight all units lose together; it shows nothing about one query, so the bound
          is that of a query which all clipped units satisfy). Another: from 0 to the smallest upper end of the one-way
          marginals of its columns, which hold together at 0.995. Which of the two it is follows from the noise of
          those two bounds, so it is all three together that hold at 0.95.
        * ``stddev`` is that of the noise before shrinkage, without the loss; NaN where the query was not measured.

    marginals_share: Part of the budget, in (0, 1), for step 1.
    histogram_share: Part of the budget, in (0, 1), for step 2.
    shrink_from: Smallest number of queries with which answers are drawn towards predictions. With fewer queries, or
        with single literals, there is too little to learn from, and step 1 is left out.
    """

    traits: ClassVar[Traits] = Traits(
        name="clipped_gaussian",
        answers=("positive conjunctions",),
        shapes=("table", "baskets"),
        rows=False,
        mostly_gaussian=True,
        several_rows=False,
        recommended_for="millions of positive conjunctions of sparse baskets",
    )

    marginals_share: float = 0.04
    histogram_share: float = 0.03
    shrink_from: int = 500

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        queries = self._checked(terms, workload)
        for_columns, for_histogram = self._shares(queries)
        rest = 1 - for_columns - for_histogram
        steps: list[Step] = []
        events: list[Event] = []
        if for_columns:
            steps, events = plan_clipped_marginals(terms, queries.view, for_columns, queries.columns)
        steps.append(Step("measure how many queries units satisfy", float(for_histogram), 1))
        steps.append(Step(f"measure clipped sums of {queries.description}", float(rest), 1))
        events += [terms.measured(for_histogram), terms.measured(rest)]
        at_one = unit_stddev(terms, rest)
        unclipped = float(queries.size) ** (1 / norm_of(terms))
        notes = (
            f"an answer's noise has a standard deviation of C x {at_one:.4g} counts, where C is the norm that units "
            f"are clipped to: between 1 and {unclipped:.4g}, chosen from a noisy histogram. The predicted error "
            "is that of the largest C: without clipping",
            "heavy units count less, and what that takes is added by expectation; intervals allow for all of it",
        )
        error = mean_absolute_noise(terms.noise, unit_scale(terms, rest) * unclipped)
        return Plan(tuple(steps), 0, _memory(queries), error, notes, tuple(events))

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        queries = self._checked(private.terms, workload)
        for_columns, for_histogram = self._shares(queries)
        one_way = None
        if for_columns:
            one_way = clipped_marginals(private, queries.view, for_columns, queries.columns)  # MEASURE
            progress(1, 3)
        heads = _heads(private.terms, queries, one_way, for_histogram)
        asked, groups = _nested(queries, heads)
        histogram = private.measure(SatisfactionHistogram(asked, groups), for_histogram)  # MEASURE
        progress(2, 3)
        rest = 1 - for_columns - for_histogram
        head, cells, choice = _choose(private.terms, queries, heads, histogram, one_way, rest)  # CHOOSE
        chosen = Conjunctions(queries.view, queries.columns[head], queries.negated[head])
        sums = ClippedSums.of(chosen, [choice.clip], norm=norm_of(private.terms))
        measured = private.measure(sums, rest)  # MEASURE
        bound = loss_bound(histogram, cells, sums, _BOUND_CONFIDENCE)
        lacking = partial(_lacking, significant(cells, histogram.stddev, _CERTAIN), sums)
        total = private.terms.unit.units
        answers = _estimate(queries, head, measured, bound, lacking, one_way, total, generator)  # ESTIMATE
        progress(3, 3)
        before = () if one_way is None else one_way.measurements
        return Release(workload, answers, None, (*before, histogram, measured))

    def _shares(self, queries: Conjunctions) -> tuple[Fraction, Fraction]:
        """For the one-way marginals, and for the histogram."""
        learn = queries.order > 1 and queries.size >= self.shrink_from
        return Fraction(self.marginals_share) if learn else Fraction(0), Fraction(self.histogram_share)

    def _checked(self, terms: PrivacyTerms, workload: Workload) -> Conjunctions:
        """The queries. Raises ConfigError for a workload, a privacy unit or settings that there is no proof for."""
        queries = workload.queries
        if not isinstance(queries, Conjunctions):
            raise ConfigError(
                "mechanism clipped_gaussian answers conjunctions; want workload.conjunctions, or gaussian"
            )
        if queries.negated.any():
            raise ConfigError(
                "mechanism clipped_gaussian with negated literals, which most units satisfy, so that clipping would "
                "lose nearly everything; want negations: none, or mechanism: dual_query"
            )
        if answer_sensitivity(terms.unit) != 1:
            raise ConfigError(
                "mechanism clipped_gaussian has a proof for units of one row or one basket; want "
                "dataset.max_rows_per_unit: 1"
            )
        if not (self.marginals_share > 0 and self.histogram_share > 0 and self._taken < 1):
            raise ConfigError("mechanism.marginals_share and histogram_share; want both > 0 and a sum < 1")
        if self.shrink_from < 1:
            raise ConfigError(f"mechanism.shrink_from is {self.shrink_from}; want >= 1")
        if queries.size > LARGEST_ANSWERS:
            raise DomainTooLargeError("the workload", queries.size, LARGEST_ANSWERS, "choose a smaller workload")
        return queries

    @property
    def _taken(self) -> float:
        return self.marginals_share + self.histogram_share


def _heads(
    terms: PrivacyTerms, queries: Conjunctions, one_way: OneWay | None, share: Fraction
) -> tuple[NDArray[np.int64], ...]:
    """Nested sets of queries, int64 indices, all of them first; the others are those with the largest products.

    Each set is a group of the histogram, whose noise grows with the root of their number (with the number for Laplace
    noise): on small data only all queries are counted.
    """
    everything = np.arange(queries.size)
    if one_way is None:
        return (everything,)
    noise = len(_HEADS) ** (1 / norm_of(terms)) * unit_stddev(terms, share)
    sizes = [round(part * queries.size) for part in _HEADS]
    if noise > _FINEST_HEADS * one_way.units or sizes[-1] < 1:
        return (everything,)
    popular = np.argsort(-_products(queries.columns, _frequencies(queries, one_way)), kind="stable")
    return (everything, *(np.sort(popular[:size]) for size in sizes[1:]))


def _lacking(cells: NDArray[np.float64], sums: ClippedSums, answers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Expected loss of the measured answers, from cleaned cells of their histogram."""
    satisfied = np.minimum(points_inside(len(cells)), sums.queries.size)
    lost = 1.0 - sums.weights[0][satisfied.astype(np.int64)] / sums.denominator
    units = np.broadcast_to(cells[1:, None] / satisfied.shape[1], satisfied.shape)
    return expected_loss(answers, satisfied.ravel(), units.ravel(), lost.ravel())


def _nested(
    queries: Conjunctions, heads: tuple[NDArray[np.int64], ...]
) -> tuple[Conjunctions, NDArray[np.int32] | None]:
    """The queries of all sets, one set after another, with the number of the set."""
    if len(heads) == 1:
        return queries, None
    rows = np.concatenate(heads)
    groups = np.repeat(np.arange(len(heads), dtype=np.int32), [head.size for head in heads])
    return Conjunctions(queries.view, queries.columns[rows], queries.negated[rows]), groups


def _choose(
    terms: PrivacyTerms,
    queries: Conjunctions,
    heads: tuple[NDArray[np.int64], ...],
    histogram: Measurement,
    one_way: OneWay | None,
    rest: Fraction,
) -> tuple[NDArray[np.int64], NDArray[np.float64], Choice]:
    """The queries to measure, their noisy cells, and the clip.

    A set costs the predicted error of its measured queries, or that of the queries outside: the larger. Outside, the
    largest answer is taken to be 4 times the mean of the slice between this set and the next larger one, which the
    histogram gives.
    """
    cells = histogram.values.reshape(len(heads), -1)
    cleaned = [significant(row, histogram.stddev) for row in cells]
    at_one = unit_stddev(terms, rest)
    factor = _EXTREME if one_way is None else _SHRUNK_NOISE
    products = None if one_way is None else _products(queries.columns, _frequencies(queries, one_way))
    best: tuple[float, int, Choice] | None = None
    for index, head in enumerate(heads):
        top = 1.0 if products is None else float(products[head].max() / products[head].sum())
        choice = choose_clip(
            cleaned[index], head.size, at_one, factor, top, norm_of(terms), completed=one_way is not None
        )
        error = choice.error
        if index:
            outer = heads[index - 1].size
            slice_sum = mean_satisfied(cleaned[index - 1], outer) * outer
            slice_sum -= mean_satisfied(cleaned[index], head.size) * head.size
            error = max(error, _SPREAD * slice_sum / (outer - head.size))
        if best is None or error < best[0]:
            best = error, index, choice
    assert best is not None
    return heads[best[1]], cells[best[1]], best[2]


def _estimate(
    queries: Conjunctions,
    head: NDArray[np.int64],
    measured: Measurement,
    bound: float,
    lacking: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    one_way: OneWay | None,
    units: int | None,
    generator: Generator,
) -> Answers:
    """Values and intervals of all queries.

    bound: On the loss of any measured one, in counts. lacking: What clipped answers are expected to lack.
    """
    steps = measured.denominator
    width = half_width(measured.noise, measured.scale * steps, _NOISE_CONFIDENCE) / steps
    highest = np.inf if units is None else float(units)
    values = np.zeros(queries.size)
    lower, upper = np.zeros(queries.size), np.full(queries.size, highest)
    stddev = np.full(queries.size, np.nan)
    stddev[head] = measured.stddev
    lower[head] = measured.values - width
    upper[head] = np.minimum(measured.values + width + bound, highest)
    values[head] = measured.values
    if one_way is not None:
        outside = np.setdiff1d(np.arange(queries.size), head, assume_unique=True)
        predicted = _predicted(queries, head, outside, measured, one_way, generator)
        values[head] = shrunk(measured.values, measured.stddev, predicted.values * one_way.units, width)
        values[outside] = predicted.others * one_way.units
        values[head] += lacking(values[head])
        if outside.size:
            ends = np.zeros(queries.view.columns)
            ends[one_way.columns] = one_way.upper(1 - (1 - _BOUND_CONFIDENCE) / queries.order)
            upper[outside] = np.minimum(ends[queries.columns[outside]].min(axis=1), highest)
    # The truth is between 0 and all units: an interval on one side of them missed it, and is drawn to the nearer end.
    lower, upper = np.clip(lower, 0.0, highest), np.maximum(upper, 0.0)
    return Answers(np.clip(values, lower, upper), stddev, lower, upper, measured=True)


def _predicted(
    queries: Conjunctions,
    head: NDArray[np.int64],
    outside: NDArray[np.int64],
    measured: Measurement,
    one_way: OneWay,
    generator: Generator,
) -> Predicted:
    scaled, noise = measured.values / one_way.units, measured.stddev / one_way.units
    frequencies = _frequencies(queries, one_way)
    return cross_predicted(queries.columns[head], scaled, noise, frequencies, queries.columns[outside], generator)


def _frequencies(queries: Conjunctions, one_way: OneWay) -> NDArray[np.float64]:
    """Frequencies of all columns, at least one standard deviation, so that no product is lost in noise."""
    low = min(1.0, one_way.stddev / one_way.units)
    frequencies = np.full(queries.view.columns, low)
    frequencies[one_way.columns] = np.clip(one_way.values / one_way.units, low, 1.0)
    return frequencies


def _products(columns: NDArray[np.int32], frequencies: NDArray[np.float64]) -> NDArray[np.float64]:
    """What independent columns would answer, float64 [m], > 0."""
    return np.asarray(frequencies[columns].prod(axis=1))


def _memory(queries: Conjunctions) -> int:
    """Peak of queries and their nested sets, weights, answers with intervals, the index of columns and the factors."""
    return queries.size * (15 * queries.order + 24 * queries.order + 30 * 8) + queries.view.columns * 8 * 20
