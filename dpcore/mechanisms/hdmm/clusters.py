"""What ``hdmm`` measures for products about many attributes under Laplace noise: one product for each cluster."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import final

from dpcore.estimation.least_squares import local_least_squares, mean_absolute_error
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, Noise, noise_stddev
from dpcore.mechanisms.additive_noise import LARGEST_ANSWERS
from dpcore.mechanisms.api import Plan, Progress, Release, Step
from dpcore.mechanisms.hdmm.strategy_key import AskedProducts
from dpcore.queries import Products
from dpcore.strategies.kronecker.clustered_terms import Cluster, clustered_terms
from dpcore.workload import Workload


@final
@dataclass(frozen=True, eq=False)
class MeasuredClusters:
    """OPT_+: terms that ask the same attributes are measured by one product where that is better.

    workload: Of products, two terms or more. clusters: What is measured, one after another.

    Source: thesis of McKenna (2022), Definition 21.
    """

    workload: Workload
    clusters: tuple[Cluster, ...]

    @classmethod
    def of(cls, terms: PrivacyTerms, workload: Workload) -> MeasuredClusters | None:
        """From public facts alone; None for other queries or noise, one term, and where no terms share a cluster.

        Kept for the last few workloads, so that a run does not choose again what its plan chose.
        """
        queries = workload.queries
        if terms.noise is not Noise.LAPLACE or not isinstance(queries, Products) or len(queries.terms) < 2:
            return None
        clusters = _selected(AskedProducts.of(queries, workload))
        if len(clusters) in (0, len(queries.terms)):
            return None
        if sum(cluster.strategy.queries.size for cluster in clusters) > LARGEST_ANSWERS:
            return None
        return cls(workload, clusters)

    def weighted_error(self, terms: PrivacyTerms) -> float:
        """Expected sum over the answers of (weight * error)^2."""
        variance = sum(self._stddev(terms, cluster) ** 2 * cluster.strategy.variance for cluster in self.clusters)
        return float(variance * self.workload.weights.max() ** 2)

    def of_release(self, terms: PrivacyTerms) -> Plan:
        steps = tuple(
            Step(
                f"measure {cluster.strategy.queries.description}", float(cluster.share), 1, self._stddev(terms, cluster)
            )
            for cluster in self.clusters
        )
        absolute = 0.0
        for cluster in self.clusters:
            scale, measured = terms.measure_scale(cluster.strategy.queries, cluster.share), cluster.strategy.queries
            for term in (self._queries.terms[index] for index in cluster.term_indices):
                factors = cluster.strategy.reconstruction(term)
                absolute += term.size * mean_absolute_error(terms.noise, scale, measured.denominator, factors)
        memory = 32 * self._queries.size + 32 * sum(cluster.strategy.queries.size for cluster in self.clusters)
        events = tuple(terms.measured(cluster.share) for cluster in self.clusters)
        return Plan(steps, 0, memory, absolute / self._queries.size, (), events)

    def run(self, private: PrivateStatistics, progress: Progress) -> Release:
        private.expect(
            Products(self._queries.domain, tuple(cluster.strategy.queries.terms[0] for cluster in self.clusters))
        )
        measured: list[Measurement] = []
        for done, cluster in enumerate(self.clusters):
            measured.append(private.measure(cluster.strategy.queries, cluster.share))  # MEASURE
            progress(done + 1, len(self.clusters))
        owners = {
            index: (cluster, measurement)
            for cluster, measurement in zip(self.clusters, measured, strict=True)
            for index in cluster.term_indices
        }
        parts = []
        for index, term in enumerate(self._queries.terms):
            cluster, measurement = owners[index]
            parts.append((measurement, cluster.strategy.reconstruction(term)))
        return Release(self.workload, local_least_squares(parts), None, tuple(measured))  # ESTIMATE

    @property
    def _queries(self) -> Products:
        assert isinstance(self.workload.queries, Products)
        return self.workload.queries

    def _stddev(self, terms: PrivacyTerms, cluster: Cluster) -> float:
        """Of the noise in one measured value."""
        queries = cluster.strategy.queries
        return noise_stddev(terms.noise, terms.measure_scale(queries, cluster.share)) / queries.denominator


@lru_cache(maxsize=4)
def _selected(clique_weights: AskedProducts) -> tuple[Cluster, ...]:
    """Searched once for a plan and its run; empty where there is nothing to cluster."""
    try:
        return clustered_terms(clique_weights.queries, clique_weights.squared_weights)
    except ValueError:
        return ()
