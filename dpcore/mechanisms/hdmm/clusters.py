"""What ``hdmm`` measures for products over many attributes under Laplace noise: one product per cluster of terms."""

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
from dpcore.mechanisms.hdmm.strategy_key import ProductsKey
from dpcore.queries import Products
from dpcore.strategies.kronecker.clustered_terms import Cluster, clustered_terms
from dpcore.workload import Workload


@final
@dataclass(frozen=True, eq=False)
class MeasuredClusters:
    """OPT_+: terms with common attributes share one measured product where that lowers the error.

    workload: A workload of products with two or more terms.
    clusters: The clusters of terms, each with its strategy, in the order in which they are measured.

    Source: thesis of McKenna (2022), Definition 21.
    """

    workload: Workload
    clusters: tuple[Cluster, ...]

    @classmethod
    def of(cls, terms: PrivacyTerms, workload: Workload) -> MeasuredClusters | None:
        """Searches for the clusters, from public facts alone.

        Returns None for other queries than products, for a single term, for Gaussian noise, and if no two terms share a
        cluster.

        The last few strategies are cached, so that a run does not search again for the strategy of its plan.
        """
        queries = workload.queries
        if terms.noise is not Noise.LAPLACE or not isinstance(queries, Products) or len(queries.terms) < 2:
            return None
        clusters = _cached_clusters(ProductsKey.of(queries, workload))
        if len(clusters) in (0, len(queries.terms)):
            return None
        if sum(cluster.strategy.queries.size for cluster in clusters) > LARGEST_ANSWERS:
            return None
        return cls(workload, clusters)

    def weighted_error(self, terms: PrivacyTerms) -> float:
        """Expected sum over the answers of (weight * error)^2."""
        variance = sum(self._stddev(terms, cluster) ** 2 * cluster.strategy.variance for cluster in self.clusters)
        return float(variance * self.workload.weights.max() ** 2)

    def release_plan(self, terms: PrivacyTerms) -> Plan:
        """The plan of a release that measures this strategy with the whole budget."""
        steps = tuple(
            Step(
                f"measure {cluster.strategy.queries.description}", float(cluster.share), 1, self._stddev(terms, cluster)
            )
            for cluster in self.clusters
        )
        total_error = 0.0
        for cluster in self.clusters:
            measured = cluster.strategy.queries
            scale = terms.measure_scale(measured, cluster.share)
            for product_term in (self._queries.terms[index] for index in cluster.term_indices):
                factors = cluster.strategy.reconstruction(product_term)
                error = mean_absolute_error(terms.noise, scale, measured.denominator, factors)
                total_error += product_term.size * error
        memory = 32 * self._queries.size + 32 * sum(cluster.strategy.queries.size for cluster in self.clusters)
        events = tuple(terms.measured(cluster.share) for cluster in self.clusters)
        return Plan(steps, 0, memory, total_error / self._queries.size, (), events)

    def run(self, private: PrivateStatistics, progress: Progress) -> Release:
        """Measures the strategy with the whole budget and answers the workload by least squares."""
        private.expect(
            Products(self._queries.domain, tuple(cluster.strategy.queries.terms[0] for cluster in self.clusters))
        )
        measured: list[Measurement] = []
        for done, cluster in enumerate(self.clusters):
            measured.append(private.measure(cluster.strategy.queries, cluster.share))  # MEASURE
            progress(done + 1, len(self.clusters))
        cluster_of_term = {
            index: (cluster, measurement)
            for cluster, measurement in zip(self.clusters, measured, strict=True)
            for index in cluster.term_indices
        }
        parts = []
        for index, product_term in enumerate(self._queries.terms):
            cluster, measurement = cluster_of_term[index]
            parts.append((measurement, cluster.strategy.reconstruction(product_term)))
        return Release(self.workload, local_least_squares(parts), None, tuple(measured))  # ESTIMATE

    @property
    def _queries(self) -> Products:
        assert isinstance(self.workload.queries, Products)
        return self.workload.queries

    def _stddev(self, terms: PrivacyTerms, cluster: Cluster) -> float:
        """Standard deviation of the noise in one measured value, in counts."""
        queries = cluster.strategy.queries
        return noise_stddev(terms.noise, terms.measure_scale(queries, cluster.share)) / queries.denominator


@lru_cache(maxsize=4)
def _cached_clusters(key: ProductsKey) -> tuple[Cluster, ...]:
    """The clusters; empty if the workload cannot be clustered."""
    try:
        return clustered_terms(key.queries, key.squared_weights)
    except ValueError:
        return ()
