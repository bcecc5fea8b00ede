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
from dpcore.mechanisms.additive_noise import LARGEST_ANSWERS
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.clipping.completion import completed_answers
from dpcore.mechanisms.clipping.constants import ClippedGaussianConstants
from dpcore.mechanisms.clipping.marginals import (
    check_clipped_noise,
    clipped_marginals,
    norm_of,
    plan_clipped_marginals,
    unit_stddev,
)
from dpcore.mechanisms.clipping.query_sets import QuerySet, choose_set, histogram_of, nested_sets
from dpcore.mechanisms.clipping.signed_release import SignedPlan, run_signed
from dpcore.queries import ClippedSums, Conjunctions
from dpcore.queries.lattice import needs_lattice
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
    5. ESTIMATE each answer by empirical Bayes: predict it from the other noisy values (``clipping.predictions``), learn
       from all values how exact answers differ from such predictions and what clipping takes from them, and give the
       posterior median (``estimation.clipping.estimates``). Most answers of sparse data are then exactly 0.

    With fewer than 500 queries, or with single literals, step 1 is left out, and all queries are treated as
    exchangeable; with fewer than 100, answers are the measured values. There are no settings;
    ``dpcore.mechanisms.clipping.constants`` has the constants.

    Queries with negated literals, and queries of several orders, are signed sums of positive conjunctions, of which
    each is measured once: see ``signed_release`` and ``dpcore.queries.lattice``. There the sets are the orders, all are
    measured, and all estimates are moved to the nearest ones that some data could have. With fewer than 500 positive
    conjunctions, or single literals alone, the values are not shrunk and no loss is added. They have no q-values;
    [lower, upper] contains the exact answer with probability 0.95 or more for each query alone, whatever the data
    contain: the noise interval of the sum, both ends moved by the losses of its terms.

    Formal guarantees of ``answers.estimation`` for the other queries, over all noise, whatever the data contain:
        * [guaranteed_lower, guaranteed_upper] contains the exact answer with probability 0.95 or more for each query
          alone. For a measured query it is the noise interval of its clipped answer at confidence 0.96, with the upper
          end raised by a bound on the loss of any query that holds with probability 0.995. (The noisy histogram shows
          how much weight all units lose together, but nothing about one query, so the bound is that of a query which
          all clipped units satisfy.) For any other query it goes from 0 to the smallest upper end of the one-way
          marginals of its columns, which hold together with probability 0.995. Which of the two cases applies depends
          on the noise of these two bounds; therefore the confidences are such that all three statements hold together
          with probability 0.95.
        * Of the queries with a q-value of at most q, the expected fraction whose exact answer is 0 is at most q, for
          every q that is fixed in advance (``estimation.clipping.discoveries``).

    Not a formal guarantee: [lower, upper] covers 95 % of the exact answers on average over the queries of a release, as
    far as the learnt prior fits. On 16 workloads of four datasets the average was 0.96 or more in each
    (``dpcore/decisions/clipping.md``). ``stddev`` is that of the noise in the measured value; it is NaN if the query
    was not measured.

    Source: this project; ``dpcore/kernel/clipped_sensitivity.py`` has the proof of the sensitivity of clipped sums.
    """

    traits: ClassVar[Traits] = Traits(
        name="clipped_gaussian",
        answers=("conjunctions",),
        shapes=("table", "baskets"),
        rows=False,
        mostly_gaussian=True,
        several_rows=False,
        recommended_for="millions of conjunctions of sparse baskets, with or without negations",
    )

    constants: ClippedGaussianConstants = field(default=ClippedGaussianConstants(), init=False, repr=False)

    retired: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("marginals_share", "histogram_share", "shrink_from"), "it is a constant now; leave it out"
    )

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        queries = _checked_queries(terms, workload)
        if needs_lattice(queries):
            return SignedPlan.of(terms, queries, self.constants).describe(terms, queries)
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
        notes = (_noise_note(stddev, queries.size, norm_of(terms)), _ESTIMATE_NOTE)
        return Plan(tuple(steps), 0, _memory(queries), None, notes, tuple(events))

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        terms, constants = private.terms, self.constants
        queries = _checked_queries(terms, workload)
        if needs_lattice(queries):
            plan = SignedPlan.of(terms, queries, constants)
            plan.describe(terms, queries)  # Refuses what cannot be drawn before anything is measured.
            return run_signed(private, workload, plan, constants, generator, progress)
        self.plan(terms, workload)
        shares = self._shares(queries)
        one_way = None
        if shares.one_way:
            one_way = clipped_marginals(private, queries.view, shares.one_way, queries.columns)  # MEASURE
            progress(1, 3)
        sets = nested_sets(terms, queries, one_way, shares.histogram, constants)
        histogram = private.measure(histogram_of(queries, sets), shares.histogram)  # MEASURE
        progress(2, 3)
        chosen = choose_set(terms, queries, sets, histogram, one_way, shares.sums, constants)  # CHOOSE
        sums = ClippedSums.of(_only(queries, chosen.members), [chosen.clip], norm=norm_of(terms))
        measured = private.measure(sums, shares.sums)  # MEASURE
        answers = completed_answers(  # ESTIMATE
            queries, chosen, histogram, measured, one_way, terms.unit.units, generator
        )
        progress(3, 3)
        one_way_measurements = () if one_way is None else one_way.measurements
        return Release(workload, answers, None, (*one_way_measurements, histogram, measured))

    def _shares(self, queries: Conjunctions) -> _Shares:
        has_predictions = queries.order > 1 and queries.size >= self.constants.min_predicted_queries
        one_way = Fraction(self.constants.marginals_share) if has_predictions else Fraction(0)
        histogram = Fraction(self.constants.histogram_share)
        return _Shares(one_way, histogram, 1 - one_way - histogram)


_PRIOR_BYTES = 80 << 20  # Densities of the components of a prior, by prediction.
_ESTIMATE_NOTE = (
    "answers of 100 queries or more are estimates from all values. Their mean error was 0.03 to 0.8 of the standard "
    "deviation of the noise for pairs, triples and single items of four datasets, and far less where nearly all exact "
    "answers are 0. What clipping takes from heavy units is estimated and added; the guaranteed intervals allow for "
    "all of it"
)


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
    if answer_sensitivity(terms.unit) != 1:
        raise ConfigError(
            "mechanism clipped_gaussian has a proof for units of one row or one basket; want "
            "dataset.max_rows_per_unit: 1"
        )
    if queries.size > LARGEST_ANSWERS:
        raise DomainTooLargeError("the workload", queries.size, LARGEST_ANSWERS, "choose a smaller workload")
    return queries


def _only(queries: Conjunctions, members: QuerySet) -> Conjunctions:
    """Some of the queries; the same object if they are all of them, so that their columns are in memory once."""
    if members.size == queries.size:
        return queries
    return Conjunctions(queries.view, queries.columns[members], queries.negated[members])


def _noise_note(stddev: float, queries: int, norm: int) -> str:
    """What public facts say about the noise: how it follows from the number of queries that a unit satisfies."""
    largest = queries ** (1 / norm)
    examples = [number for number in (1, 10, 100, 1_000, 10_000) if number <= queries]
    by_number = ", ".join(f"{stddev * number ** (1 / norm):.4g} if {number:,}" for number in examples)
    return (
        f"the error cannot be predicted from public facts. The noise of a measured value has a standard deviation of "
        f"C x {stddev:.4g} counts, where C is the norm to which units are clipped: between 1 and {largest:.4g}, chosen "
        f"from a noisy histogram so that it fits most units. That is {by_number} of the queries are what a unit "
        f"satisfies that is just not clipped"
    )


def _memory(queries: Conjunctions) -> int:
    """Peak memory, in bytes: of the queries, their nested sets, weights, answers, column index and factors; of the
    estimates; and of the densities and likelihoods of the prior, which do not grow with the queries."""
    by_query = 15 * queries.order + 24 * queries.order + 50 * 8
    return queries.size * by_query + queries.view.columns * 8 * 20 + min(queries.size, 100_000) * 8 * 150 + _PRIOR_BYTES
