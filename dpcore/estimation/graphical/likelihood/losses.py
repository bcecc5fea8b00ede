"""How far marginals are from noisy measurements, as convex functions with gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import Domain
from dpcore.estimation.graphical.fitting.linear_terms import LinearTerm, linear_terms
from dpcore.estimation.graphical.fitting.measurement_matrix import Rows
from dpcore.estimation.graphical.inference.vector_exp import exp_of
from dpcore.measurement import Measurement
from dpcore.queries import Marginals

Vector = NDArray[np.float64]
_NEAR: Final = 0.5  # Exponents of at most so much are summed by a series,
_POWERS: Final = 13  # whose first term left out is 0.5^13 / 13! = 2e-14.


class Loss(Protocol):
    """A convex function of the marginals of some cliques.

    queries: The cliques, none inside another.
    curvature: d^T H d <= curvature |d|_1^2 for the Hessian H as a function of the joint in counts, and differences d of
        two joints of one total; inf for a gradient that jumps.
    """

    @property
    def queries(self) -> Marginals: ...

    @property
    def curvature(self) -> float: ...

    def __call__(self, marginals: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Value and (sub)gradient at marginals in counts, float64 [queries.size]."""
        ...


@final
class SquaredLoss:
    """1/2 sum over measurements of |A_j mu_j - y_j|^2 / sigma_j^2: the negative log-likelihood of Gaussian noise.

    Source: thesis, section 4.2, and Algorithm 6 with the weights 1 / sigma^2 of the likelihood; it prints 1 / sigma.
    """

    def __init__(self, domain: Domain, measurements: Sequence[Measurement]) -> None:
        self.rows = Rows(domain, [term for measurement in measurements for term in linear_terms(measurement)])
        self.queries = self.rows.queries
        self.curvature = sum(term.curvature for term in self.rows.terms)

    def __call__(self, marginals: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        residual = self.rows.applied(marginals) - self.rows.values
        weighted = self.rows.precisions * residual
        return self.rows.constant + 0.5 * float(residual @ weighted), self.rows.transposed(weighted)


@final
class AbsoluteLoss:
    """sum over measurements of |A_j mu_j - y_j|_1 / sigma_j: as the log-likelihood of Laplace noise; not smooth."""

    curvature = math.inf

    def __init__(self, domain: Domain, measurements: Sequence[Measurement]) -> None:
        terms = [term for measurement in measurements for term in linear_terms(measurement)]
        self._rows = Rows(domain, terms, merge=False)
        self.queries = self._rows.queries

    def __call__(self, marginals: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = np.sqrt(self._rows.precisions)
        residual = weights * (self._rows.applied(marginals) - self._rows.values)
        return float(np.abs(residual).sum()), self._rows.transposed(weights * np.sign(residual))


@dataclass(frozen=True, eq=False)
class Draws:
    """One round of DualQuery: draws with chances proportional to exp(slope c / total + prior - step h).

    c is the count of a query and h how many of ``done`` records satisfy it; for its complement they are ``total`` less
    c and ``done`` less h.

    satisfied: int64 [k], the queries with h > 0, ascending. hits: int32 [k], their h.
    drawn: int64 [draws]; q < m for query q, m + q for its complement.
    """

    slope: float
    step: float
    done: int
    satisfied: NDArray[np.int64]
    hits: NDArray[np.int32]
    drawn: NDArray[np.int64]

    @classmethod
    def of(
        cls, slope: float, step: float, done: int, hits: NDArray[np.integer[Any]], drawn: NDArray[np.int64]
    ) -> Draws:
        """hits: h of every query, integers [m]."""
        satisfied = np.flatnonzero(hits)
        return cls(slope, step, done, satisfied, hits[satisfied].astype(np.int32), drawn)

    def hits_of(self, queries: NDArray[np.int64]) -> NDArray[np.int32]:
        """h of some queries."""
        if self.satisfied.size == 0:
            return np.zeros(queries.size, dtype=np.int32)
        places = np.minimum(np.searchsorted(self.satisfied, queries), self.satisfied.size - 1)
        return np.where(self.satisfied[places] == queries, self.hits[places], 0).astype(np.int32)


@final
class SampleLogLikelihood:
    """The negative log-likelihood of DualQuery's draws, as a function of the marginals that its queries are cells of.

    sum over rounds t of   draws_t log sum_i exp(e_ti) - sum over the drawn i of e_ti

    with the exponents e_ti of queries and complements i. Convex: c is affine in the marginals, the logarithm of a sum
    of exponentials of affine functions is convex, and the rest is affine. In the chances P_t its gradient by the count
    of query q is

    sum_t slope_t / total (draws_t (P_t(q) - P_t(m + q)) - (times q was drawn - times m + q was drawn)).

    The sampler clamps c / total to 0..1; a marginal of ``total`` records never leaves it.

    Up to a number of the round, e is prior + y for a query and prior - y for its complement, with
    y = slope c / total + lean - step h and lean = (step done - slope) / 2. Where queries are many, nearly all have a
    small slope c / total and h = 0 throughout: their sums of exp(prior + slope c / total) are power series in the slope
    whose coefficients, moments of c, serve all rounds, and so is the gradient. Only queries that records satisfied, or
    of large count, cost exponentials in every round; the value is the same up to rounding.

    queries: The marginals whose cells are the queries, in their order; here, then, those that lie in no other one.
    total: The number of units that the sampler divided by.
    prior: Log-weights of the queries in every round, float64 [m]; None where all are equal.

    Raises ValueError without rounds, or for a draw that is none of the queries.

    Source: thesis, section 4.5; Gaboardi, Gallego Arias, Hsu, Roth and Wu, "Dual Query", Algorithm 2, for the chances.
    """

    def __init__(self, queries: Marginals, rounds: Sequence[Draws], total: float, prior: Vector | None = None) -> None:
        if not rounds:
            raise ValueError("no rounds of draws; want at least one")
        sizes = zip(queries.cliques, queries.sizes, strict=True)
        cells = [LinearTerm(clique, np.zeros(size), 1.0) for clique, size in sizes]
        self._cells = Rows(queries.domain, cells, merge=False)
        self._total = total
        self._prior = np.zeros(queries.size) if prior is None else prior - prior.max()
        self._slopes = np.array([found.slope for found in rounds])
        self._steps = np.array([found.step for found in rounds])
        self._leans = np.array([found.step * found.done - found.slope for found in rounds]) / 2
        self._draws = np.array([float(found.drawn.size) for found in rounds])
        self._satisfied, self._hits = _table_of_hits(queries.size, rounds)
        self._drawn, self._constant = np.zeros(queries.size), 0.0
        for place, found in enumerate(rounds):
            if found.drawn.max(initial=0) >= 2 * queries.size:
                raise ValueError(f"a draw of round {place} is none of {queries.size} queries and their complements")
            drawn, signs = found.drawn % queries.size, np.where(found.drawn < queries.size, 1.0, -1.0)
            np.add.at(self._drawn, drawn, found.slope / total * signs)
            without_counts = self._leans[place] - found.step * found.hits_of(drawn)
            self._constant -= float(signs @ without_counts + self._prior[drawn].sum())
        self.queries = self._cells.queries
        # A count moves by at most |d|_1 / 2, and a variable within +-x has a variance of at most x^2.
        self.curvature = float(self._draws @ (self._slopes / total) ** 2) / 4

    def __call__(self, marginals: Vector) -> tuple[float, Vector]:
        counts = self._cells.applied(marginals)
        near = np.abs(counts) * (self._slopes.max() / self._total) <= _NEAR
        large = ~near
        large[self._satisfied] = near[self._satisfied] = False
        series = _Series(self._slopes, self._leans, counts[near] / self._total, self._prior[near])
        apart = np.concatenate([self._satisfied, np.flatnonzero(large)])
        rounds = _Rounds(self._slopes, self._leans, self._steps, self._draws, self._hits, series.tops, series.sums())
        slopes = np.zeros(apart.size)
        value, weights = _summed(rounds, counts[apart] / self._total, self._prior[apart], slopes)
        gradient = -self._drawn
        gradient[apart] += slopes / self._total
        gradient[near] += series.gradient(weights) / self._total
        return value + self._constant - float(self._drawn @ counts), self._cells.transposed(gradient)


def _table_of_hits(queries: int, rounds: Sequence[Draws]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The queries with hits in some round, int64 [k], and their hits, int32 [rounds, k]."""
    some = np.zeros(queries, dtype=bool)
    for found in rounds:
        some[found.satisfied] = True
    satisfied = np.flatnonzero(some)
    hits = np.zeros((len(rounds), satisfied.size), dtype=np.int32)
    for place, found in enumerate(rounds):
        hits[place, np.searchsorted(satisfied, found.satisfied)] = found.hits
    return satisfied, hits


@final
class _Series:
    """Sums over queries without hits of exp(prior + y) + exp(prior - y), y = slope x + lean, for every round.

    fractions: x, float64 [queries]; slope x is at most _NEAR from 0.
    tops: float64 [rounds]; the sums are those of the exponentials times exp(-top). -inf without queries.
    """

    def __init__(self, slopes: Vector, leans: Vector, fractions: Vector, prior: Vector) -> None:
        largest = max(float(slopes.max()), 1e-300)
        powers = np.arange(_POWERS)
        factorials = np.array([float(math.factorial(power)) for power in range(_POWERS)])
        terms = (slopes / largest)[:, None] ** powers / factorials
        up, down = (np.exp(lean - np.abs(leans))[:, None] * terms for lean in (leans, -leans))
        self._terms = up + (-1.0) ** powers * down
        self._derivatives = up - (-1.0) ** powers * down
        self._points, self._weights = largest * fractions, np.exp(prior)
        self.tops = np.abs(leans) if fractions.size else np.full(leans.size, -np.inf)

    def sums(self) -> Vector:
        """float64 [rounds]."""
        moments, each = np.empty(_POWERS), self._weights.copy()
        for power in range(_POWERS):
            moments[power] = each.sum()
            each *= self._points
        return np.asarray(self._terms @ moments)

    def gradient(self, weights: Vector) -> Vector:
        """The sum over rounds of weight times the derivative of the sum by slope x, float64 [queries]."""
        factors = (weights @ self._derivatives).tolist()
        found = np.full(self._points.size, factors.pop())
        for factor in reversed(factors):
            found *= self._points
            found += factor
        return found * self._weights


class _Rounds(NamedTuple):
    """What the compiled loop reads of each round.

    hits: int32 [rounds, k], of the first k queries; those of the others are 0.
    tops, sums: Of the queries in the series.
    """

    slopes: Vector
    leans: Vector
    steps: Vector
    draws: Vector
    hits: NDArray[np.int32]
    tops: Vector
    sums: Vector


@compiled
def _summed(rounds: _Rounds, fractions: Vector, prior: Vector, gradient: Vector) -> tuple[float, Vector]:
    """The sum over rounds of draws log sum exp, and its derivatives by the sums of the series times the slopes.

    fractions, prior: Of the queries outside the series. gradient: By their fractions; it is added to.
    """
    value, weights = 0.0, np.empty(rounds.slopes.size)
    up, down, exp_up, exp_down = np.empty((4, fractions.size))
    satisfied = rounds.hits.shape[1]
    for t in range(rounds.slopes.size):
        slope, lean, step = rounds.slopes[t], rounds.leans[t], rounds.steps[t]
        for i in range(fractions.size):
            up[i] = slope * fractions[i] + lean
        for i in range(satisfied):
            up[i] -= step * rounds.hits[t, i]
        largest = rounds.tops[t]
        for i in range(fractions.size):
            y = up[i]
            up[i] = prior[i] + y
            down[i] = prior[i] - y
            largest = max(largest, max(up[i], down[i]))
        exp_of(up, largest, exp_up)
        exp_of(down, largest, exp_down)
        scale = math.exp(rounds.tops[t] - largest)
        found = rounds.sums[t] * scale
        for i in range(fractions.size):
            found += exp_up[i] + exp_down[i]
        value += rounds.draws[t] * (largest + math.log(found))
        weight = rounds.draws[t] * slope / found
        for i in range(fractions.size):
            gradient[i] += weight * (exp_up[i] - exp_down[i])
        weights[t] = weight * scale
    return value, weights
