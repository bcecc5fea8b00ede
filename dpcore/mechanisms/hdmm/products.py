"""What ``hdmm`` measures for marginals of prefixes and ranges under Gaussian noise: all residuals in one call."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from dpcore.estimation.reconstruction.product_residuals import ProductResiduals
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, Noise, noise_stddev
from dpcore.mechanisms.api import Plan, Progress, Release, Step
from dpcore.mechanisms.hdmm.parts import LARGEST_ANSWERS
from dpcore.queries import Products
from dpcore.strategies.residual_planning.product_residuals import ProductResidualPlan, product_residuals
from dpcore.workload import Workload, relative


@final
@dataclass(frozen=True, eq=False)
class MeasuredProductResiduals:
    """Residual planning for products that have one matrix per attribute, the same in every term.

    workload: A workload of products.
    strategy: The residuals to measure.

    Source: ResidualPlanner+ (the successor of Xiao, He, Zhang and Kifer, 2023), with split points of this project.
    """

    workload: Workload
    strategy: ProductResidualPlan

    @classmethod
    def of(cls, terms: PrivacyTerms, workload: Workload) -> MeasuredProductResiduals | None:
        """Plans the residuals, from public facts alone.

        Returns None for other queries than products, for Laplace noise, for two different matrices of one attribute,
        and for too many measured values.
        """
        queries = workload.queries
        if terms.noise is Noise.LAPLACE or not isinstance(queries, Products):
            return None
        try:
            strategy = product_residuals(queries, relative(workload.weights) ** 2)
        except ValueError:
            return None
        return cls(workload, strategy) if strategy.queries.size <= LARGEST_ANSWERS else None

    def weighted_error(self, terms: PrivacyTerms) -> float:
        """Expected sum over the answers of (weight * error)^2."""
        return (self._stddev(terms) * float(self.workload.weights.max())) ** 2 * self.strategy.variance

    def release_plan(self, terms: PrivacyTerms) -> Plan:
        """The plan of a release that measures this strategy with the whole budget."""
        queries = self.strategy.queries
        stddev = self._stddev(terms) / queries.denominator
        step = Step(f"measure {len(queries.terms):,} residuals of marginals", 1.0, 1, stddev, weighted_sums=True)
        memory = 48 * self._queries.size + 48 * queries.size
        notes: tuple[str, ...] = ()
        if not terms.unit.replaced:  # The bound is proven for adding or removing a row only.
            excess = math.sqrt(1 + max(self.strategy.gap, 0.0)) - 1
            notes = (f"at most {excess:.2%} above the minimum weighted error of linear queries with Gaussian noise",)
        return Plan((step,), 0, memory, self._absolute_error(terms), notes, (terms.measured(Fraction(1)),))

    def run(self, private: PrivateStatistics, progress: Progress) -> Release:
        """Measures the strategy with the whole budget and answers the workload by least squares."""
        measured = private.measure(self.strategy.queries, Fraction(1), progress)  # MEASURE
        answers = ProductResiduals(measured).answers(self._queries)  # ESTIMATE
        return Release(self.workload, answers, None, (measured,))

    @property
    def _queries(self) -> Products:
        assert isinstance(self.workload.queries, Products)
        return self.workload.queries

    def _stddev(self, terms: PrivacyTerms) -> float:
        """Standard deviation of the noise in one integer answer, before the division by the denominator."""
        return noise_stddev(terms.noise, terms.measure_scale(self.strategy.queries, Fraction(1)))

    def _absolute_error(self, terms: PrivacyTerms) -> float:
        """Expected absolute error of an answer, in counts, averaged over all answers."""
        queries = self.strategy.queries
        scale = terms.measure_scale(queries, Fraction(1)) / queries.denominator
        zeros = Measurement(queries, np.zeros(queries.size), terms.noise, scale)
        return math.sqrt(2 / math.pi) * float(ProductResiduals(zeros).stddev(self._queries).mean())
