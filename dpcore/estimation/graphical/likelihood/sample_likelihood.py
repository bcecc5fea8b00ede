"""The likelihood of DualQuery's draws: queries that are sampled by their errors carry information on the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.estimation.graphical.fitting.linear_measurements import LinearMeasurement
from dpcore.estimation.graphical.fitting.measurement_matrix import MeasurementMatrix
from dpcore.estimation.graphical.inference.vector_exp import exp_of
from dpcore.queries import Marginals

Vector = NDArray[np.float64]
_NEAR: Final = 0.5  # Exponents of at most this size are summed by a power series,
_POWERS: Final = 13  # whose first omitted term is 0.5^13 / 13! = 2e-14.


@dataclass(frozen=True, eq=False)
class DualQueryRound:
    """One round of DualQuery: draws with probabilities proportional to exp(slope c / total + prior - step h).

    Here c is the count of a query, and h is how many of the ``done`` synthetic records satisfy it. For the complement
    of the query they are ``total`` - c and ``done`` - h.

    slope: Weight of the count, >= 0.
    step: Weight of the hits, >= 0.
    done: Number of synthetic records before the round.
    satisfied: The queries with h > 0, ascending; int64 [k].
    hits: The h of the satisfied queries; int32 [k].
    drawn: The draws of the round, int64 [draws]: q < m is query q, and m + q its complement.
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
    ) -> DualQueryRound:
        """The round, given h for every query; hits: integers [m]."""
        satisfied = np.flatnonzero(hits)
        return cls(slope, step, done, satisfied, hits[satisfied].astype(np.int32), drawn)

    def hits_of(self, queries: NDArray[np.int64]) -> NDArray[np.int32]:
        """The h of the given queries."""
        if self.satisfied.size == 0:
            return np.zeros(queries.size, dtype=np.int32)
        positions = np.minimum(np.searchsorted(self.satisfied, queries), self.satisfied.size - 1)
        return np.where(self.satisfied[positions] == queries, self.hits[positions], 0).astype(np.int32)


@final
class SampleLogLikelihood:
    """The negative log-likelihood of DualQuery's draws, as a function of marginals. Implements ``losses.Loss``.

    sum over rounds t of   draws_t log sum_i exp(e_ti) - sum over the drawn i of e_ti

    with the exponents e_ti of queries and complements i (``DualQueryRound``). Each query is a cell of a marginal. The
    function is convex: c is affine in the marginals, the logarithm of a sum of exponentials of affine functions is
    convex, and the rest is affine. With the probabilities P_t of the draws, its derivative by the count of query q is

    sum_t slope_t / total (draws_t (P_t(q) - P_t(m + q)) - (times q was drawn - times m + q was drawn)).

    The sampler clamps c / total to [0, 1]; the marginals of ``total`` records are in that range already.

    How it is computed: up to a constant of the round, e is prior + y for a query and prior - y for its complement, with
    y = slope c / total + lean - step h and lean = (step done - slope) / 2. If there are many queries, nearly all have a
    small slope c / total, and h = 0 in all rounds. Their sums of exp(prior + slope c / total) are power series in the
    slope, whose coefficients, moments of c, are the same for all rounds. The gradient is computed in the same way. Only
    queries with hits or with a large count cost exponentials in every round. The value is the same up to rounding.

    queries: The marginals whose cells are the queries, in their order. The attribute ``queries`` keeps those that lie
        inside no other one.
    rounds: The rounds of draws, at least one.
    total: The number of units by which the sampler divided counts, > 0.
    prior: Log-weights of the queries in every round, float64 [m]; by default all are equal.

    Raises: ValueError without rounds, or for a draw that is none of the queries and their complements.

    Source: thesis, section 4.5; Gaboardi, Gallego Arias, Hsu, Roth and Wu, "Dual Query", Algorithm 2, for the
    probabilities.
    """

    def __init__(
        self, queries: Marginals, rounds: Sequence[DualQueryRound], total: float, prior: Vector | None = None
    ) -> None:
        if not rounds:
            raise ValueError("no rounds of draws; want at least one")
        sizes = zip(queries.cliques, queries.sizes, strict=True)
        cells = [LinearMeasurement(clique, np.zeros(size), 1.0) for clique, size in sizes]
        self._cells = MeasurementMatrix(queries.domain, cells, merge=False)
        self._total = total
        self._prior = np.zeros(queries.size) if prior is None else prior - prior.max()
        self._slopes = np.array([record.slope for record in rounds])
        self._steps = np.array([record.step for record in rounds])
        self._leans = np.array([record.step * record.done - record.slope for record in rounds]) / 2
        self._draws = np.array([float(record.drawn.size) for record in rounds])
        self._satisfied, self._hits = _table_of_hits(queries.size, rounds)
        self._drawn, self._constant = np.zeros(queries.size), 0.0
        for number, record in enumerate(rounds):
            if record.drawn.max(initial=0) >= 2 * queries.size:
                raise ValueError(f"a draw of round {number} is none of {queries.size} queries and their complements")
            drawn, signs = record.drawn % queries.size, np.where(record.drawn < queries.size, 1.0, -1.0)
            np.add.at(self._drawn, drawn, record.slope / total * signs)
            without_counts = self._leans[number] - record.step * record.hits_of(drawn)
            self._constant -= float(signs @ without_counts + self._prior[drawn].sum())
        self.queries = self._cells.queries
        # A count changes by at most |d|_1 / 2, and a random variable in [-x, x] has a variance of at most x^2.
        self.curvature = float(self._draws @ (self._slopes / total) ** 2) / 4

    def __call__(self, marginals: Vector) -> tuple[float, Vector]:
        counts = self._cells.apply(marginals)
        near = np.abs(counts) * (self._slopes.max() / self._total) <= _NEAR
        large = ~near
        large[self._satisfied] = near[self._satisfied] = False
        series = _Series(self._slopes, self._leans, counts[near] / self._total, self._prior[near])
        apart = np.concatenate([self._satisfied, np.flatnonzero(large)])
        rounds = _Rounds(self._slopes, self._leans, self._steps, self._draws, self._hits, series.tops, series.sums())
        slopes = np.zeros(apart.size)
        value, weights = _sum_rounds(rounds, counts[apart] / self._total, self._prior[apart], slopes)
        gradient = -self._drawn
        gradient[apart] += slopes / self._total
        gradient[near] += series.gradient(weights) / self._total
        return value + self._constant - float(self._drawn @ counts), self._cells.apply_transpose(gradient)


