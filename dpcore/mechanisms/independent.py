"""The product of noisy one-way marginals: the baseline that every model must beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.estimation.independent import IndependentModel, to_simplex
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, noise_stddev
from dpcore.mechanisms.api import ANY_QUERIES, Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.shared.pgm_common import check_names_attribute, modelled
from dpcore.queries import Conjunctions, Marginals, Parities, UnitCount
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

UNITS_SHARE: Final = 0.05  # Share of the budget for the number of units of baskets, where that number is private.


@final
@dataclass(frozen=True)
class Independent:
    """Measures every one-way marginal once, and answers as if attributes, or items of baskets, were independent.

    The mechanism has no settings. Conjunctions and parities need the counts of all columns; other queries need only the
    attributes that they name.

    Guarantee: the budget's, by composition of at most two measurements.
    """

    traits: ClassVar[Traits] = Traits(
        name="independent",
        answers=ANY_QUERIES,
        shapes=("table", "baskets"),
        rows=True,
        mostly_gaussian=True,
        recommended_for="a baseline to beat, or workloads too large for any other mechanism",
    )

    retired: ClassVar[Mapping[str, str]] = {
        "total_share": f"a private number of units of baskets gets {UNITS_SHARE:g} of the budget; leave it out"
    }

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        units_share, columns_share = _shares(terms, workload)
        columns = _one_way(workload)
        steps = [Step("measure one-way marginals", float(columns_share), 1, _stddev(terms, columns, columns_share))]
        if units_share:
            steps.insert(0, Step("measure units", float(units_share), 1, _stddev(terms, UnitCount(), units_share)))
        events = tuple(terms.measured(share) for share in (units_share, columns_share) if share)
        notes = ("answers assume that attributes are independent",)
        return Plan(tuple(steps), 0, 16 * columns.size, None, notes, events)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        units_share, columns_share = _shares(private.terms, workload)
        measured: list[Measurement] = []
        if units_share:
            measured.append(private.measure(UnitCount(), units_share))  # MEASURE
        measured.append(private.measure(_one_way(workload), columns_share))
        progress(1, 1)
        model = _fit(private.terms, measured)  # ESTIMATE
        return Release(workload, of_model(model.answer(workload.queries)), model, tuple(measured))


def _shares(terms: PrivacyTerms, workload: Workload) -> tuple[Fraction, Fraction]:
    """Shares of the number of units, which the one-way marginals of a table already give, and of those marginals."""
    baskets = isinstance(workload.queries, Conjunctions | Parities) and not workload.queries.view.groups
    units_share = Fraction(UNITS_SHARE) if baskets and terms.unit.units is None else Fraction(0)
    return units_share, 1 - units_share


def _one_way(workload: Workload) -> Marginals | Conjunctions:
    """The one-way marginals of the attributes that the workload names, or the counts of all single columns.

    Raises ConfigError if a workload of marginals or of products names no attribute.
    """
    queries = workload.queries
    if isinstance(queries, Conjunctions | Parities):
        return Conjunctions.single_columns(queries.view)
    marginals = queries if isinstance(queries, Marginals) else queries.marginals
    check_names_attribute(marginals.cliques, "independent")
    return marginals.only([(name,) for name in modelled(marginals)])


def _fit(terms: PrivacyTerms, measured: list[Measurement]) -> IndependentModel:
    """Probabilities from noisy counts: the nearest distribution for an attribute, a clipped frequency for an item."""
    values = measured[-1].values
    match measured[-1].queries:
        case Marginals() as one_way:
            domain = one_way.domain.project(name for (name,) in one_way.cliques)
            return _fit_table(terms, values, BinaryView.one_hot(domain), domain)
        case Conjunctions(view=view) if (attributes := view.domain) is not None:
            return _fit_table(terms, values, view, attributes)
        case columns:
            total = float(terms.unit.units or max(1, measured[0].values[0]))
            view = BinaryView(columns.size)
            return IndependentModel(view, np.clip(values / total, 0, 1), total)


def _fit_table(terms: PrivacyTerms, values: NDArray[np.float64], view: BinaryView, domain: Domain) -> IndependentModel:
    """The nearest distribution for each attribute, and the total: public, or the mean of all attributes' sums."""
    public = terms.unit.units if terms.unit.contribution.bound == 1 else None
    sizes = np.array(domain.sizes)
    sums = np.add.reduceat(values, [start for start, _ in view.groups])
    # Each attribute's noisy counts sum to the same total plus noise of variance proportional to its size.
    total = float(public or max(1.0, np.average(sums, weights=1 / sizes)))
    probabilities = [to_simplex(values[start:stop] / total) for start, stop in view.groups]
    return IndependentModel(view, np.concatenate(probabilities), total, domain)


def _stddev(terms: PrivacyTerms, queries: Marginals | Conjunctions | UnitCount, share: Fraction) -> float:
    """The standard deviation of the noise in each value, in counts."""
    return noise_stddev(terms.noise, terms.measure_scale(queries, share))
