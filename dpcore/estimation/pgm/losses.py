"""How far marginals are from noisy measurements, as convex functions with gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.pgm.linear_terms import LinearTerm, linear_terms
from dpcore.estimation.pgm.rows import Rows
from dpcore.measurement import Measurement
from dpcore.queries import Marginals


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


class LogWeights(Protocol):
    """The public part of the log-weights of m queries and their m complements; a round's ``Tilt`` is one."""

    def log_weights(self) -> NDArray[np.float64]:
        """float64 [2 m], the queries first."""
        ...


@dataclass(frozen=True, eq=False)
class Draws:
    """One round of DualQuery: draws with chances proportional to exp(slope * c / total + tilt).

    c is the count of a query, or ``total`` less it for its complement.

    drawn: int64 [draws]; q < m for query q, m + q for its complement.
    """

    slope: float
    tilt: LogWeights
    drawn: NDArray[np.int64]


@final
class SampleLogLikelihood:
    """The negative log-likelihood of DualQuery's draws, as a function of the marginals that its queries are cells of.

    sum over rounds t of   draws_t log sum_i exp(e_ti) - sum over the drawn i of e_ti

    with e_ti = slope_t c_i / total + tilt_ti of queries and complements i. Convex: c is affine in the marginals, the
    logarithm of a sum of exponentials of affine functions is convex, and the rest is affine. In the chances P_t its
    gradient by the count of query q is

    sum_t slope_t / total (draws_t (P_t(q) - P_t(m + q)) - (times q was drawn - times m + q was drawn)).

    The sampler clamps c / total to 0..1; a marginal of ``total`` records never leaves it.

    queries: The marginals whose cells are the queries, in their order; here, then, those that lie in no other one.
    total: The number of units that the sampler divided by.

    Raises ValueError without rounds, or for a draw that is none of the queries.

    Source: thesis, section 4.5; Gaboardi, Gallego Arias, Hsu, Roth and Wu, "Dual Query", Algorithm 2, for the chances.
    """

    def __init__(self, queries: Marginals, rounds: Sequence[Draws], total: float) -> None:
        if not rounds:
            raise ValueError("no rounds of draws; want at least one")
        sizes = zip(queries.cliques, queries.sizes, strict=True)
        cells = [LinearTerm(clique, np.zeros(size), 1.0) for clique, size in sizes]
        self._cells = Rows(queries.domain, cells, merge=False)
        self._rounds = tuple(rounds)
        self._total = total
        self._drawn = np.zeros(queries.size)
        for place, found in enumerate(rounds):
            times = np.bincount(found.drawn, minlength=2 * queries.size)
            if times.size > 2 * queries.size:
                raise ValueError(f"a draw of round {place} is none of {queries.size} queries and their complements")
            self._drawn += found.slope / total * (times[: queries.size] - times[queries.size :])
        self._constant = sum(self._of_no_counts(found) for found in rounds)
        self.queries = self._cells.queries
        # A count moves by at most |d|_1 / 2, and a variable within +-x has a variance of at most x^2.
        self.curvature = sum(found.drawn.size * (found.slope / total) ** 2 for found in rounds) / 4

    def __call__(self, marginals: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        counts = self._cells.applied(marginals)
        value = self._constant - float(self._drawn @ counts)
        gradient = -self._drawn
        for found in self._rounds:
            exponents = self._exponents(found, counts)
            largest = float(exponents.max())
            weights = np.exp(exponents - largest)
            sum_of_weights = float(weights.sum())
            value += found.drawn.size * (largest + math.log(sum_of_weights))
            expected = (weights[: counts.size] - weights[counts.size :]) * (found.drawn.size / sum_of_weights)
            gradient += found.slope / self._total * expected
        return value, self._cells.transposed(gradient)

    def _exponents(self, found: Draws, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        exponents = found.tilt.log_weights() + 0.0
        exponents[: counts.size] += found.slope / self._total * counts
        exponents[counts.size :] += found.slope / self._total * (self._total - counts)
        return exponents

    @staticmethod
    def _of_no_counts(found: Draws) -> float:
        """Less the exponents of the draws where every count is 0: no query holds, every complement does."""
        log_weights = found.tilt.log_weights()
        complements = np.count_nonzero(found.drawn >= log_weights.size // 2)
        return -float(log_weights[found.drawn].sum()) - found.slope * complements
