"""Residual planning: how precisely to measure each residual of marginals under Gaussian noise, best possible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.strategies.allocation import exact_shares

Vector = NDArray[np.float64]
Places = NDArray[np.intp]
_LARGEST_ORDER: Final = 18  # It has a quarter of a million parts.
_LARGEST_LEVEL: Final = 1 << 24  # Attributes of all parts of one order, as often as they are found.
_LARGEST_CODE: Final = 1 << 62
_FASTEST, _SLOWER = 1.9, 0.8
_LEAST: Final = 1e-15  # Of the sum of multipliers: a residual that is measured with no precision has no answer.


@dataclass(frozen=True, eq=False)
class ResidualPlan:
    """Residuals of marginals with the budget of each.

    The residual of attributes a is what the marginal of a tells beyond those of its parts: the projection of its table
    on the tables that sum to 0 along every axis. A marginal is the sum of the residuals of its parts, each spread
    evenly over the attributes that it lacks.

    residuals: Attributes of each, in the order of the domain, small ones first: every part of a marginal, but for those
        with an attribute of one value, whose residual is 0.
    shares: float64 [residuals], positive with sum 1: parts of the budget, which add up in 1 / sigma^2.
    costs: float64 [residuals], p_a: squared sensitivities, prod (n - 1) / n where a row is added or removed.
    marginals: Cliques of the workload, each once, small ones first.
    variances: float64 [marginals], of each cell of a marginal, at unit noise: where all of the budget pays for noise of
        variance 1 in queries of sensitivity 1.
    error: The loss at unit noise.
    bound: Of a squared or largest error, where a row is added or removed: no unbiased mechanism with Gaussian noise in
        linear queries has a smaller loss. Else no other plan of residuals, each of them charged alone, has.
    steps: How often the plan was computed.
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
        """s_a = p_a / share, float64 [residuals]: at unit noise a residual's is N(0, s_a times its projection)."""
        return self.costs / self.shares

    @property
    def gap(self) -> float:
        """error / bound - 1."""
        return self.error / self.bound - 1

    @property
    def exact_shares(self) -> tuple[Fraction, ...]:
        """The shares as exact fractions with sum at most 1."""
        return exact_shares(self.shares)


def least_squared_error(domain: Domain, weights: Mapping[Clique, float], replaced: bool = False) -> ResidualPlan:
    """The plan of least weighted squared error, sum over marginals and their cells of weight * variance.

    weights: Of marginals, positive; those of cliques that name one set of attributes add up.
    replaced: Whether neighbours replace a row; they add or remove one otherwise.

    With V_a the error that residual a brings at s_a = 1, the sum of V_a s_a is least under sum p_a / s_a = 1 at s_a
    proportional to (p_a / V_a)^(1/2), where it is (sum (V_a p_a)^(1/2))^2. Where a row is added or removed that is the
    SVD bound.

    Source: Xiao, He, Zhang and Kifer (2023), ResidualPlanner; SVD bound: thesis of McKenna (2022), Definition 12.

    Raises ValueError for no marginals, an unknown or repeated attribute, a weight that is not positive and finite, and
    where there are too many residuals.
    """
    cliques, asked = _workload(domain, weights)
    lattice = _Lattice(domain, cliques, replaced)
    together = lattice.sums_of_weights(asked, np.add) * lattice.workload_sizes
    spread = lattice.closed_form(together)
    return lattice.plan(domain, spread, spread.error, spread.error, 1)


def least_absolute_error(
    domain: Domain, weights: Mapping[Clique, float], gap: float = 1e-4, steps: int = 200, replaced: bool = False
) -> ResidualPlan:
    """The plan of least weighted absolute error, sum over marginals and their cells of weight * standard deviation.

    weights: Of marginals, positive; those of cliques that name one set of attributes add up.
    gap, steps: Stops once error / bound - 1 is at most ``gap``, or after so many steps.
    replaced: Whether neighbours replace a row; they add or remove one otherwise.

    A norm of share^(-1/2), so that the problem is convex, and at a standard deviation s the tangent (s + variance / s)
    / 2 is no smaller than any: each step is ``least_squared_error`` for weight / s, and never climbs. The bound is that
    of the tangent plane at the shares, which touches the simplex at a corner: the error is homogeneous of degree -1/2.

    Source: this project.

    Raises ValueError as ``least_largest_variance`` does.
    """
    _check_steps(gap, steps)
    cliques, asked = _workload(domain, weights)
    lattice = _Lattice(domain, cliques, replaced)
    together = lattice.sums_of_weights(asked, np.add) * lattice.workload_sizes
    spread, bound, done = lattice.closed_form(together), 0.0, 0
    while True:
        deviations = np.sqrt(lattice.variances(spread))
        error, done = float(together @ deviations), done + 1
        better = lattice.closed_form(together / deviations)
        steepest = np.max((better.shares[spread.shares > 0] / spread.shares[spread.shares > 0]) ** 2)
        bound = max(bound, 1.5 * error - better.error * float(steepest) / 2)
        if error <= (1 + gap) * bound or done >= steps:
            return lattice.plan(domain, spread, error, bound, done)
        spread = better


