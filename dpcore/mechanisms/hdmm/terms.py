"""What ``hdmm`` measures for a workload of ranges under Laplace noise: a few products from which all others follow."""

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

Content = tuple[str, tuple[int, ...], bytes]


@final
@dataclass(frozen=True, eq=False)
class MeasuredTerms:
    """OPT_M with one strategy an attribute: products, from all of which together least squares answers the workload.

    workload: Of products that ask an attribute the same queries wherever they ask it. strategy: What is measured.

    Source: thesis of McKenna (2022), section 3.7; strategies of attributes, and least squares from them, are this
    project's.
    """

    workload: Workload
    strategy: ProductStrategy

    @classmethod
    def of(cls, terms: PrivacyTerms, workload: Workload) -> MeasuredTerms | None:
        """From public facts alone; None for other queries or noise, too many attributes, and noise of too many bits."""
        queries = workload.queries
        if terms.noise is not Noise.LAPLACE or not isinstance(queries, Products):
            return None
        try:
            clique_weights, matrices = clique_weights_and_matrices(queries, relative(workload.weights))
            contents = tuple((name, one.shape, frozen_bytes(one)) for name, one in matrices.items())
            measured = cls(workload, _strategy(queries.domain, tuple(clique_weights.items()), contents))
            measured._scales(terms)
        except ValueError:
            return None
        return measured

    def weighted_error(self, terms: PrivacyTerms) -> float:
        """Expected sum over the answers of (weight * error)^2."""
        return float(((cell_weights(self.workload) * self._stddevs(terms)) ** 2).sum())

    def of_release(self, terms: PrivacyTerms) -> Plan:
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
        # Sums of Laplaces are nearer to a normal variable than to one of them: at worst 13 % too large.
        absolute = math.sqrt(2 / math.pi) * float(self._stddevs(terms).mean())
        events = tuple(terms.measured(share) for _, share, _ in measured)
        memory = 32 * self._queries.size + 48 * sum(queries.size for queries, _, _ in measured)
        return Plan(steps, 0, memory, absolute, (), events)

    def run(self, private: PrivateStatistics, progress: Progress) -> Release:
        cliques = tuple(queries.terms[0].clique for queries in self.strategy.queries)
        private.expect(Marginals(self._queries.domain, cliques))
        measured: list[Measurement] = []
        for queries, share in zip(self.strategy.queries, self.strategy.shares, strict=True):
            measured.append(private.measure(queries, share))  # MEASURE
            progress(len(measured), len(cliques))
        answers = JointProducts(measured).answers(self._queries)  # ESTIMATE
        return Release(self.workload, answers, None, tuple(measured))

    def _scales(self, terms: PrivacyTerms) -> list[float]:
        """Of the noise, in steps of the integer answers."""
        pairs = zip(self.strategy.queries, self.strategy.shares, strict=True)
        return [terms.measure_scale(queries, share) for queries, share in pairs]

    def _stddevs(self, terms: PrivacyTerms) -> NDArray[np.float64]:
        """Of all answers."""
        pairs = zip(self.strategy.queries, self._scales(terms), strict=True)
        none = [Measurement(one, np.zeros(one.size), terms.noise, scale / one.denominator) for one, scale in pairs]
        return JointProducts(none).stddev(self._queries)

    @property
    def _queries(self) -> Products:
        assert isinstance(self.workload.queries, Products)
        return self.workload.queries


@lru_cache(maxsize=8)
def _strategy(
    domain: Domain, clique_weights: tuple[tuple[Clique, float], ...], contents: tuple[Content, ...]
) -> ProductStrategy:
    """Searched once for a plan and its run."""
    matrices = {name: np.frombuffer(content, dtype=np.int64).reshape(shape) for name, shape, content in contents}
    return product_strategy(domain, dict(clique_weights), matrices)
