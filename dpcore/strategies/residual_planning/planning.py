"""Residual planning: the optimal noise variance of each residual of marginals, under Gaussian noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain

Vector = NDArray[np.float64]
Positions = NDArray[np.intp]
_MAX_ORDER: Final = 18  # Largest number of attributes of a marginal; 18 attributes have 262,144 subsets.
_MAX_LEVEL_ENTRIES: Final = 1 << 24  # Largest number of entries of one level's table of attribute positions.
_MAX_CODE: Final = 1 << 62  # Codes of rows stay below this, so that they fit into int64.
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
    cliques, clique_weights = _workload(domain, weights)
    lattice = _Lattice(domain, cliques, replaced)
    table_weights = lattice.sums_of_weights(clique_weights, np.add) * lattice.workload_sizes
    allocation = lattice.closed_form(table_weights)
    return lattice.plan(domain, allocation, allocation.error, allocation.error, 1)


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
    cliques, clique_weights = _workload(domain, weights)
    lattice = _Lattice(domain, cliques, replaced)
    table_weights = lattice.sums_of_weights(clique_weights, np.add) * lattice.workload_sizes
    allocation, bound, step = lattice.closed_form(table_weights), 0.0, 0
    while True:
        deviations = np.sqrt(lattice.variances(allocation))
        error, step = float(table_weights @ deviations), step + 1
        following = lattice.closed_form(table_weights / deviations)
        positive = allocation.shares > 0
        steepest = np.max((following.shares[positive] / allocation.shares[positive]) ** 2)
        bound = max(bound, 1.5 * error - following.error * float(steepest) / 2)
        if error <= (1 + gap) * bound or step >= steps:
            return lattice.plan(domain, allocation, error, bound, step)
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
    cliques, clique_weights = _workload(domain, weights)
    lattice = _Lattice(domain, cliques, replaced)
    importance = lattice.sums_of_weights(clique_weights, np.maximum)
    multipliers = np.full(len(importance), 1 / len(importance))
    exponent, step = _MAX_EXPONENT, 1
    best = allocation = lattice.closed_form(multipliers * importance)
    weighted = lattice.variances(allocation) * importance
    error, bound = float(weighted.max()), allocation.error
    while error > (1 + gap) * bound and step < steps:
        multipliers = np.maximum(multipliers * (weighted / allocation.error) ** exponent, _MIN_MULTIPLIER)
        multipliers /= multipliers.sum()
        previous_bound, allocation = allocation.error, lattice.closed_form(multipliers * importance)
        weighted, step = lattice.variances(allocation) * importance, step + 1
        if allocation.error < previous_bound:
            exponent = max(1.0, exponent * _EXPONENT_DECAY)
        if weighted.max() < error:
            best, error = allocation, float(weighted.max())
        bound = max(bound, allocation.error)
    return lattice.plan(domain, best, error, bound, step)


@final
@dataclass(frozen=True, eq=False)
class _Allocation:
    """The noise and the budget shares of all parts, including parts that get no budget.

    noise: float64 [parts], s_a.
    shares: float64 [parts], p_a / s_a.
    error: The weighted squared error that these shares minimise.
    """

    noise: Vector
    shares: Vector
    error: float


@final
class _Lattice:
    """The lattice of all parts of a workload's marginals, with one level per number of attributes.

    Vectors have one entry per part, small parts first. Sums over all pairs of a part and a superset of it are computed
    level by level, by deleting one attribute at a time. A pair that differs in r attributes is reached by r! paths,
    which the divisions by the distance correct.
    """

    def __init__(self, domain: Domain, cliques: list[Positions], replaced: bool) -> None:
        """cliques: For each k from 0, the attribute positions of the cliques of k attributes: [cliques, k]."""
        sizes = np.array(domain.sizes, dtype=np.float64)
        self.rows, self.faces, self.clique_rows = _closure(cliques, len(sizes))
        self.starts = np.cumsum([0, *map(len, self.rows)])
        self._inverse_squares = [(sizes[rows] ** -2.0).T for rows in self.rows]
        self.parts_sizes = np.concatenate([sizes[rows].prod(axis=1) for rows in self.rows])
        self.energies = np.concatenate([(1 - 1 / sizes[rows]).prod(axis=1) for rows in self.rows])
        self.costs = self.energies.copy()
        if replaced and len(self.rows) > 1:
            # |a(x) - a(y)|^2 is largest where x and y differ in the smallest attribute alone.
            smallest = np.concatenate([sizes[rows].min(axis=1) for rows in self.rows[1:]])
            self.costs[1:] *= 2 * smallest / np.maximum(smallest - 1, 1)
        indices = np.concatenate([start + rows for start, rows in zip(self.starts[:-1], self.clique_rows, strict=True)])
        self.workload, self._workload_index = np.unique(indices, return_inverse=True)

    @property
    def workload_sizes(self) -> Vector:
        """The number of cells of each marginal of the workload."""
        return np.asarray(self.parts_sizes[self.workload])

    def sums_of_weights(self, weights: Vector, combine: np.ufunc) -> Vector:
        """The weight of each marginal of the workload; ``combine`` merges the weights of equal cliques."""
        sums = np.zeros(len(self.workload))
        combine.at(sums, self._workload_index, weights)
        return sums

    def variances(self, allocation: _Allocation) -> Vector:
        """The variance of a cell of each marginal b: the sum over a <= b of s_a p_a prod_{b - a} 1 / n^2."""
        levels = self._levels(allocation.noise * self.energies)
        current, sums = levels, [level.copy() for level in levels]
        for distance in range(1, len(levels)):
            following = [np.zeros_like(level) for level in levels]
            for order in range(distance, len(levels)):
                below = current[order - 1][self.faces[order]]
                following[order] = (below * self._inverse_squares[order]).sum(axis=0) / distance
                sums[order] += following[order]
            current = following
        return np.asarray(np.concatenate(sums)[self.workload])

    def closed_form(self, weights: Vector) -> _Allocation:
        """The allocation that minimises the sum over the workload's marginals of weight * variance of a cell."""
        part_weights = np.zeros(self.starts[-1])
        part_weights[self.workload] = weights
        levels = self._levels(part_weights)
        current, sums = levels, [level.copy() for level in levels]
        for distance in range(1, len(levels)):
            following = [np.zeros_like(level) for level in levels]
            for order in range(len(levels) - distance, 0, -1):
                contributions = (current[order] * self._inverse_squares[order]).ravel()
                faces, size = self.faces[order].ravel(), len(levels[order - 1])
                following[order - 1] = np.bincount(faces, contributions, minlength=size) / distance
                sums[order - 1] += following[order - 1]
            current = following
        roots = np.sqrt(np.concatenate(sums) * self.energies * self.costs)
        shares = roots / roots.sum()
        noise = np.divide(self.costs, shares, out=np.zeros_like(shares), where=shares > 0)
        return _Allocation(noise, shares, float(roots.sum() ** 2))

    def plan(self, domain: Domain, allocation: _Allocation, error: float, bound: float, steps: int) -> ResidualPlan:
        """The plan of an allocation, without the residuals whose share is 0."""
        kept = allocation.shares > 0
        names = np.array(domain.names, dtype=object)
        cliques = list(chain.from_iterable(map(tuple, names[rows].tolist()) for rows in self.rows))
        residuals = tuple(cliques) if kept.all() else tuple(cliques[index] for index in np.flatnonzero(kept).tolist())
        marginals = tuple(cliques[index] for index in self.workload.tolist())
        shares, costs, variances = allocation.shares[kept], self.costs[kept], self.variances(allocation)
        for vector in (shares, costs, variances):
            vector.flags.writeable = False
        return ResidualPlan(domain, residuals, shares, costs, marginals, variances, error, bound, steps)

    def _levels(self, vector: Vector) -> list[Vector]:
        return np.split(vector, self.starts[1:-1])


