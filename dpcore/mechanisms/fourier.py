"""The Fourier baseline for contingency tables: it measures all parities of a workload and fits one table to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, Literal, final

import numpy as np
from numpy.random import Generator

from dpcore.errors import ConfigError
from dpcore.estimation.multiplicative_weights.dense import DenseModel, check_size
from dpcore.estimation.multiplicative_weights.parity_weights import follow_parities, parity_indices
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import noise_stddev
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, check_profile, silent
from dpcore.mechanisms.shared.pgm_common import modelled_domain, table_marginals
from dpcore.mechanisms.shared.totals import public_total
from dpcore.queries import Products
from dpcore.strategies.fourier_basis import parities_below
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

LARGEST_CELLS: Final = 1 << 22
_WHOLE_BUDGET: Final = Fraction(1)


@dataclass(frozen=True)
class FourierProfile:
    """When the table is near enough to the measured coefficients.

    tolerance: Updates stop once the root-mean-square residual is at most this many standard deviations of the noise. At
        1 the residual is indistinguishable from noise; at 0 updates never stop early.
    iterations: Maximum number of updates, at least 1.
    """

    tolerance: float
    iterations: int


PROFILES: Final[dict[str, FourierProfile]] = {
    "default": FourierProfile(tolerance=1.0, iterations=300),
    "published": FourierProfile(tolerance=0.0, iterations=300),
}
"""The profiles by the name that a config gives."""


@final
@dataclass(frozen=True)
class Fourier:
    """Measures every Fourier coefficient of the marginals of a workload over binary attributes, each with equal noise.

    The 2^k coefficients (parities) of a marginal of k attributes determine its cells, and marginals that overlap share
    coefficients: all k-way marginals of d attributes have about (d choose k) of them. Multiplicative weights then fit a
    table over all attributes to the coefficients, starting from the uniform table. Answers are therefore consistent and
    non-negative, and there are synthetic rows. The number of rows is a coefficient too, and is measured where it is not
    public.

    profile: "default" stops the fit once the residual is no more than noise. "published" never stops it early, as in
        the experiments of Hardt, Ligett and McSherry.

    Guarantee: the budget's. One measurement spends all of it, and the fit is post-processing.

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

    profile: Literal["default", "published"] = "default"

    retired: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("within", "iterations"),
        "it is a constant of a profile; leave it out, or write mechanism.profile: published",
    )

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        queries, domain = self._parities(terms, workload), modelled_domain(table_marginals(workload, "fourier"))
        stddev = noise_stddev(terms.noise, terms.measure_scale(queries, _WHOLE_BUDGET))
        steps = (Step(f"measure {len(queries.terms):,} parities", 1.0, 1, stddev),)
        note = f"the noise of each measured parity has a standard deviation of {stddev:,.3g} rows"
        memory = 8 * 8 * domain.size() + 64 * queries.size + 16 * workload.queries.size
        return Plan(steps, 0, memory, None, (note,), (terms.measured(_WHOLE_BUDGET),))

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        queries, domain = self._parities(private.terms, workload), modelled_domain(table_marginals(workload, "fourier"))
        profile = PROFILES[self.profile]
        measured = private.measure(queries, _WHOLE_BUDGET)  # MEASURE
        progress(1, 2)
        rows = public_total(private.terms)
        values, parities = measured.values, queries.terms
        if rows is None:
            rows, values, parities = max(1.0, float(values[0])), values[1:], parities[1:]
        probabilities = follow_parities(  # ESTIMATE
            np.full(domain.size(), 1 / domain.size()),
            parity_indices(domain, [term.clique for term in parities]),
            values / rows,
            within=profile.tolerance * measured.stddev / rows,
            iterations=profile.iterations,
        )
        progress(2, 2)
        model = DenseModel(domain, rows * probabilities)
        return Release(workload, of_model(model.answer(workload.queries)), model, (measured,))

    def _parities(self, terms: PrivacyTerms, workload: Workload) -> Products:
        """The coefficients to measure; the first is the number of rows where that number is private."""
        check_profile(self.profile, PROFILES)
        marginals = table_marginals(workload, "fourier")
        try:
            queries = parities_below(marginals.domain, marginals.cliques, total=public_total(terms) is None)
        except ValueError as error:
            raise ConfigError(f"mechanism fourier: {error}, or mechanism gaussian_pgm") from error
        check_size(modelled_domain(marginals), "the dense table of mechanism fourier", LARGEST_CELLS)
        return queries
