"""Clipped answers: conjunctions over sparse data, with noise for the typical unit instead of the heaviest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, final

from numpy.random import Generator

from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.kernel.events import Event
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import answer_sensitivity
from dpcore.measurement import mean_absolute_noise
from dpcore.mechanisms.additive_noise import LARGEST_ANSWERS
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.clipping.completion import completed_answers
from dpcore.mechanisms.clipping.constants import ClippedGaussianConstants
from dpcore.mechanisms.clipping.marginals import (
    check_clipped_noise,
    clipped_marginals,
    norm_of,
    plan_clipped_marginals,
    unit_scale,
    unit_stddev,
)
from dpcore.mechanisms.clipping.query_sets import choose_set, histogram_of, nested_sets
from dpcore.queries import ClippedSums, Conjunctions
from dpcore.workload import Workload


@final
@dataclass(frozen=True)
class ClippedGaussian:
    """Clips each unit's vector of 0/1 answers to a norm of at most C, and adds noise in proportion to C to their sum.

    In sparse data nearly every unit satisfies few queries. Clipping scales down the heaviest units alone, which makes
    answers slightly too small. C, and the set of queries to measure, are post-processing of a noisy histogram. Under
    zCDP and Gaussian DP the norm is the Euclidean norm; under pure DP it is the sum, with Laplace noise.

    1. MEASURE basket sizes and clipped one-way marginals.
    2. MEASURE a histogram of how many queries each unit satisfies, for all queries and for sets of popular ones.
    3. CHOOSE the set of queries to measure, and C, with the smallest predicted largest error.
    4. MEASURE the clipped sums of that set with the remaining budget.
    5. ESTIMATE: predict each answer from the others (``estimation.clipping.column_factors``), and shrink each measured
       answer towards its prediction by at most its noise interval (``shrinkage``). Queries that were not measured get
       their predictions. Then add the loss by clipping that each measured answer is expected to have
       (``estimation.clipping.expected_loss``).

    With fewer than 500 queries, or with single literals, step 1 and predictions are left out. There are no settings;
    ``dpcore.mechanisms.clipping.constants`` has the constants.

    Formal guarantees of ``answers`` for each query alone, over all noise, whatever the data contain:
        * [lower, upper] contains the exact answer with probability 0.95 or more. For a measured query it is the noise
          interval of its clipped answer at confidence 0.96, with the upper end raised by a bound on the loss of any
          query that holds with probability 0.995. (The noisy histogram shows how much weight all units lose together,
          but nothing about one query, so the bound is that of a query which all clipped units satisfy.) For any other
          query it goes from 0 to the smallest upper end of the one-way marginals of its columns, which hold together
          with probability 0.995. Which of the two cases applies depends on the noise of these two bounds; therefore the
          confidences are such that all three statements hold together with probability 0.95.
        * ``stddev`` is that of the noise before shrinkage, without the loss; it is NaN if the query was not measured.

    Source: this project; ``dpcore/kernel/clipped_sensitivity.py`` has the proof of the sensitivity of clipped sums.
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

    constants: ClippedGaussianConstants = field(default=ClippedGaussianConstants(), init=False, repr=False)

    retired: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("marginals_share", "histogram_share", "shrink_from"), "it is a constant now; leave it out"
    )

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        queries = _checked_queries(terms, workload)
        shares = self._shares(queries)
        steps: list[Step] = []
        events: list[Event] = []
        if shares.one_way:
            steps, events = plan_clipped_marginals(terms, queries.view, shares.one_way, queries.columns)
        steps.append(Step("measure how many queries units satisfy", float(shares.histogram), 1))
        steps.append(Step(f"measure clipped sums of {queries.description}", float(shares.sums), 1))
        events += [terms.measured(shares.histogram), terms.measured(shares.sums)]
        check_clipped_noise(terms, shares.sums, queries.size)
        stddev = unit_stddev(terms, shares.sums)
        max_norm = float(queries.size) ** (1 / norm_of(terms))
        smallest, largest = (
            mean_absolute_noise(terms.noise, unit_scale(terms, shares.sums) * norm) for norm in (1, max_norm)
        )
        notes = (
            f"the error cannot be predicted from public facts. The noise of an answer has a standard deviation of C x "
            f"{stddev:.4g} counts, where C is the norm to which units are clipped: between 1 and {max_norm:.4g}, "
            f"chosen from a noisy histogram. The expected error from the noise is between {smallest:.4g} and "
            f"{largest:.4g} counts, and near the lower end for sparse data",
            "clipping lowers the answers of heavy units; the expected loss is added, and intervals allow for all of it",
        )
        return Plan(tuple(steps), 0, _memory(queries), None, notes, tuple(events))

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        terms, constants = private.terms, self.constants
        queries = _checked_queries(terms, workload)
        shares = self._shares(queries)
        one_way = None
        if shares.one_way:
            one_way = clipped_marginals(private, queries.view, shares.one_way, queries.columns)  # MEASURE
            progress(1, 3)
        sets = nested_sets(terms, queries, one_way, shares.histogram, constants)
        histogram = private.measure(histogram_of(queries, sets), shares.histogram)  # MEASURE
        progress(2, 3)
        chosen = choose_set(terms, queries, sets, histogram, one_way, shares.sums, constants)  # CHOOSE
        members = Conjunctions(queries.view, queries.columns[chosen.members], queries.negated[chosen.members])
        sums = ClippedSums.of(members, [chosen.clip], norm=norm_of(terms))
        measured = private.measure(sums, shares.sums)  # MEASURE
        units, deviations = terms.unit.units, constants.loss_deviations
        answers = completed_answers(  # ESTIMATE
            queries, chosen, histogram, measured, one_way, units, deviations, generator
        )
        progress(3, 3)
        one_way_measurements = () if one_way is None else one_way.measurements
        return Release(workload, answers, None, (*one_way_measurements, histogram, measured))

    def _shares(self, queries: Conjunctions) -> _Shares:
        has_predictions = queries.order > 1 and queries.size >= self.constants.min_shrunk_queries
        one_way = Fraction(self.constants.marginals_share) if has_predictions else Fraction(0)
        histogram = Fraction(self.constants.histogram_share)
        return _Shares(one_way, histogram, 1 - one_way - histogram)


