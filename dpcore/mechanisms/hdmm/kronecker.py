"""What ``hdmm`` measures for a union of products about few attributes under Laplace noise: one product for all."""

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
from dpcore.mechanisms.hdmm.strategy_key import AskedProducts
from dpcore.queries import Products
from dpcore.strategies.kronecker.joint_strategy import KroneckerStrategy, kronecker_strategy
from dpcore.workload import Workload

LARGEST_CELLS: Final = 1 << 21  # Of the attributes that are asked for, together.
LARGEST_SIZE: Final = 1 << 8  # Values of one attribute: more would take minutes.


@final
@dataclass(frozen=True, eq=False)
class MeasuredKronecker:
    """OPT_x: products asked of few attributes, from the answers of one product of p-Identity strategies.

    workload: Of products, two terms or more. strategy: What is measured.

    Source: thesis of McKenna (2022), Definitions 14, 19 and 20, here with all attributes at once.
    """

    workload: Workload
    strategy: KroneckerStrategy

    @classmethod
    def of(cls, terms: PrivacyTerms, workload: Workload) -> MeasuredKronecker | None:
        """From public facts alone; None for other queries or noise, one term, attributes of too many cells, and noise
        of too many bits.

        Kept for the last few workloads, so that a run does not choose again what its plan chose.
        """
        queries = workload.queries
        if terms.noise is not Noise.LAPLACE or not isinstance(queries, Products) or len(queries.terms) < 2:
            return None
        named = queries.domain.canonical({name for term in queries.terms for name in term.clique})
        if not named or max(queries.domain.shape(named)) > LARGEST_SIZE or queries.size > LARGEST_ANSWERS:
            return None
        if queries.domain.size(named) > LARGEST_CELLS:
            return None
        strategy = _selected(AskedProducts.of(queries, workload))
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

    def of_release(self, terms: PrivacyTerms) -> Plan:
        measured = self.strategy.queries
        step = Step(f"measure {measured.description}", 1.0, 1, self._stddev(terms))
        scale = terms.measure_scale(measured, Fraction(1))
        absolute = 0.0
        for term in self._queries.terms:
            factors = self.strategy.reconstruction(term)
            absolute += term.size * mean_absolute_error(terms.noise, scale, measured.denominator, factors)
        memory = 32 * self._queries.size + 32 * measured.size
        events = (terms.measured(Fraction(1)),)
        return Plan((step,), 0, memory, absolute / self._queries.size, (), events)

    def run(self, private: PrivateStatistics, progress: Progress) -> Release:
        measured = private.measure(self.strategy.queries, Fraction(1), progress)  # MEASURE
        parts = [(measured, self.strategy.reconstruction(term)) for term in self._queries.terms]
        return Release(self.workload, local_least_squares(parts), None, (measured,))  # ESTIMATE

    @property
    def _queries(self) -> Products:
        assert isinstance(self.workload.queries, Products)
        return self.workload.queries

    def _stddev(self, terms: PrivacyTerms) -> float:
        """Of the noise in one measured value."""
        queries = self.strategy.queries
        return noise_stddev(terms.noise, terms.measure_scale(queries, Fraction(1))) / queries.denominator


@lru_cache(maxsize=4)
def _selected(clique_weights: AskedProducts) -> KroneckerStrategy | None:
    """Searched once for a plan and its run; None where there is none."""
    try:
        return kronecker_strategy(clique_weights.queries, clique_weights.squared_weights)
    except ValueError:
        return None
