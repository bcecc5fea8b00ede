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
from dpcore.strategies.residual_planning import ResidualPlan, least_largest_variance, least_squared_error
from dpcore.workload import Workload, squared_weights


@final
@dataclass(frozen=True, eq=False)
class MeasuredResiduals:
    """Residual planning: the least weighted squared error that linear queries with Gaussian noise can have.

    workload: Of marginals. plan: Of their residuals. queries: These, a term each. largest: Whether the plan's error is
        the largest weighted variance of a cell.

    Source: Xiao, He, Zhang and Kifer (2023), ResidualPlanner.
    """

    workload: Workload
    plan: ResidualPlan
    queries: Products
    largest: bool = False

    @classmethod
    def of(cls, terms: Terms, workload: Workload, *, largest: bool = False) -> MeasuredResiduals | None:
        """From public facts alone; None for other queries or noise, and for attributes of too many values.

        largest: Whether the largest weighted variance of a cell is to be least, and not their sum.
        """
        queries = workload.queries
        if terms.noise is Noise.LAPLACE or not isinstance(queries, Marginals) or not queries.cliques:
            return None
        try:
            least = least_largest_variance if largest else least_squared_error
            plan = least(queries.domain, squared_weights(workload), replaced=terms.unit.replaced)
            return cls(workload, plan, joint_queries(plan), largest)
        except ValueError:
            return None

    def weighted_error(self, terms: Terms) -> float:
        """Expected sum over the answers of (weight * error)^2; the largest weight^2 * variance where that is wanted."""
        return (self._unit(terms) * float(self.workload.weights.max())) ** 2 * self.plan.error

    def of_release(self, terms: Terms) -> Plan:
        stddev = noise_stddev(terms.noise, terms.measure_scale(self.queries, Fraction(1)))
        step = Step(f"measure {len(self.plan.residuals):,} residuals of marginals", 1.0, 1, stddev)
        memory = 32 * self.workload.queries.size + 32 * self.queries.size
        notes: tuple[str, ...] = ("no linear queries with Gaussian noise have a smaller weighted squared error",)
        if self.largest:
            beyond = math.sqrt(1 + self.plan.gap) - 1
            notes = (f"the largest weighted error is at most {beyond:.2%} above the least possible",)
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
