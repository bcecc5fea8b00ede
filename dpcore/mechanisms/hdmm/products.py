"""What ``hdmm`` measures for marginals of prefixes and ranges under Gaussian noise: all residuals, in one call."""

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
from dpcore.mechanisms.additive_noise import LARGEST_ANSWERS
from dpcore.mechanisms.api import Plan, Progress, Release, Step
from dpcore.queries import Products
from dpcore.strategies.residual_planning.product_residuals import ProductResidualPlan, product_residuals
from dpcore.workload import Workload, relative


@final
@dataclass(frozen=True, eq=False)
class MeasuredProductResiduals:
    """Residual planning for products: one matrix an attribute, the same in each term that contains it.

    workload: Of products. selected: The residuals to measure.

    Source: ResidualPlanner+ (the successor of Xiao, He, Zhang and Kifer, 2023), with split points of this project.
    """

    workload: Workload
    selected: ProductResidualPlan

    @classmethod
    def of(cls, terms: PrivacyTerms, workload: Workload) -> MeasuredProductResiduals | None:
        """From public facts alone; None for other queries or noise, for two matrices of one attribute, and too many.

        Kept for the last few workloads, so that a run does not choose again what its plan chose.
        """
        queries = workload.queries
        if terms.noise is Noise.LAPLACE or not isinstance(queries, Products):
            return None
        try:
            selected = product_residuals(queries, relative(workload.weights) ** 2)
        except ValueError:
            return None
        return cls(workload, selected) if selected.queries.size <= LARGEST_ANSWERS else None

    def weighted_error(self, terms: PrivacyTerms) -> float:
        """Expected sum over the answers of (weight * error)^2."""
        return (self._stddev(terms) * float(self.workload.weights.max())) ** 2 * self.selected.variance

    def of_release(self, terms: PrivacyTerms) -> Plan:
        queries = self.selected.queries
        stddev = self._stddev(terms) / queries.denominator
        step = Step(f"measure {len(queries.terms):,} residuals of marginals", 1.0, 1, stddev)
        memory = 32 * self._queries.size + 32 * queries.size
        notes: tuple[str, ...] = ()
        if not terms.unit.replaced:  # The bound is of rows that are added or removed.
            beyond = math.sqrt(1 + max(self.selected.gap, 0.0)) - 1
            notes = (f"at most {beyond:.2%} above the least weighted error of linear queries with Gaussian noise",)
        return Plan((step,), 0, memory, self._absolute(terms), notes, (terms.measured(Fraction(1)),))

    def run(self, private: PrivateStatistics, progress: Progress) -> Release:
        measured = private.measure(self.selected.queries, Fraction(1), progress)  # MEASURE
        answers = ProductResiduals(measured).answers(self._queries)  # ESTIMATE
        return Release(self.workload, answers, None, (measured,))

    @property
    def _queries(self) -> Products:
        assert isinstance(self.workload.queries, Products)
        return self.workload.queries

    def _stddev(self, terms: PrivacyTerms) -> float:
        """Of the noise in one integer answer, before the denominator."""
        return noise_stddev(terms.noise, terms.measure_scale(self.selected.queries, Fraction(1)))

    def _absolute(self, terms: PrivacyTerms) -> float:
        """Expected absolute error of an answer, the mean over all."""
        queries = self.selected.queries
        scale = terms.measure_scale(queries, Fraction(1)) / queries.denominator
        none = Measurement(queries, np.zeros(queries.size), terms.noise, scale)
        return math.sqrt(2 / math.pi) * float(ProductResiduals(none).stddev(self._queries).mean())
