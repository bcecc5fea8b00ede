"""What ``hdmm`` measures for a workload of marginals under Gaussian noise: all their residuals, in one call."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from dpcore.estimation.residuals import Residuals
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.terms import Terms
from dpcore.measurement import Noise, noise_stddev
from dpcore.mechanisms.api import Plan, Progress, Release, Step
from dpcore.queries import Marginals, Products
from dpcore.strategies.residual_bases import joint_noise, joint_queries
from dpcore.strategies.residual_planning import ResidualPlan, least_squared_error
from dpcore.workload import Workload, squared_weights


@final
@dataclass(frozen=True, eq=False)
class MeasuredResiduals:
    """Residual planning: the least weighted squared error that linear queries with Gaussian noise can have.

    workload: Of marginals. plan: Of their residuals. queries: These, a term each.

    Source: Xiao, He, Zhang and Kifer (2023), ResidualPlanner.
    """

    workload: Workload
    plan: ResidualPlan
    queries: Products

    @classmethod
    def of(cls, terms: Terms, workload: Workload) -> MeasuredResiduals | None:
        """From public facts alone; None for other queries or noise, and for attributes of too many values."""
        queries = workload.queries
        if terms.noise is Noise.LAPLACE or not isinstance(queries, Marginals) or not queries.cliques:
            return None
        try:
            plan = least_squared_error(queries.domain, squared_weights(workload), terms.unit.replaced)
            return cls(workload, plan, joint_queries(plan))
        except ValueError:
            return None

    def weighted_error(self, terms: Terms) -> float:
        """Expected sum over the answers of (weight * error)^2."""
        return (self._unit(terms) * float(self.workload.weights.max())) ** 2 * self.plan.error

    def of_release(self, terms: Terms) -> Plan:
        stddev = noise_stddev(terms.noise, terms.measure_scale(self.queries, Fraction(1)))
        step = Step(f"measure {len(self.plan.residuals):,} residuals of marginals", 1.0, 1, stddev)
        memory = 32 * self.workload.queries.size + 32 * self.queries.size
        notes: tuple[str, ...] = ("no linear queries with Gaussian noise have a smaller weighted squared error",)
        if terms.unit.replaced:
            notes = ()  # The bound is of rows that are added or removed.
        return Plan((step,), 0, memory, self._absolute(terms), notes, (terms.measured(Fraction(1)),))

    def run(self, private: PrivateStatistics, progress: Progress) -> Release:
        assert isinstance(self.workload.queries, Marginals)
        measured = private.measure(self.queries, Fraction(1), progress)  # MEASURE
        answers = Residuals([measured]).answers(self.workload.queries)  # ESTIMATE
        return Release(self.workload, answers, None, (measured,))

    def _unit(self, terms: Terms) -> float:
        """Noise that the budget pays for in a query of sensitivity 1, as a standard deviation in counts."""
        stddev = noise_stddev(terms.noise, terms.measure_scale(self.queries, Fraction(1)))
        return stddev / joint_noise(self.plan, self.queries)

    def _absolute(self, terms: Terms) -> float:
        """Expected absolute error of an answer, the mean over all."""
        queries = self.workload.queries
        assert isinstance(queries, Marginals)
        stddev = dict(zip(self.plan.marginals, np.sqrt(self.plan.variances).tolist(), strict=True))
        total = sum(size * stddev[clique] for clique, size in zip(queries.cliques, queries.sizes, strict=True))
        return float(math.sqrt(2 / math.pi) * self._unit(terms) * total / queries.size)