@dataclass(frozen=True)
class _Shares:
    """Shares of the whole budget for steps 1, 2 and 4."""

    one_way: Fraction
    histogram: Fraction
    sums: Fraction


def _checked_queries(terms: PrivacyTerms, workload: Workload) -> Conjunctions:
    """The queries of the workload. Raises ConfigError for workloads and privacy units without a proof."""
    queries = workload.queries
    if not isinstance(queries, Conjunctions):
        raise ConfigError("mechanism clipped_gaussian answers conjunctions; want workload.conjunctions, or gaussian")
    if queries.negated.any():
        raise ConfigError(
            "mechanism clipped_gaussian does not answer negated literals: most units satisfy them, so that clipping "
            "would lose nearly everything; want negations: none, or mechanism: dual_query"
        )
    if answer_sensitivity(terms.unit) != 1:
        raise ConfigError(
            "mechanism clipped_gaussian has a proof for units of one row or one basket; want "
            "dataset.max_rows_per_unit: 1"
        )
    if queries.size > LARGEST_ANSWERS:
        raise DomainTooLargeError("the workload", queries.size, LARGEST_ANSWERS, "choose a smaller workload")
    return queries


def _memory(queries: Conjunctions) -> int:
    """Peak memory, in bytes, of the queries and their nested sets, weights, answers, column index and factors."""
    return queries.size * (15 * queries.order + 24 * queries.order + 30 * 8) + queries.view.columns * 8 * 20
