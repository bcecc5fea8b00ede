"""Residual planning: the optimal noise variance of each residual of marginals, under Gaussian noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from dpcore.domain import Clique, Domain
from dpcore.strategies.residual_planning.lattice import Allocation, Lattice, Vector

_MAX_EXPONENT, _EXPONENT_DECAY = 1.9, 0.8  # The exponent of the multiplier updates, and its decay after an overshoot.
# Smallest multiplier, relative to their sum: a multiplier of 0 could leave a residual without any share of the budget.
_MIN_MULTIPLIER: Final = 1e-15


@dataclass(frozen=True, eq=False)
class ResidualPlan:
    """The residuals to measure for a workload of marginals, and the share of the budget of each.

    The residual of a set of attributes a is the projection of the table of a onto the tables that sum to 0 along every
    axis. A marginal is the sum of the residuals of its parts (the subsets of its attributes), each spread evenly over
    the remaining attributes.

    "Unit noise" means that the whole budget buys noise of variance 1 for a query of sensitivity 1.

    domain: The domain of the workload.
    residuals: The attributes of each residual, in the order of the domain, small sets first. Every part of a marginal
        has a residual, except the parts with an attribute of one value, whose residual is 0.
    shares: float64 [residuals], positive with sum 1: shares of the budget, which is additive in 1 / sigma^2.
    costs: float64 [residuals], squared sensitivities p_a. They are prod (n - 1) / n if neighbouring tables differ by an
        added or removed row.
    marginals: The cliques of the workload, each once, small ones first.
    variances: float64 [marginals], the variance of each cell of a marginal at unit noise.
    error: The minimised loss at unit noise.
    bound: A lower bound on the loss at unit noise. For squared error and largest variance, with neighbours that differ
        by an added or removed row, it holds for every unbiased mechanism that adds Gaussian noise to linear queries.
        Otherwise it holds for all plans that charge each residual separately.
    steps: The number of plans computed to find this one.
    """

    domain: Domain
    residuals: tuple[Clique, ...]
    shares: Vector
    costs: Vector
    marginals: tuple[Clique, ...]
    variances: Vector
    error: float
    bound: float
    steps: int = 1

    @property
    def noise(self) -> Vector:
        """s_a = p_a / share, float64 [residuals]: at unit noise a residual has the noise N(0, s_a * projection)."""
        return self.costs / self.shares

    @property
    def gap(self) -> float:
        """The relative excess error / bound - 1."""
        return self.error / self.bound - 1


def least_squared_error(domain: Domain, weights: Mapping[Clique, float], replaced: bool = False) -> ResidualPlan:
    """The plan of least weighted squared error: the sum over marginals and their cells of weight * variance.

    domain: The domain of the workload.
    weights: The workload's cliques with their positive weights. The weights of cliques with the same set of attributes
        are added up.
    replaced: True if neighbouring tables differ by one replaced row, False if by one added or removed row.

    Let V_a be the error that residual a contributes at s_a = 1. The total error sum V_a s_a, subject to the budget
    sum p_a / s_a = 1, is least for s_a proportional to (p_a / V_a)^(1/2); its minimum is (sum (V_a p_a)^(1/2))^2. If
    neighbours differ by an added or removed row, that minimum equals the SVD bound.

    Raises ValueError if there are no marginals or too many residuals, if an attribute is unknown or repeated, or if a
    weight is not positive and finite.

    Source: Xiao, He, Zhang and Kifer (2023), ResidualPlanner; SVD bound: thesis of McKenna (2022), Definition 12.
    """
    clique_weights = _checked(weights)
    lattice = Lattice(domain, weights, replaced)
    table_weights = lattice.sums_of_weights(clique_weights, np.add) * lattice.workload_sizes
    allocation = lattice.closed_form(table_weights)
    return _plan(lattice, domain, allocation, allocation.error, allocation.error, 1)


def least_absolute_error(
    domain: Domain, weights: Mapping[Clique, float], gap: float = 1e-4, steps: int = 200, replaced: bool = False
) -> ResidualPlan:
    """The plan of least weighted absolute error: the sum over marginals and their cells of weight * standard deviation.

    domain, weights, replaced: The same as for ``least_squared_error``.
    gap: Stop once error / bound - 1 is at most this; positive.
    steps: Maximum number of steps, >= 1.

    The problem is convex, because the error is a norm of share^(-1/2). A standard deviation is at most
    (s + variance / s) / 2, with equality at its current value s. Each step minimises this majorant, which is
    ``least_squared_error`` with the weights weight / s, so the error never increases. The lower bound is the minimum
    over the simplex of the tangent plane at the current shares, attained at a corner. It uses that the error is
    homogeneous of degree -1/2 in the shares.

    Raises ValueError as ``least_largest_variance`` does.

    Source: this project.
    """
    _check_steps(gap, steps)
    clique_weights = _checked(weights)
    lattice = Lattice(domain, weights, replaced)
    table_weights = lattice.sums_of_weights(clique_weights, np.add) * lattice.workload_sizes
    allocation, bound, step = lattice.closed_form(table_weights), 0.0, 0
    while True:
        deviations = np.sqrt(lattice.variances(allocation.noise * lattice.energies))
        error, step = float(table_weights @ deviations), step + 1
        following = lattice.closed_form(table_weights / deviations)
        positive = allocation.shares > 0
        steepest = np.max((following.shares[positive] / allocation.shares[positive]) ** 2)
        bound = max(bound, 1.5 * error - following.error * float(steepest) / 2)
        if error <= (1 + gap) * bound or step >= steps:
            return _plan(lattice, domain, allocation, error, bound, step)
        allocation = following


def least_largest_variance(
    domain: Domain, weights: Mapping[Clique, float], gap: float = 1e-4, steps: int = 2000, replaced: bool = False
) -> ResidualPlan:
    """The plan whose largest weighted variance of a cell is least: max over marginals of weight * variance.

    domain, replaced: The same as for ``least_squared_error``.
    weights: The workload's cliques with their positive weights. Among cliques with the same set of attributes, the
        largest weight counts.
    gap: Stop once error / bound - 1 is at most this; positive.
    steps: Maximum number of steps, >= 1.

    The problem is convex and solved by its dual. For multipliers c_b >= 0 with sum 1, the least possible sum of
    c_b * weight * variance has the closed form of ``least_squared_error`` and is a lower bound; its maximum over c is
    the optimum. The gradient in c is the vector of weighted variances. Each step multiplies c by a power of the ratio
    of these variances to the bound.

    Raises ValueError as ``least_squared_error`` does, and if ``gap`` is not positive or ``steps`` is below 1.

    Source: Xiao, He, Zhang and Kifer (2023), ResidualPlanner, for the problem; the dual ascent is this project's.
    """
    _check_steps(gap, steps)
    clique_weights = _checked(weights)
    lattice = Lattice(domain, weights, replaced)
    importance = lattice.sums_of_weights(clique_weights, np.maximum)
    multipliers = np.full(len(importance), 1 / len(importance))
    exponent, step = _MAX_EXPONENT, 1
    best = allocation = lattice.closed_form(multipliers * importance)
    weighted = lattice.variances(allocation.noise * lattice.energies) * importance
    error, bound = float(weighted.max()), allocation.error
    while error > (1 + gap) * bound and step < steps:
        multipliers = np.maximum(multipliers * (weighted / allocation.error) ** exponent, _MIN_MULTIPLIER)
        multipliers /= multipliers.sum()
        previous_bound, allocation = allocation.error, lattice.closed_form(multipliers * importance)
        weighted, step = lattice.variances(allocation.noise * lattice.energies) * importance, step + 1
        if allocation.error < previous_bound:
            exponent = max(1.0, exponent * _EXPONENT_DECAY)
        if weighted.max() < error:
            best, error = allocation, float(weighted.max())
        bound = max(bound, allocation.error)
    return _plan(lattice, domain, best, error, bound, step)


def _plan(
    lattice: Lattice, domain: Domain, allocation: Allocation, error: float, bound: float, steps: int
) -> ResidualPlan:
    """The plan of an allocation, without the residuals whose share is 0."""
    kept, cliques = allocation.shares > 0, lattice.parts
    residuals = tuple(cliques) if kept.all() else tuple(cliques[index] for index in np.flatnonzero(kept).tolist())
    marginals = tuple(cliques[index] for index in lattice.workload.tolist())
    variances = lattice.variances(allocation.noise * lattice.energies)
    shares, costs = allocation.shares[kept], lattice.costs[kept]
    for vector in (shares, costs, variances):
        vector.flags.writeable = False
    return ResidualPlan(domain, residuals, shares, costs, marginals, variances, error, bound, steps)


def _checked(weights: Mapping[Clique, float]) -> Vector:
    values = np.array(list(weights.values()), dtype=np.float64)
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError("a weight of a marginal is not a positive finite number; want > 0")
    return values


def _check_steps(gap: float, steps: int) -> None:
    if not gap > 0 or steps < 1:
        raise ValueError(f"gap {gap}, steps {steps}; want gap > 0 and steps >= 1")
