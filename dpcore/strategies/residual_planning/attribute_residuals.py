"""The split of one attribute's queries into a mean and a residual, and the residual's strategy under Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve

from dpcore.queries.residual_frames import ResidualFrame
from dpcore.queries.residual_matrices import residual_matrix
from dpcore.strategies.one_attribute.best_strategy import LARGEST_SIZE
from dpcore.strategies.one_attribute.gaussian_optimum import gaussian_optimum

Real = NDArray[np.float64]
_GAPS: Final = (1e-5, 1e-4)  # Of the optimum, up to _SMALL values and beyond: a step costs the cube of their number.
_SMALL: Final = 256
_IDENTITY_PART: Final = 2.0**-10  # Added to the optimum, so that directions that no query needs are measured a little.
_GAMMAS_PER_OCTAVE: Final = 4  # The optimum is flat in gamma.
_MIN_GAMMA: Final = 2.0**-10  # Relative to t, as the next: beyond these u hardly changes.
_MAX_GAMMA: Final = 2.0**8
_MIN_FRACTION: Final = 0.25  # An entry is rounded away from the nearest integer where that is at most 3 times as far.
_RELATIVE_RIDGE: Final = 1e-12  # Relative to a trace.
_MIN_MEAN: Final = 1e-12  # s0 relative to t.


@dataclass(frozen=True, eq=False)
class Split:
    """One mean vector u with the errors that follow from it.

    mean: s0 = |W u|^2.
    rest: t, the least squared error of all of W C, with C = I - u 1', at unit noise and sensitivity 1.
    factor: R, float64 [n - 1, n], the strategy of that error; its columns have squared norm at most 1.
    multipliers: v, float64 [n], with sum 1: dual multipliers of the columns of the optimum that u is taken from.
    """

    mean: float
    rest: float
    factor: Real
    multipliers: Real


@final
class AttributeResidual:
    """The queries W about one attribute of n values, by the errors of their mean part W u and of their residual W C.

    Where W treats all values alike, u = 1 / n, and the residual is measured as ``residual_matrix``. Elsewhere u is that
    of the best strategy X for W and gamma times the total: the u with 1'u = 1 of least u'Xu = alpha, which makes X the
    sum of alpha 11' and a residual Y with Y u = 0. It minimises (s0 + gamma)^(1/2) + t^(1/2) over all u, so that gamma
    parametrises the Pareto-optimal pairs (s0, t).

    size: The number n of values.
    flat: Whether every query has the same entry for all values: then there is no residual.
    uniform: Whether u = 1 / n.
    gram: G = W'W, float64 [n, n].
    mean: s0 for u = 1 / n.
    rest: t for u = 1 / n; where not ``uniform`` its SVD bound.
    """

    def __init__(self, workload: NDArray[np.int64]) -> None:
        """
        workload: W, int64 [m, n].

        Raises ValueError for more values than ``residual_matrix`` allows, and for queries that do not treat all values
        alike about more than LARGEST_SIZE values.
        """
        self.size = workload.shape[1]
        real = workload.astype(np.float64)
        self.flat = bool((workload == workload[:, :1]).all())
        self.gram = real[:, :1].T @ real[:, :1] if self.flat else real.T @ real
        self._splits: dict[float, Split] = {}
        self.uniform = True
        if self.flat:
            self.mean, self.rest = float(self.gram[0, 0]), 1.0
            return
        diagonal, other = self.gram.diagonal(), float(self.gram[0, 1])
        self.uniform = bool((diagonal == diagonal[0]).all() and (self.gram - np.diag(diagonal - other) == other).all())
        n = self.size
        self.mean = float(self.gram.sum()) / n**2
        if self.uniform:
            residual_matrix(n)
            self.rest = float(diagonal[0] - other) * (n - 1) ** 2 / n
            return
        if n > LARGEST_SIZE:
            raise ValueError(
                f"queries of several values of an attribute of {n:,} values; want at most {LARGEST_SIZE:,}"
            )
        centred = self.gram - self.gram.mean(axis=0)
        centred -= centred.mean(axis=1, keepdims=True)
        roots = np.sqrt(np.maximum(np.linalg.eigvalsh((centred + centred.T) / 2), 0.0))
        self.rest = float(roots.sum()) ** 2 / n

    def gamma(self, gamma: float, rest: float) -> float:
        """The nearest gamma of a grid, so that few splits are computed.

        gamma: The gamma that is wanted.
        rest: A t near the wanted one, which sets the range of the grid.
        """
        within = min(max(gamma, _MIN_GAMMA * rest), _MAX_GAMMA * rest)
        return math.exp2(round(_GAMMAS_PER_OCTAVE * math.log2(within)) / _GAMMAS_PER_OCTAVE)

    def split(self, gamma: float) -> Split:
        """The best u for W and gamma times the total, gamma > 0; computed once per gamma."""
        if gamma not in self._splits:
            self._splits[gamma] = self._optimal_split(gamma)
        return self._splits[gamma]

    def _optimal_split(self, gamma: float) -> Split:
        n = self.size
        workload = self.gram + gamma
        best = gaussian_optimum(workload, _GAPS[n > _SMALL]).gram
        inverse = np.linalg.inv((1 - _IDENTITY_PART**2) * best + _IDENTITY_PART**2 * np.eye(n))
        u = inverse.sum(axis=1)
        u /= u.sum()
        centring = np.eye(n) - u[:, None]
        within, every = centring.T @ best @ centring, centring.T @ centring
        gram = (1 - _IDENTITY_PART) * within / within.diagonal().max() + _IDENTITY_PART * every / every.diagonal().max()
        values, vectors = np.linalg.eigh((gram + gram.T) / 2)
        factor = np.sqrt(values[1:, None]) * vectors.T[1:]
        # The residual's own error: of the part of W that the rows of R span.
        read = (centring.T @ self.gram @ centring) @ (vectors[:, 1:] / values[1:])
        rest = float(np.einsum("ij,ij->", read, vectors[:, 1:])) * float(gram.diagonal().max())
        return Split(max(float(u @ self.gram @ u), _MIN_MEAN * rest), rest, factor, _multipliers(best, workload))

    def rounded(self, split: Split | None, bits: int) -> ResidualFrame:
        """The residual's queries as integers, with the u that belongs to them.

        split: The split to round; None where ``uniform``.
        bits: The largest entry is about 2^bits.

        Some entries are rounded away from the nearest integer, so that all columns have nearly the same norm.

        Raises ValueError where the grid is too coarse for n - 1 independent rows.
        """
        if split is None:
            return _uniform(self.size)
        scaled = split.factor * (2.0**bits / np.abs(split.factor).max())
        return ResidualFrame.of(_rounded_evenly(scaled))

    def costs(self, frame: ResidualFrame) -> tuple[float, float]:
        """(s0, t) of a frame, with t at noise of variance 1 in each of its integer answers."""
        rest = float(np.einsum("ij,ij->", frame.inverse, self.gram @ frame.inverse))
        return max(float(frame.mean @ self.gram @ frame.mean), _MIN_MEAN * rest * frame.cost), rest

    def lower_bound_terms(self, multipliers: Real, kappa: float) -> tuple[float, float]:
        """(sigma^2, tau^2), which take the place of (s0, t) in a lower bound on the error of every strategy.

        multipliers: v, float64 [n], non-negative, with sum 1.
        kappa: The weight of sigma, positive.

        With d = v^(1/2), D = diag(d) and a contraction Q, sigma = d'DW'Q d and tau = tr (I - dd') DW'Q. Any v and Q
        give a bound; this Q maximises tau + kappa sigma.
        """
        d = np.sqrt(multipliers)
        lean = np.eye(self.size) + (kappa - 1) * np.outer(d, d)
        values, vectors = np.linalg.eigh(lean @ (d[:, None] * self.gram * d) @ lean)
        roots = np.sqrt(np.maximum(values, 0.0))
        along = float(roots @ (vectors.T @ d) ** 2)
        return (along / kappa) ** 2, (float(roots.sum()) - along) ** 2


def _multipliers(optimum: Real, gram: Real) -> Real:
    """v with sum 1 for which X diag(v) X is nearest to a multiple of V: at the optimum X of V it is one."""
    squared = optimum @ optimum
    sides = np.einsum("ij,ij->j", optimum, gram @ optimum)
    alike = squared**2
    multipliers = np.maximum(
        solve(alike + _RELATIVE_RIDGE * np.trace(alike) * np.eye(len(alike)), sides, assume_a="pos"), 0.0
    )
    return np.asarray(multipliers / multipliers.sum())


@lru_cache(maxsize=64)
def _uniform(size: int) -> ResidualFrame:
    return ResidualFrame.of(residual_matrix(size))


def _rounded_evenly(real: Real) -> NDArray[np.int64]:
    """Entries rounded down or up, such that every column norm comes near the largest norm of a real column."""
    rounded = np.rint(real)
    excess = (rounded**2).sum(axis=0) - (real**2).sum(axis=0).max()
    columns = np.arange(real.shape[1])
    for indices in np.argsort(-np.abs(real), axis=0, kind="stable"):
        value = rounded[indices, columns]
        remainder = real[indices, columns] - value
        alternative = value + np.sign(remainder)
        change = alternative**2 - value**2
        flipped = (np.abs(remainder) > _MIN_FRACTION) & (np.abs(excess + change) < np.abs(excess))
        rounded[indices, columns] = np.where(flipped, alternative, value)
        excess += np.where(flipped, change, 0.0)
    return rounded.astype(np.int64)