def least_largest_variance(
    domain: Domain, weights: Mapping[Clique, float], gap: float = 1e-4, steps: int = 2000, replaced: bool = False
) -> ResidualPlan:
    """The plan whose largest weighted variance of a cell is least: max over marginals of weight * variance.

    weights: Of marginals, positive; of cliques that name one set of attributes the largest counts.
    gap, steps: Stops once error / bound - 1 is at most ``gap``, or after so many steps.
    replaced: Whether neighbours replace a row; they add or remove one otherwise.

    The problem is convex. For multipliers c_b >= 0 with sum 1 the least sum of c_b * weight * variance has a closed
    form, as in ``least_squared_error``, and is a lower bound; over all c the largest one is the optimum. Its gradient
    is the weighted variances, and c moves by powers of their ratio to the bound.

    Source: Xiao, He, Zhang and Kifer (2023), ResidualPlanner, for the problem; the dual ascent is this project's.

    Raises ValueError as ``least_squared_error`` does, and for a gap that is not positive or less than one step.
    """
    _check_steps(gap, steps)
    cliques, asked = _workload(domain, weights)
    lattice = _Lattice(domain, cliques, replaced)
    importance = lattice.sums_of_weights(asked, np.maximum)
    multipliers = np.full(len(importance), 1 / len(importance))
    omega, done = _FASTEST, 1
    best = spread = lattice.closed_form(multipliers * importance)
    weighted = lattice.variances(spread) * importance
    error, bound = float(weighted.max()), spread.error
    while error > (1 + gap) * bound and done < steps:
        multipliers = np.maximum(multipliers * (weighted / spread.error) ** omega, _LEAST)
        multipliers /= multipliers.sum()
        before, spread = spread.error, lattice.closed_form(multipliers * importance)
        weighted, done = lattice.variances(spread) * importance, done + 1
        if spread.error < before:
            omega = max(1.0, omega * _SLOWER)
        if weighted.max() < error:
            best, error = spread, float(weighted.max())
        bound = max(bound, spread.error)
    return lattice.plan(domain, best, error, bound, done)


@final
@dataclass(frozen=True, eq=False)
class _Spread:
    """Noise s_a and shares p_a / s_a of all residuals, and the weighted error that they are best for."""

    noise: Vector
    shares: Vector
    error: float


@final
class _Lattice:
    """The parts of a workload's marginals, level by level: those of k attributes, and how they sit in each other.

    A vector has one entry a part, small parts first. Sums over pairs of a part and a larger one walk from level to
    level, deleting one attribute: r! walks join a pair whose difference has r attributes.
    """

    def __init__(self, domain: Domain, cliques: list[Places], replaced: bool) -> None:
        """cliques: Positions of attributes, [cliques of k attributes, k] for each k from 0."""
        sizes = np.array(domain.sizes, dtype=np.float64)
        self.rows, self.faces, self.own = _closure(cliques, len(sizes))
        self.starts = np.cumsum([0, *map(len, self.rows)])
        self._inverse_squares = [(sizes[rows] ** -2.0).T for rows in self.rows]
        self.parts_sizes = np.concatenate([sizes[rows].prod(axis=1) for rows in self.rows])
        self.energies = np.concatenate([(1 - 1 / sizes[rows]).prod(axis=1) for rows in self.rows])
        self.costs = self.energies.copy()
        if replaced and len(self.rows) > 1:
            # |a(x) - a(y)|^2 is largest where x and y differ in the smallest attribute alone.
            least = np.concatenate([sizes[rows].min(axis=1) for rows in self.rows[1:]])
            self.costs[1:] *= 2 * least / np.maximum(least - 1, 1)
        places = np.concatenate([start + own for start, own in zip(self.starts[:-1], self.own, strict=True)])
        self.workload, self._place = np.unique(places, return_inverse=True)

    @property
    def workload_sizes(self) -> Vector:
        """Cells of each marginal of the workload."""
        return np.asarray(self.parts_sizes[self.workload])

    def sums_of_weights(self, weights: Vector, joined: np.ufunc) -> Vector:
        """One weight a marginal of the workload."""
        found = np.zeros(len(self.workload))
        joined.at(found, self._place, weights)
        return found

    def variances(self, spread: _Spread) -> Vector:
        """Of a cell of each marginal b of the workload: sum over a <= b of s_a p_a prod_{b - a} 1 / n^2."""
        found = self._levels(spread.noise * self.energies)
        now, sums = found, [level.copy() for level in found]
        for distance in range(1, len(found)):
            following = [np.zeros_like(level) for level in found]
            for order in range(distance, len(found)):
                below = now[order - 1][self.faces[order]]
                following[order] = (below * self._inverse_squares[order]).sum(axis=0) / distance
                sums[order] += following[order]
            now = following
        return np.asarray(np.concatenate(sums)[self.workload])

    def closed_form(self, weights: Vector) -> _Spread:
        """The best plan for the sum of weight * variance of a cell, over the marginals of the workload."""
        whole = np.zeros(self.starts[-1])
        whole[self.workload] = weights
        found = self._levels(whole)
        now, sums = found, [level.copy() for level in found]
        for distance in range(1, len(found)):
            following = [np.zeros_like(level) for level in found]
            for order in range(len(found) - distance, 0, -1):
                spread = (now[order] * self._inverse_squares[order]).ravel()
                faces, size = self.faces[order].ravel(), len(found[order - 1])
                following[order - 1] = np.bincount(faces, spread, minlength=size) / distance
                sums[order - 1] += following[order - 1]
            now = following
        roots = np.sqrt(np.concatenate(sums) * self.energies * self.costs)
        shares = roots / roots.sum()
        noise = np.divide(self.costs, shares, out=np.zeros_like(shares), where=shares > 0)
        return _Spread(noise, shares, float(roots.sum() ** 2))

    def plan(self, domain: Domain, spread: _Spread, error: float, bound: float, steps: int) -> ResidualPlan:
        kept = spread.shares > 0
        names = np.array(domain.names, dtype=object)
        cliques = list(chain.from_iterable(map(tuple, names[rows].tolist()) for rows in self.rows))
        residuals = tuple(cliques) if kept.all() else tuple(cliques[place] for place in np.flatnonzero(kept).tolist())
        marginals = tuple(cliques[place] for place in self.workload.tolist())
        shares, costs, variances = spread.shares[kept], self.costs[kept], self.variances(spread)
        for vector in (shares, costs, variances):
            vector.flags.writeable = False
        return ResidualPlan(domain, residuals, shares, costs, marginals, variances, error, bound, steps)

    def _levels(self, vector: Vector) -> list[Vector]:
        return np.split(vector, self.starts[1:-1])


