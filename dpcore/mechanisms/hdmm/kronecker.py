"""What ``hdmm`` measures for products over few attributes under Laplace noise: one product for all terms."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, final

from dpcore.estimation.least_squares import local_least_squares, mean_absolute_error
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Noise, noise_stddev
from dpcore.mechanisms.additive_noise import LARGEST_ANSWERS
from dpcore.mechanisms.api import Plan, Progress, Release, Step
from dpcore.mechanisms.hdmm.strategy_key import ProductsKey
from dpcore.queries import Products
from dpcore.strategies.kronecker.joint_strategy import KroneckerStrategy, kronecker_strategy
from dpcore.workload import Workload

MAX_CELLS: Final = 1 << 21  # Cells of all attributes of the workload together.
MAX_SIZE: Final = 1 << 8  # Values of one attribute; the search for more would take minutes.


@final
@dataclass(frozen=True, eq=False)
class MeasuredKronecker:
    """OPT_x: one product of p-Identity strategies, from which least squares answers all terms.

    workload: A workload of products with two or more terms.
    strategy: The product that is measured.

    Source: thesis of McKenna (2022), Definitions 14, 19 and 20, here with all attributes at once.
    """

    workload: Workload
    strategy: KroneckerStrategy

    @classmethod
    def of(cls, terms: PrivacyTerms, workload: Workload) -> MeasuredKronecker | None:
        """Searches for the strategy, from public facts alone.

        Returns None for other queries than products, for a single term, for Gaussian noise, for attributes with too
        many values or cells, and if the noise has too many bits.

        The last few strategies are cached, so that a run does not search again for the strategy of its plan.
        """
        queries = workload.queries
        if terms.noise is not Noise.LAPLACE or not isinstance(queries, Products) or len(queries.terms) < 2:
            return None
        names = queries.domain.canonical({name for product_term in queries.terms for name in product_term.clique})
        if not names or max(queries.domain.shape(names)) > MAX_SIZE or queries.size > LARGEST_ANSWERS:
            return None
        if queries.domain.size(names) > MAX_CELLS:
            return None
        strategy = _cached_strategy(ProductsKey.of(queries, workload))
        if strategy is None or strategy.queries.size > LARGEST_ANSWERS:
            return None
        measured = cls(workload, strategy)
        try:
            measured._stddev(terms)
        except ValueError:
            return None
        return measured

    def weighted_error(self, terms: PrivacyTerms) -> float:
        """Expected sum over the answers of (weight * error)^2."""
        return (self._stddev(terms) * float(self.workload.weights.max())) ** 2 * self.strategy.variance

    def release_plan(self, terms: PrivacyTerms) -> Plan:
        """The plan of a release that measures this strategy with the whole budget."""
        measured = self.strategy.queries
        step = Step(f"measure {measured.description}", 1.0, 1, self._stddev(terms))
        scale = terms.measure_scale(measured, Fraction(1))
        total_error = 0.0
        for product_term in self._queries.terms:
            factors = self.strategy.reconstruction(product_term)
            total_error += product_term.size * mean_absolute_error(terms.noise, scale, measured.denominator, factors)
        memory = 32 * self._queries.size + 32 * measured.size
        events = (terms.measured(Fraction(1)),)
        return Plan((step,), 0, memory, total_error / self._queries.size, (), events)

    def run(self, private: PrivateStatistics, progress: Progress) -> Release:
        """Measures the strategy with the whole budget and answers the workload by least squares."""
        measured = private.measure(self.strategy.queries, Fraction(1), progress)  # MEASURE
        parts = [(measured, self.strategy.reconstruction(product_term)) for product_term in self._queries.terms]
        return Release(self.workload, local_least_squares(parts), None, (measured,))  # ESTIMATE

    @property
    def _queries(self) -> Products:
        assert isinstance(self.workload.queries, Products)
        return self.workload.queries

    def _stddev(self, terms: PrivacyTerms) -> float:
        """Standard deviation of the noise in one measured value, in counts."""
        queries = self.strategy.queries
        return noise_stddev(terms.noise, terms.measure_scale(queries, Fraction(1))) / queries.denominator


@lru_cache(maxsize=4)
def _cached_strategy(key: ProductsKey) -> KroneckerStrategy | None:
    """The strategy, or None if the workload has none."""
    try:
        return kronecker_strategy(key.queries, key.squared_weights)
    except ValueError:
        return None
