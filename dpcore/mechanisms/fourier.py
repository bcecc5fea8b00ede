"""The Fourier baseline for contingency tables: all parities of a workload, and one table that follows them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, final

import numpy as np
from numpy.random import Generator

from dpcore.domain import Domain
from dpcore.errors import ConfigError
from dpcore.estimation.multiplicative_weights.dense import DenseModel, check_size
from dpcore.estimation.multiplicative_weights.parity_weights import follow_parities, parity_indices
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import noise_stddev
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.shared.pgm_common import modelled, table_marginals
from dpcore.mechanisms.shared.totals import public_total
from dpcore.queries import Products
from dpcore.strategies.fourier_basis import parities_below
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

LARGEST_CELLS: Final = 1 << 22
_ALL: Final = Fraction(1)


@final
@dataclass(frozen=True)
class Fourier:
    """Measures every Fourier coefficient of the marginals of a workload over binary attributes, each with equal noise.

    A marginal of k attributes is its 2^k coefficients in another basis, and marginals that overlap share coefficients:
    all k-way marginals of d attributes need about (d choose k) of them. A non-negative table over all attributes then
    follows them by multiplicative weights from the uniform one; answers agree, none is negative, and there are
    synthetic rows. The number of rows is a coefficient as well, measured where it is not public.

    within: How near the table comes to the measured coefficients, as the root mean square of what is missing over the
        standard deviation of the noise. 1 stops where what is missing is no more than noise; 0 follows to the end.
    iterations: Most steps of the weights.

    The measurement spends the whole budget in one call; what comes after it is post-processing.

    Source: Barak, Chaudhuri, Dwork, Kale, McSherry and Talwar (2007), with multiplicative weights in place of their
    linear program as in Hardt, Ligett and McSherry (2012), section 3.2.
    """

    traits: ClassVar[Traits] = Traits(
        name="fourier",
        answers=("marginals", "products"),
        shapes=("table",),
        rows=True,
        mostly_gaussian=True,
        recommended_for="a baseline for binary attributes",
    )

    within: float = 1.0
    iterations: int = 300

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        queries, domain = self._queries(terms, workload), _domain(workload)
        stddev = noise_stddev(terms.noise, terms.measure_scale(queries, _ALL))
        steps = (Step(f"measure {len(queries.terms):,} parities", 1.0, 1, stddev),)
        note = f"the measured parities alone are off by {stddev:,.3g} rows (standard deviation)"
        memory = 8 * 8 * domain.size() + 64 * queries.size + 16 * workload.queries.size
        return Plan(steps, 0, memory, None, (note,), (terms.measured(_ALL),))

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        queries, domain = self._queries(private.terms, workload), _domain(workload)
        measured = private.measure(queries, _ALL)  # MEASURE
        progress(1, 2)
        rows = public_total(private.terms)
        values, parities = measured.values, queries.terms
        if rows is None:
            rows, values, parities = max(1.0, float(values[0])), values[1:], parities[1:]
        probabilities = follow_parities(  # ESTIMATE
            np.full(domain.size(), 1 / domain.size()),
            parity_indices(domain, [term.clique for term in parities]),
            values / rows,
            within=self.within * measured.stddev / rows,
            iterations=self.iterations,
        )
        progress(2, 2)
        model = DenseModel(domain, rows * probabilities)
        return Release(workload, of_model(model.answer(workload.queries)), model, (measured,))

    def _queries(self, terms: PrivacyTerms, workload: Workload) -> Products:
        if not (0 <= self.within < float("inf") and self.iterations >= 1):
            given = f"within {self.within:g}, iterations {self.iterations}"
            raise ConfigError(f"mechanism.{given}; want 0 <= within < inf, iterations >= 1")
        marginals = table_marginals(workload, "fourier")
        try:
            queries = parities_below(marginals.domain, marginals.cliques, total=public_total(terms) is None)
        except ValueError as error:
            raise ConfigError(f"mechanism fourier: {error}, or mechanism gaussian_pgm") from error
        check_size(_domain(workload), "the dense table of mechanism fourier", LARGEST_CELLS)
        return queries


def _domain(workload: Workload) -> Domain:
    """The attributes that the workload names."""
    marginals = table_marginals(workload, "fourier")
    return marginals.domain.project(modelled(marginals))