def _table_of_hits(queries: int, rounds: Sequence[DualQueryRound]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The queries with hits in some round, int64 [k], and their hits, int32 [rounds, k]."""
    is_satisfied = np.zeros(queries, dtype=bool)
    for record in rounds:
        is_satisfied[record.satisfied] = True
    satisfied = np.flatnonzero(is_satisfied)
    hits = np.zeros((len(rounds), satisfied.size), dtype=np.int32)
    for number, record in enumerate(rounds):
        hits[number, np.searchsorted(satisfied, record.satisfied)] = record.hits
    return satisfied, hits


@final
class _Series:
    """Sums of exp(prior + y) + exp(prior - y), y = slope x + lean, over queries without hits, for every round.

    fractions: x = c / total, float64 [queries], with |slope x| <= _NEAR.
    tops: Each round's sum is scaled by exp(-top); float64 [rounds]. It is -inf if there are no queries.
    """

    def __init__(self, slopes: Vector, leans: Vector, fractions: Vector, prior: Vector) -> None:
        largest = max(float(slopes.max()), 1e-300)
        powers = np.arange(_POWERS)
        factorials = np.array([float(math.factorial(power)) for power in range(_POWERS)])
        monomials = (slopes / largest)[:, None] ** powers / factorials
        up, down = (np.exp(lean - np.abs(leans))[:, None] * monomials for lean in (leans, -leans))
        self._coefficients = up + (-1.0) ** powers * down
        self._derivatives = up - (-1.0) ** powers * down
        self._points, self._weights = largest * fractions, np.exp(prior)
        self.tops = np.abs(leans) if fractions.size else np.full(leans.size, -np.inf)

    def sums(self) -> Vector:
        """The sum of each round, float64 [rounds]."""
        moments, weighted_powers = np.empty(_POWERS), self._weights.copy()
        for power in range(_POWERS):
            moments[power] = weighted_powers.sum()
            weighted_powers *= self._points
        return np.asarray(self._coefficients @ moments)

    def gradient(self, weights: Vector) -> Vector:
        """The sum over rounds of weight times the derivative of the sum by slope x, float64 [queries]."""
        coefficients = (weights @ self._derivatives).tolist()
        polynomial = np.full(self._points.size, coefficients.pop())
        for coefficient in reversed(coefficients):
            polynomial *= self._points
            polynomial += coefficient
        return polynomial * self._weights


class _Rounds(NamedTuple):
    """The rounds as arrays for the compiled loop.

    slopes, leans, steps, draws: Values of each round, as in ``SampleLogLikelihood``; float64 [rounds].
    hits: Hits of the first k queries outside the series, int32 [rounds, k]; the others have none.
    tops, sums: Those of ``_Series``, float64 [rounds].
    """

    slopes: Vector
    leans: Vector
    steps: Vector
    draws: Vector
    hits: NDArray[np.int32]
    tops: Vector
    sums: Vector


@compiled
def _sum_rounds(rounds: _Rounds, fractions: Vector, prior: Vector, gradient: Vector) -> tuple[float, Vector]:
    """The sum over rounds of draws * log-sum-exp, and weights with which ``_Series.gradient`` gives its derivatives.

    fractions, prior: c / total and log-weights of the queries outside the series.
    gradient: The derivatives by these fractions are added to it.
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
        partition = rounds.sums[t] * scale
        for i in range(fractions.size):
            partition += exp_up[i] + exp_down[i]
        value += rounds.draws[t] * (largest + math.log(partition))
        weight = rounds.draws[t] * slope / partition
        for i in range(fractions.size):
            gradient[i] += weight * (exp_up[i] - exp_down[i])
        weights[t] = weight * scale
    return value, weights
