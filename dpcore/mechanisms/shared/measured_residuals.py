"""Measures marginals by their residuals under Gaussian noise: for hdmm, gaussian_pgm, aim and adaptive_residuals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
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
from dpcore.strategies.residual_planning.remaining_error import PossibleSizes, next_shares
from dpcore.workload import Workload, added_weights

Error = Literal["squared", "absolute", "largest"]
_PLANNERS: Final[dict[Error, Callable[..., ResidualPlan]]] = {
    "squared": least_squared_error,
    "absolute": least_absolute_error,
    "largest": least_largest_variance,
}
_LEAST_SHARES: Final = (0.0, 1e-5, 1e-4, 1e-3, 1e-2)  # Relative to the largest one; smaller ones are left out.


@final
@dataclass(frozen=True, eq=False)
class MeasuredResiduals:
    """Residual planning: the optimal linear queries with Gaussian noise for a workload of marginals.

    workload: The workload of marginals.
    plan: The residuals to measure, with their precisions.
    queries: The same residuals as products, one term per residual.
    error: What the plan minimises: the sum of weighted "squared" or "absolute" errors, or the "largest" weighted
        variance of a cell.

    Source: Xiao, He, Zhang and Kifer (2023), ResidualPlanner.
    """

    workload: Workload
    plan: ResidualPlan
    queries: Products
    error: Error = "squared"

    @classmethod
    def of(cls, terms: PrivacyTerms, workload: Workload, *, error: Error = "squared") -> MeasuredResiduals | None:
        """Plans the residuals from public facts alone.

        Returns None for other queries than marginals, for Laplace noise, and if an attribute has too many values.
        """
        queries = workload.queries
        if terms.noise is Noise.LAPLACE or not isinstance(queries, Marginals) or not queries.cliques:
            return None
        try:
            weights = added_weights(workload, 1 if error == "absolute" else 2)
            plan = _PLANNERS[error](queries.domain, weights, replaced=terms.unit.replaced)
            return cls(workload, plan, joint_queries(plan), error)
        except ValueError:
            return None

    def favouring_small(self, factor: float) -> Products:
        """The residuals to measure if each attribute after the first multiplies a residual's share by ``factor``.

        It suits estimates that shrink residuals of many attributes more than those of few. At 1 they are ``queries``.
        """
        orders = np.array([max(0, len(clique) - 1) for clique in self.plan.residuals])
        shares = self.plan.shares * factor**orders
        return joint_queries(replace(self.plan, shares=shares / shares.sum()))

    def next_queries(self, terms: PrivacyTerms, measured: Residuals, sizes: PossibleSizes, share: Fraction) -> Products:
        """The residuals to measure next with a share of the budget, given what is known of them.

        measured: All residuals of ``queries``, from earlier calls.
        sizes: How large each may be.
        share: The share of the whole budget that the next call will have.

        They are ``queries`` again if even the largest shares differ by too much for integer weights or for the scale of
        the noise.

        Source: ``remaining_error.next_shares``.
        """
        unit_variance = self._unit_stddev(terms) ** 2
        costs = dict(zip(self.plan.residuals, self.plan.costs.tolist(), strict=True))
        spent = {part: unit_variance * cost / measured.residual(part)[1] for part, cost in costs.items()}
        weights = added_weights(self.workload, 1)
        shares = next_shares(
            self.plan.domain, weights, sizes, spent, float(share), unit_variance, replaced=terms.unit.replaced
        )
        largest = max(shares.values())
        for least in _LEAST_SHARES:
            kept = {part: one for part, one in shares.items() if one >= least * largest}
            values = np.array(list(kept.values()))
            plan = replace(
                self.plan,
                residuals=tuple(kept),
                shares=values / values.sum(),
                costs=np.array([costs[part] for part in kept]),
            )
            try:
                queries = joint_queries(plan)
                terms.measure_scale(queries, share)
            except ValueError:  # Also ScaleError.
                continue
            return queries
        return self.queries

    def weighted_error(self, terms: PrivacyTerms) -> float:
        """Expected sum over the answers of (weight * error)^2, or for "largest" the maximum of weight^2 * variance.

        It is defined for plans of "squared" and "largest" errors.
        """
        return (self._unit_stddev(terms) * float(self.workload.weights.max())) ** 2 * self.plan.error

    def step(self, terms: PrivacyTerms) -> Step:
        """The step of a plan. Its standard deviation is that of a measured sum with large weights, not of a count."""
        stddev = noise_stddev(terms.noise, terms.measure_scale(self.queries, Fraction(1)))
        return Step(
            f"measure {len(self.plan.residuals):,} weighted residuals of marginals", 1.0, 1, stddev, weighted_sums=True
        )

    def release_plan(self, terms: PrivacyTerms) -> Plan:
        """The plan of a release that measures these residuals with the whole budget."""
        memory = 32 * self.workload.queries.size + 32 * self.queries.size
        notes: tuple[str, ...] = ("no linear queries with Gaussian noise have a smaller weighted squared error",)
        if self.error == "largest":
            relative_excess = math.sqrt(1 + self.plan.gap) - 1
            notes = (f"the largest weighted error is at most {relative_excess:.2%} above the minimum possible",)
        if terms.unit.replaced:
            notes = ()  # Optimality is proven for adding or removing a row only.
        return Plan((self.step(terms),), 0, memory, self.absolute_error(terms), notes, (terms.measured(Fraction(1)),))

    def run(self, private: PrivateStatistics, progress: Progress) -> Release:
        """Measures the residuals with the whole budget and answers the workload by least squares."""
        assert isinstance(self.workload.queries, Marginals)
        measured = private.measure(self.queries, Fraction(1), progress)  # MEASURE
        answers = Residuals([measured]).answers(self.workload.queries)  # ESTIMATE
        return Release(self.workload, answers, None, (measured,))

    def _unit_stddev(self, terms: PrivacyTerms) -> float:
        """Standard deviation, in counts, of the noise that the whole budget gives a query of sensitivity 1."""
        stddev = noise_stddev(terms.noise, terms.measure_scale(self.queries, Fraction(1)))
        return stddev / joint_noise(self.plan, self.queries)

    def absolute_error(self, terms: PrivacyTerms) -> float:
        """Expected absolute error of an answer, in counts, averaged over all answers."""
        queries = self.workload.queries
        assert isinstance(queries, Marginals)
        stddev_of = dict(zip(self.plan.marginals, np.sqrt(self.plan.variances).tolist(), strict=True))
        total = sum(size * stddev_of[clique] for clique, size in zip(queries.cliques, queries.sizes, strict=True))
        return float(math.sqrt(2 / math.pi) * self._unit_stddev(terms) * total / queries.size)