def _check_steps(gap: float, steps: int) -> None:
    if not gap > 0 or steps < 1:
        raise ValueError(f"gap {gap}, steps {steps}; want gap > 0 and steps >= 1")


def _workload(domain: Domain, weights: Mapping[Clique, float]) -> tuple[list[Places], Vector]:
    """Positions of the attributes of the cliques of each order, from order 0, and the weights in the same order."""
    if not weights:
        raise ValueError("no marginals; want at least one")
    given = np.array(list(weights.values()), dtype=np.float64)
    if not (np.isfinite(given).all() and (given > 0).all()):
        raise ValueError("a weight of a marginal is not a positive finite number; want > 0")
    cliques = list(weights)
    orders = np.array([len(clique) for clique in cliques])
    position = {name: place for place, name in enumerate(domain.names)}
    found, ordered = [], []
    for order in range(int(orders.max()) + 1):
        chosen = np.flatnonzero(orders == order)
        names = chain.from_iterable(cliques[place] for place in chosen.tolist())
        try:
            flat = np.fromiter((position[name] for name in names), dtype=np.intp, count=order * len(chosen))
        except KeyError as error:
            raise ValueError(f"unknown attribute {error.args[0]!r}; want one of {list(domain.names)}") from None
        rows = np.sort(flat.reshape(len(chosen), order), axis=1)
        if (twice := np.flatnonzero((rows[:, 1:] == rows[:, :-1]).any(axis=1))).size:
            raise ValueError(f"clique {cliques[chosen[twice[0]]]} repeats an attribute; want distinct attributes")
        found.append(rows)
        ordered.append(given[chosen])
    return found, np.concatenate(ordered)


def _closure(cliques: list[Places], attributes: int) -> tuple[list[Places], list[Places], list[Places]]:
    """All parts of the cliques, one level an order: rows, faces and places of the cliques.

    rows: [parts of k attributes, k], ascending. faces: [k, parts], for each attribute that is deleted the place in the
    level below. places: [cliques of k attributes], in that level.
    """
    if len(cliques) > _LARGEST_ORDER + 1:
        raise ValueError(f"a marginal of {len(cliques) - 1} attributes; want at most {_LARGEST_ORDER}")
    levels, faces, places = [], [], []
    above = np.empty((0, len(cliques)), dtype=np.intp)
    for order in range(len(cliques) - 1, -1, -1):
        shed = [np.delete(above, place, axis=1) for place in range(order + 1)]
        joint = np.concatenate([*shed, cliques[order]])
        if joint.size > _LARGEST_LEVEL:
            raise ValueError(f"the marginals have {len(joint):,} parts of {order} attributes; want smaller cliques")
        rows, inverse = _distinct(joint, attributes)
        faces.append(inverse[: (order + 1) * len(above)].reshape(order + 1, len(above)))
        places.append(inverse[(order + 1) * len(above) :])
        levels.append(rows)
        above = rows
    # The faces of a level were found with the level below it.
    return levels[::-1], [np.empty((0, 1), dtype=np.intp), *faces[:0:-1]], places[::-1]


def _distinct(rows: Places, attributes: int) -> tuple[Places, Places]:
    """Distinct rows in ascending order, and the place of each row among them."""
    code, span = np.zeros(len(rows), dtype=np.int64), 1
    for column in rows.T:
        if span * attributes > _LARGEST_CODE:
            values, code = np.unique(code, return_inverse=True)
            span = len(values)
        code, span = code * attributes + column, span * attributes
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    return rows[first], inverse
