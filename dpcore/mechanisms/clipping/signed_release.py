"""``clipped_gaussian`` for conjunctions with negations or of several orders: one clipped release of a lattice."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

from numpy.random import Generator

from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.kernel.events import Event
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import noise_stddev
from dpcore.mechanisms.additive_noise import LARGEST_ANSWERS
from dpcore.mechanisms.api import Plan, Progress, Release, Step
from dpcore.mechanisms.clipping.constants import ClippedGaussianConstants
from dpcore.mechanisms.clipping.lattice_groups import Groups, check_grouped_noise, choose_sums
from dpcore.mechanisms.clipping.marginals import clipped_marginals, plan_clipped_marginals, unit_stddev
from dpcore.mechanisms.clipping.signed_answers import MeasuredLattice, signed_answers
from dpcore.queries import Conjunctions, UnitCount
from dpcore.queries.lattice import Lattice
from dpcore.workload import Workload

_TERM_BYTES: Final = 8 * 12  # Of a term in memory: its index, sign, multiplier, and copies while the lattice is built.


@final
@dataclass(frozen=True, eq=False)
class SignedPlan:
    """What is measured, from public facts alone.

    groups: The members of the lattice by their order.
    one_way: Share of the basket sizes and one-way marginals; 0 if they are not measured.
    units: Share of the number of units; 0 if it is public or no term.
    histogram: Share of the histogram of how many members of each group a unit satisfies.
    sums: Share of the clipped sums.
    """

    groups: Groups
    one_way: Fraction
    units: Fraction
    histogram: Fraction
    sums: Fraction

    @property
    def lattice(self) -> Lattice:
        """The lattice."""
        return self.groups.lattice

    @classmethod
    def of(cls, terms: PrivacyTerms, queries: Conjunctions, constants: ClippedGaussianConstants) -> SignedPlan:
        """The plan for some queries. Raises ConfigError if their lattice is too large."""
        try:
            lattice = Lattice.of(queries)
        except ValueError as error:
            raise ConfigError(f"mechanism clipped_gaussian: {error}, or mechanism: dqrs") from error
        members = lattice.members
        if members.size > LARGEST_ANSWERS:
            raise DomainTooLargeError("the lattice", members.size, LARGEST_ANSWERS, "choose a smaller workload")
        has_predictions = members.order > 1 and members.size >= constants.min_predicted_queries
        one_way = Fraction(constants.marginals_share) if has_predictions else Fraction(0)
        counts_units = lattice.needs_units and terms.unit.units is None
        units = Fraction(constants.units_share) if counts_units else Fraction(0)
        histogram = Fraction(constants.histogram_share)
        return cls(Groups.of(lattice), one_way, units, histogram, 1 - one_way - units - histogram)

    def describe(self, terms: PrivacyTerms, queries: Conjunctions) -> Plan:
        """The steps, kernel calls, memory and notes. Raises ScaleError if some noise may be too large to draw."""
        steps: list[Step] = []
        events: list[Event] = []
        members = self.lattice.members
        if self.one_way:
            steps, events = plan_clipped_marginals(terms, members.view, self.one_way, members.columns)
        if self.units:
            stddev = noise_stddev(terms.noise, terms.measure_scale(UnitCount(), self.units))
            steps.append(Step("measure units", float(self.units), 1, stddev))
            events.append(terms.measured(self.units))
        steps.append(Step("measure how many positive conjunctions units satisfy", float(self.histogram), 1))
        steps.append(Step(f"measure clipped sums of {members.description}", float(self.sums), 1))
        events += [terms.measured(self.histogram), terms.measured(self.sums)]
        check_grouped_noise(terms, self.sums, self.groups)
        terms_of_queries = self.lattice.terms.size
        notes = (
            f"{queries.size:,} conjunctions are signed sums of {members.size:,} positive ones, each measured once: "
            f"{terms_of_queries / queries.size:.3g} terms on average. The noise of a term has a standard deviation of "
            f"C x {unit_stddev(terms, self.sums):.4g} counts or more, where C is the norm to which units are clipped, "
            "chosen for each order from a noisy histogram; the error cannot be predicted from public facts",
            _LOSS_ADDED if self.one_way else _LOSS_LEFT,
        )
        pairs = members.order * (members.order - 1) // 2
        memory = members.size * (60 * members.order + 40 * 8 + 48 * pairs) + terms_of_queries * _TERM_BYTES
        return Plan(tuple(steps), 0, memory + members.view.columns * 8 * 20, None, notes, tuple(events))


_LOSS_ADDED = (
    "clipping lowers the answers of heavy units; the expected loss is added, and intervals allow for all of it"
)
_LOSS_LEFT = (
    "values are measured sums moved to the nearest possible data; clipping makes them slightly too small, and "
    "intervals allow for the whole loss"
)


def run_signed(
    private: PrivateStatistics,
    workload: Workload,
    plan: SignedPlan,
    constants: ClippedGaussianConstants,
    generator: Generator,
    progress: Progress,
) -> Release:
    """Measures the lattice of the queries and answers them."""
    terms, members = private.terms, plan.lattice.members
    one_way = unit_count = None
    if plan.one_way:
        one_way = clipped_marginals(private, members.view, plan.one_way, members.columns)  # MEASURE
        progress(1, 3)
    if plan.units:
        unit_count = private.measure(UnitCount(), plan.units)  # MEASURE
    histogram = private.measure(plan.groups.histogram(), plan.histogram)  # MEASURE
    progress(2, 3)
    chosen = choose_sums(terms, plan.groups, histogram, one_way, plan.sums, constants)  # CHOOSE
    sums = private.measure(chosen.sums, plan.sums)  # MEASURE
    measured = MeasuredLattice(chosen, histogram, sums, one_way, terms.unit.units, unit_count)
    answers = signed_answers(measured, constants.loss_deviations, generator)  # ESTIMATE
    progress(3, 3)
    before = () if one_way is None else one_way.measurements
    counted = () if unit_count is None else (unit_count,)
    return Release(workload, answers, None, (*before, *counted, histogram, sums))
