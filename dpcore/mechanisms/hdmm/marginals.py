"""What ``hdmm`` measures for marginals under Laplace noise: a few weighted marginals, from which all others follow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.reconstruction.residuals import Residuals
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, Noise, noise_stddev
from dpcore.mechanisms.api import Plan, Progress, Release, Step
from dpcore.queries import Marginals
from dpcore.strategies.allocation import exact_shares
from dpcore.strategies.marginals.strategy import MarginalsStrategy, marginals_strategy
from dpcore.workload import Workload, added_weights


@final
@dataclass(frozen=True, eq=False)
class MeasuredMarginals:
    """OPT_M: weighted marginals, which need not be in the workload; least squares from all of them answers it.

    workload: A workload of marginals.
    strategy: The marginals to measure. Their weights are shares of the budget.

    Source: thesis of McKenna (2022), section 3.7.
    """

    workload: Workload
    strategy: MarginalsStrategy

    @classmethod
    def of(cls, terms: PrivacyTerms, workload: Workload) -> MeasuredMarginals | None:
        """Searches for the strategy, from public facts alone.

        Returns None for other queries than marginals, for Gaussian noise, and for too many attributes.
        """
        queries = workload.queries
        if terms.noise is not Noise.LAPLACE or not isinstance(queries, Marginals) or not queries.cliques:
            return None
        try:
            return cls(workload, _cached_strategy(queries.domain, tuple(added_weights(workload, 2).items())))
        except ValueError:
            return None

    def weighted_error(self, terms: PrivacyTerms) -> float:
        """Expected sum over the answers of (weight * error)^2."""
        weights = np.repeat(self.workload.weights, self._queries.sizes)
        return float(((weights * self._stddevs(terms)) ** 2).sum())

    def release_plan(self, terms: PrivacyTerms) -> Plan:
        """The plan of a release that measures this strategy with the whole budget."""
        steps = tuple(
            Step(f"measure {self._marginal(clique).description}", float(share), 1, noise_stddev(terms.noise, scale))
            for (clique, share), scale in zip(self._shares, self._scales(terms), strict=True)
        )
        # Sums of Laplace variables are treated as normal, which overestimates mean absolute errors by at most 13 %.
        error = math.sqrt(2 / math.pi) * float(self._stddevs(terms).mean())
        events = tuple(terms.measured(share) for _, share in self._shares)
        memory = 32 * self._queries.size + 48 * self._queries.only([clique for clique, _ in self._shares]).size
        return Plan(steps, 0, memory, error, (), events)

    def run(self, private: PrivateStatistics, progress: Progress) -> Release:
        """Measures the strategy with the whole budget and answers the workload by least squares."""
        shares = self._shares
        private.expect(self._queries.only([clique for clique, _ in shares]))
        measured: list[Measurement] = []
        for done, (clique, share) in enumerate(shares):
            measured.append(private.measure(self._marginal(clique), share))  # MEASURE
            progress(done + 1, len(shares))
        answers = Residuals.of_marginals(measured).answers(self._queries)  # ESTIMATE
        return Release(self.workload, answers, None, tuple(measured))

    def _scales(self, terms: PrivacyTerms) -> list[float]:
        """Noise scale of each measured marginal, in counts."""
        return [terms.measure_scale(self._marginal(clique), share) for clique, share in self._shares]

    def _stddevs(self, terms: PrivacyTerms) -> NDArray[np.float64]:
        """Standard deviations of all answers, float64 [answers], in counts."""
        pairs = zip(self.strategy.cliques, self._scales(terms), strict=True)
        queries = ((self._marginal(clique), scale) for clique, scale in pairs)
        zeros = [Measurement(marginal, np.zeros(marginal.size), terms.noise, scale) for marginal, scale in queries]
        return Residuals.of_marginals(zeros).answers(self._queries).stddev

    @property
    def _queries(self) -> Marginals:
        assert isinstance(self.workload.queries, Marginals)
        return self.workload.queries

    @property
    def _shares(self) -> list[tuple[Clique, Fraction]]:
        return list(zip(self.strategy.cliques, exact_shares(self.strategy.weights), strict=True))

    def _marginal(self, clique: Clique) -> Marginals:
        return self._queries.only([clique])


@lru_cache(maxsize=8)
def _cached_strategy(domain: Domain, weights: tuple[tuple[Clique, float], ...]) -> MarginalsStrategy:
    """The strategy; it is searched for once for a plan and its run."""
    return marginals_strategy(domain, dict(weights), Noise.LAPLACE)
