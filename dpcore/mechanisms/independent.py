"""The product of noisy one-way marginals: the baseline that every model must beat."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.independent import IndependentModel, to_simplex
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, noise_stddev
from dpcore.mechanisms.api import ANY_QUERIES, Plan, Progress, Release, Step, Traits, silent
from dpcore.queries import Conjunctions, Marginals, Parities, UnitCount
from dpcore.uncertainty import of_model
from dpcore.workload import Workload


@final
@dataclass(frozen=True)
class Independent:
    """Measures every one-way marginal once and answers as if attributes were independent.

    total_share: Share of the budget for the number of units of baskets, where that number is private.
    """

    traits: ClassVar[Traits] = Traits(
        name="independent",
        answers=ANY_QUERIES,
        shapes=("table", "baskets"),
        rows=True,
        mostly_gaussian=True,
        recommended_for="a baseline to beat, or workloads too large for any other mechanism",
    )

    total_share: float = 0.05

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        if not 0 < self.total_share < 1:
            raise ConfigError(f"mechanism.total_share is {self.total_share}; want 0 < total_share < 1")
        shares = self._shares(terms, workload)
        columns = _one_way(workload)
        steps = [
            Step("measure one-way marginals", float(shares[1]), 1, _stddev(terms, columns, shares[1])),
        ]
        if shares[0]:
            steps.insert(0, Step("measure units", float(shares[0]), 1, _stddev(terms, UnitCount(), shares[0])))
        events = tuple(terms.measured(share) for share in shares if share)
        notes = ("answers assume that attributes are independent",)
        return Plan(tuple(steps), 0, 16 * columns.size, None, notes, events)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        for_units, for_columns = self._shares(private.terms, workload)
        measured: list[Measurement] = []
        if for_units:
            measured.append(private.measure(UnitCount(), for_units))  # MEASURE
        measured.append(private.measure(_one_way(workload), for_columns))
        progress(1, 1)
        model = _fit(private.terms, measured)  # ESTIMATE
        return Release(workload, of_model(model.answer(workload.queries)), model, tuple(measured))

    def _shares(self, terms: PrivacyTerms, workload: Workload) -> tuple[Fraction, Fraction]:
        """For the number of units, and for the one-way marginals: a table's marginals give its total."""
        baskets = isinstance(workload.queries, Conjunctions | Parities) and not workload.queries.view.groups
        share = Fraction(self.total_share) if baskets and terms.unit.units is None else Fraction(0)
        return share, 1 - share


def _one_way(workload: Workload) -> Marginals | Conjunctions:
    queries = workload.queries
    if isinstance(queries, Conjunctions | Parities):
        return Conjunctions.single_columns(queries.view)
    marginals = queries if isinstance(queries, Marginals) else queries.marginals
    used = {name for clique in marginals.cliques for name in clique}
    return marginals.only([(name,) for name in queries.domain.names if name in used])


def _fit(terms: PrivacyTerms, measured: list[Measurement]) -> IndependentModel:
    """Chances from noisy counts: the closest distribution for each attribute, clipped counts for items."""
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
    """Every attribute's noisy counts sum to the same total up to noise: their mean, weighted by its precision."""
    public = terms.unit.units if terms.unit.contribution.bound == 1 else None
    sizes = np.array(domain.sizes)
    sums = np.add.reduceat(values, [start for start, _ in view.groups])
    total = float(public or max(1.0, np.average(sums, weights=1 / sizes)))
    probabilities = [to_simplex(values[start:stop] / total) for start, stop in view.groups]
    return IndependentModel(view, np.concatenate(probabilities), total, domain)


def _stddev(terms: PrivacyTerms, queries: Marginals | Conjunctions | UnitCount, share: Fraction) -> float:
    return noise_stddev(terms.noise, terms.measure_scale(queries, share))