def _check_steps(gap: float, steps: int) -> None:
    if not gap > 0 or steps < 1:
        raise ValueError(f"gap {gap}, steps {steps}; want gap > 0 and steps >= 1")


def _workload(domain: Domain, weights: Mapping[Clique, float]) -> tuple[list[Positions], Vector]:
    """The attribute positions of the cliques, one array per order from 0 on, and the weights in the same order."""
    if not weights:
        raise ValueError("no marginals; want at least one")
    values = np.array(list(weights.values()), dtype=np.float64)
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError("a weight of a marginal is not a positive finite number; want > 0")
    cliques = list(weights)
    orders = np.array([len(clique) for clique in cliques])
    position = {name: index for index, name in enumerate(domain.names)}
    levels, level_weights = [], []
    for order in range(int(orders.max()) + 1):
        of_order = np.flatnonzero(orders == order)
        names = chain.from_iterable(cliques[index] for index in of_order.tolist())
        try:
            flat = np.fromiter((position[name] for name in names), dtype=np.intp, count=order * len(of_order))
        except KeyError as error:
            raise ValueError(f"unknown attribute {error.args[0]!r}; want one of {list(domain.names)}") from None
        rows = np.sort(flat.reshape(len(of_order), order), axis=1)
        if (repeated := np.flatnonzero((rows[:, 1:] == rows[:, :-1]).any(axis=1))).size:
            raise ValueError(f"clique {cliques[of_order[repeated[0]]]} repeats an attribute; want distinct attributes")
        levels.append(rows)
        level_weights.append(values[of_order])
    return levels, np.concatenate(level_weights)


