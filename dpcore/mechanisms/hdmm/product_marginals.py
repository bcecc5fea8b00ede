"""What ``hdmm`` measures for ranges under Laplace noise: a few products, from which all others follow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.reconstruction.joint_products import JointProducts
from dpcore.frozen import frozen_bytes
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, Noise, noise_stddev
from dpcore.mechanisms.api import Plan, Progress, Release, Step
from dpcore.queries import Marginals, Products
from dpcore.strategies.marginals.product_strategy import ProductStrategy, clique_weights_and_matrices, product_strategy
from dpcore.workload import Workload, cell_weights, relative

_FrozenMatrix = tuple[str, tuple[int, ...], bytes]  # Name of the attribute, shape and content of an int64 matrix.


@final
@dataclass(frozen=True, eq=False)
class MeasuredProductMarginals:
    """OPT_M with one strategy per attribute: measured products; least squares from all of them answers the workload.

    workload: A workload of products that have one matrix per attribute, the same in every term.
    strategy: The products to measure.

    Source: thesis of McKenna (2022), section 3.7. The strategies per attribute, and least squares from them, are this
    project's.
    """

    workload: Workload
    strategy: ProductStrategy

    @classmethod
    def of(cls, terms: PrivacyTerms, workload: Workload) -> MeasuredProductMarginals | None:
        """Searches for the strategy, from public facts alone.

        Returns None for other queries than products, for Gaussian noise, for two different matrices of one attribute,
        for too many attributes, and if the noise has too many bits.
        """
        queries = workload.queries
        if terms.noise is not Noise.LAPLACE or not isinstance(queries, Products):
            return None
        try:
            clique_weights, matrices = clique_weights_and_matrices(queries, relative(workload.weights))
            frozen = tuple((name, matrix.shape, frozen_bytes(matrix)) for name, matrix in matrices.items())
            measured = cls(workload, _cached_strategy(queries.domain, tuple(clique_weights.items()), frozen))
            measured._scales(terms)
        except ValueError:
            return None
        return measured

    def weighted_error(self, terms: PrivacyTerms) -> float:
        """Expected sum over the answers of (weight * error)^2."""
        return float(((cell_weights(self.workload) * self._stddevs(terms)) ** 2).sum())

    def release_plan(self, terms: PrivacyTerms) -> Plan:
        """The plan of a release that measures this strategy with the whole budget."""
        measured = list(zip(self.strategy.queries, self.strategy.shares, self._scales(terms), strict=True))
        steps = tuple(
            Step(
                f"measure {queries.description}",
                float(share),
                1,
                noise_stddev(terms.noise, scale) / queries.denominator,
            )
            for queries, share, scale in measured
        )
        # Sums of Laplace variables are treated as normal, which overestimates mean absolute errors by at most 13 %.
        error = math.sqrt(2 / math.pi) * float(self._stddevs(terms).mean())
        events = tuple(terms.measured(share) for _, share, _ in measured)
        memory = 32 * self._queries.size + 48 * sum(queries.size for queries, _, _ in measured)
        return Plan(steps, 0, memory, error, (), events)

    def run(self, private: PrivateStatistics, progress: Progress) -> Release:
        """Measures the strategy with the whole budget and answers the workload by least squares."""
        cliques = tuple(queries.terms[0].clique for queries in self.strategy.queries)
        private.expect(Marginals(self._queries.domain, cliques))
        measured: list[Measurement] = []
        for queries, share in zip(self.strategy.queries, self.strategy.shares, strict=True):
            measured.append(private.measure(queries, share))  # MEASURE
            progress(len(measured), len(cliques))
        answers = JointProducts(measured).answers(self._queries)  # ESTIMATE
        return Release(self.workload, answers, None, tuple(measured))

    def _scales(self, terms: PrivacyTerms) -> list[float]:
        """Noise scale of each measured product, in units of its integer answers."""
        pairs = zip(self.strategy.queries, self.strategy.shares, strict=True)
        return [terms.measure_scale(queries, share) for queries, share in pairs]

    def _stddevs(self, terms: PrivacyTerms) -> NDArray[np.float64]:
        """Standard deviations of all answers, float64 [answers], in counts."""
        zeros = [
            Measurement(product, np.zeros(product.size), terms.noise, scale / product.denominator)
            for product, scale in zip(self.strategy.queries, self._scales(terms), strict=True)
        ]
        return JointProducts(zeros).stddev(self._queries)

    @property
    def _queries(self) -> Products:
        assert isinstance(self.workload.queries, Products)
        return self.workload.queries


@lru_cache(maxsize=8)
def _cached_strategy(
    domain: Domain, clique_weights: tuple[tuple[Clique, float], ...], frozen: tuple[_FrozenMatrix, ...]
) -> ProductStrategy:
    """The strategy; it is searched for once for a plan and its run."""
    matrices = {name: np.frombuffer(content, dtype=np.int64).reshape(shape) for name, shape, content in frozen}
    return product_strategy(domain, dict(clique_weights), matrices)
