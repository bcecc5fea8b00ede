"""Marginals under Gaussian noise, measured as all their residuals in one call: by hdmm, gaussian_pgm and aim."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, final

import numpy as np

from dpcore.estimation.reconstruction.residuals import Residuals
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Noise, noise_stddev
from dpcore.mechanisms.api import Plan, Progress, Release, Step
from dpcore.queries import Marginals, Products
from dpcore.strategies.residual_planning.bases import joint_noise, joint_queries
from dpcore.strategies.residual_planning.planning import (
    ResidualPlan,
    least_absolute_error,
    least_largest_variance,
    least_squared_error,
)
from dpcore.workload import Workload, added_weights

Error = Literal["squared", "absolute", "largest"]
_LEAST: Final[dict[Error, Callable[..., ResidualPlan]]] = {
    "squared": least_squared_error,
    "absolute": least_absolute_error,
    "largest": least_largest_variance,
}


@final
@dataclass(frozen=True, eq=False)
class MeasuredResiduals:
    """Residual planning: what linear queries with Gaussian noise can do best.

    workload: Of marginals. plan: Of their residuals. queries: These, a term each. error: What the plan has least of:
        the sum of weighted "squared" or "absolute" errors, or the "largest" weighted variance of a cell.

    Source: Xiao, He, Zhang and Kifer (2023), ResidualPlanner.
    """

    workload: Workload
    plan: ResidualPlan
    queries: Products
    error: Error = "squared"

    @classmethod
    def of(cls, terms: PrivacyTerms, workload: Workload, *, error: Error = "squared") -> MeasuredResiduals | None:
        """From public facts alone; None for other queries or noise, and for attributes of too many values."""
        queries = workload.queries
        if terms.noise is Noise.LAPLACE or not isinstance(queries, Marginals) or not queries.cliques:
            return None
        try:
            weights = added_weights(workload, 1 if error == "absolute" else 2)
            plan = _LEAST[error](queries.domain, weights, replaced=terms.unit.replaced)
            return cls(workload, plan, joint_queries(plan), error)
        except ValueError:
            return None

    def weighted_error(self, terms: PrivacyTerms) -> float:
        """Expected sum over the answers of (weight * error)^2; the largest weight^2 * variance where that is wanted.

        For plans of squared and largest errors.
        """
        return (self._unit(terms) * float(self.workload.weights.max())) ** 2 * self.plan.error

    def step(self, terms: PrivacyTerms) -> Step:
        """Its standard deviation is that of a measured value: of a sum with large weights, not of a count."""
        stddev = noise_stddev(terms.noise, terms.measure_scale(self.queries, Fraction(1)))
        return Step(f"measure {len(self.plan.residuals):,} weighted residuals of marginals", 1.0, 1, stddev)

    def of_release(self, terms: PrivacyTerms) -> Plan:
        memory = 32 * self.workload.queries.size + 32 * self.queries.size
        notes: tuple[str, ...] = ("no linear queries with Gaussian noise have a smaller weighted squared error",)
        if self.error == "largest":
            beyond = math.sqrt(1 + self.plan.gap) - 1
            notes = (f"the largest weighted error is at most {beyond:.2%} above the least possible",)
        if terms.unit.replaced:
            notes = ()  # The bound is of rows that are added or removed.
        return Plan((self.step(terms),), 0, memory, self.absolute_error(terms), notes, (terms.measured(Fraction(1)),))

    def run(self, private: PrivateStatistics, progress: Progress) -> Release:
        assert isinstance(self.workload.queries, Marginals)
        measured = private.measure(self.queries, Fraction(1), progress)  # MEASURE
        answers = Residuals([measured]).answers(self.workload.queries)  # ESTIMATE
        return Release(self.workload, answers, None, (measured,))

    def _unit(self, terms: PrivacyTerms) -> float:
        """Noise that the budget pays for in a query of sensitivity 1, as a standard deviation in counts."""
        stddev = noise_stddev(terms.noise, terms.measure_scale(self.queries, Fraction(1)))
        return stddev / joint_noise(self.plan, self.queries)

    def absolute_error(self, terms: PrivacyTerms) -> float:
        """Expected absolute error of an answer, the mean over all."""
        queries = self.workload.queries
        assert isinstance(queries, Marginals)
        stddev = dict(zip(self.plan.marginals, np.sqrt(self.plan.variances).tolist(), strict=True))
        total = sum(size * stddev[clique] for clique, size in zip(queries.cliques, queries.sizes, strict=True))
        return float(math.sqrt(2 / math.pi) * self._unit(terms) * total / queries.size)