def _closure(cliques: list[Positions], attributes: int) -> tuple[list[Positions], list[Positions], list[Positions]]:
    """All parts of the cliques, one level per number k of attributes.

    Returns three lists over k:
        rows: [parts of k attributes, k], the attribute positions of each part, ascending.
        faces: [k, parts], for each deleted attribute the index of the remaining part in the level below.
        clique_rows: [cliques of k attributes], the index of each clique in its level.
    """
    if len(cliques) > _MAX_ORDER + 1:
        raise ValueError(f"a marginal of {len(cliques) - 1} attributes; want at most {_MAX_ORDER}")
    levels, faces, clique_rows = [], [], []
    above = np.empty((0, len(cliques)), dtype=np.intp)
    for order in range(len(cliques) - 1, -1, -1):
        faces_above = [np.delete(above, index, axis=1) for index in range(order + 1)]
        candidates = np.concatenate([*faces_above, cliques[order]])
        if candidates.size > _MAX_LEVEL_ENTRIES:
            raise ValueError(
                f"the marginals have {len(candidates):,} parts of {order} attributes; want smaller cliques"
            )
        rows, inverse = _distinct(candidates, attributes)
        faces.append(inverse[: (order + 1) * len(above)].reshape(order + 1, len(above)))
        clique_rows.append(inverse[(order + 1) * len(above) :])
        levels.append(rows)
        above = rows
    # The faces of a level are indices into the level below, so they were computed one iteration later.
    return levels[::-1], [np.empty((0, 1), dtype=np.intp), *faces[:0:-1]], clique_rows[::-1]


def _distinct(rows: Positions, attributes: int) -> tuple[Positions, Positions]:
    """The distinct rows in ascending order, and the index of each row among them."""
    code, span = np.zeros(len(rows), dtype=np.int64), 1
    for column in rows.T:
        if span * attributes > _MAX_CODE:
            values, code = np.unique(code, return_inverse=True)
            span = len(values)
        code, span = code * attributes + column, span * attributes
    _, first_rows, inverse = np.unique(code, return_index=True, return_inverse=True)
    return rows[first_rows], inverse
