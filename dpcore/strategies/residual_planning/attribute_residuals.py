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
# Relative gap at which the optimum's iteration stops, for up to _SMALL_SIZE values and for more; the cost of a step is
# cubic in the number of values.
_GAPS: Final = (1e-5, 1e-4)
_SMALL_SIZE: Final = 256
_IDENTITY_PART: Final = 2.0**-10  # Weight of the identity added to the optimum, so that every direction is measured.
_GAMMAS_PER_OCTAVE: Final = 4  # A coarse grid is enough, because the error hardly depends on gamma near its optimum.
_MIN_GAMMA: Final = 2.0**-10  # Smallest and largest gamma relative to t; beyond them u hardly changes.
_MAX_GAMMA: Final = 2.0**8
_MIN_FRACTION: Final = 0.25  # An entry this far from the nearest integer may be rounded to the other neighbour.
_RELATIVE_RIDGE: Final = 1e-12  # Ridge of the linear system for the multipliers, relative to its trace.
_MIN_MEAN: Final = 1e-12  # Smallest s0 relative to t.


@dataclass(frozen=True, eq=False)
class Split:
    """The split of an attribute's queries W by one mean vector u, and the errors that follow from it.

    mean: s0 = |W u|^2.
    rest: t, the least squared error of the residual queries W C, with C = I - u 1', at unit noise and sensitivity 1.
    factor: R, float64 [n - 1, n], the strategy that attains t; its columns have squared norm at most 1.
    multipliers: v, float64 [n], with sum 1: the dual multipliers of the optimum from which u is taken.
    """

    mean: float
    rest: float
    factor: Real
    multipliers: Real


@final
class AttributeResidual:
    """The queries W about one attribute of n values, described by the errors of their mean W u and their residual W C.

    If W treats all values alike, then u = 1 / n, and the residual is measured by ``residual_matrix``. Otherwise u comes
    from the best strategy X for the queries W together with the total, weighted by gamma: u minimises u'Xu subject to
    1'u = 1. With alpha = u'Xu, X is the sum of alpha 11' and a residual Y with Y u = 0. This u minimises
    (s0 + gamma)^(1/2) + t^(1/2), so gamma parametrises the Pareto-optimal pairs (s0, t).

    size: The number n of values.
    flat: Whether every query has the same entry for all values. There is no residual then.
    uniform: Whether u = 1 / n.
    gram: G = W'W, float64 [n, n].
    mean: s0 for u = 1 / n.
    rest: t for u = 1 / n if ``uniform``, otherwise the SVD bound on t.
    """

    def __init__(self, workload: NDArray[np.int64]) -> None:
        """
        workload: W, int64 [m, n].

        Raises ValueError for more values than ``residual_matrix`` allows, and for more than LARGEST_SIZE values if the
        queries do not treat all values alike.
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
        diagonal, off_diagonal = self.gram.diagonal(), float(self.gram[0, 1])
        equal_elsewhere = (self.gram - np.diag(diagonal - off_diagonal) == off_diagonal).all()
        self.uniform = bool((diagonal == diagonal[0]).all() and equal_elsewhere)
        n = self.size
        self.mean = float(self.gram.sum()) / n**2
        if self.uniform:
            residual_matrix(n)
            self.rest = float(diagonal[0] - off_diagonal) * (n - 1) ** 2 / n
            return
        if n > LARGEST_SIZE:
            raise ValueError(
                f"queries of several values of an attribute of {n:,} values; want at most {LARGEST_SIZE:,}"
            )
        centred = self.gram - self.gram.mean(axis=0)
        centred -= centred.mean(axis=1, keepdims=True)
        roots = np.sqrt(np.maximum(np.linalg.eigvalsh((centred + centred.T) / 2), 0.0))
        self.rest = float(roots.sum()) ** 2 / n

    def grid_gamma(self, gamma: float, rest: float) -> float:
        """The grid point nearest to a gamma; a grid keeps the number of computed splits small.

        gamma: The exact gamma.
        rest: An approximate t, which sets the range of the grid.
        """
        clipped = min(max(gamma, _MIN_GAMMA * rest), _MAX_GAMMA * rest)
        return math.exp2(round(_GAMMAS_PER_OCTAVE * math.log2(clipped)) / _GAMMAS_PER_OCTAVE)

    def split(self, gamma: float) -> Split:
        """The best split for W together with gamma > 0 times the total; computed once per gamma."""
        if gamma not in self._splits:
            self._splits[gamma] = self._optimal_split(gamma)
        return self._splits[gamma]

    def _optimal_split(self, gamma: float) -> Split:
        n = self.size
        workload = self.gram + gamma
        optimum = gaussian_optimum(workload, _GAPS[n > _SMALL_SIZE]).gram
        inverse = np.linalg.inv((1 - _IDENTITY_PART**2) * optimum + _IDENTITY_PART**2 * np.eye(n))
        u = inverse.sum(axis=1)
        u /= u.sum()
        centring = np.eye(n) - u[:, None]
        centred, identity = centring.T @ optimum @ centring, centring.T @ centring
        gram = (1 - _IDENTITY_PART) * centred / centred.diagonal().max()
        gram = gram + _IDENTITY_PART * identity / identity.diagonal().max()
        values, vectors = np.linalg.eigh((gram + gram.T) / 2)
        factor = np.sqrt(values[1:, None]) * vectors.T[1:]
        # t is the error of the part of W that the rows of R span.
        projected = (centring.T @ self.gram @ centring) @ (vectors[:, 1:] / values[1:])
        rest = float(np.einsum("ij,ij->", projected, vectors[:, 1:])) * float(gram.diagonal().max())
        return Split(max(float(u @ self.gram @ u), _MIN_MEAN * rest), rest, factor, _multipliers(optimum, workload))

    def rounded_frame(self, split: Split | None, bits: int) -> ResidualFrame:
        """The residual's queries rounded to integers, with the mean vector u of the rounded queries.

        split: The split to round; None if ``uniform``.
        bits: The largest entry is about 2^bits.

        Some entries are rounded to the farther integer, so that all columns have nearly the same norm.

        Raises ValueError if the grid is too coarse for n - 1 independent rows.
        """
        if split is None:
            return _uniform_frame(self.size)
        scaled = split.factor * (2.0**bits / np.abs(split.factor).max())
        return ResidualFrame.of(_rounded_evenly(scaled))

    def costs(self, frame: ResidualFrame) -> tuple[float, float]:
        """(s0, t) of a frame, where t assumes noise of variance 1 in each of its integer answers."""
        rest = float(np.einsum("ij,ij->", frame.inverse, self.gram @ frame.inverse))
        return max(float(frame.mean @ self.gram @ frame.mean), _MIN_MEAN * rest * frame.cost), rest

    def lower_bound_terms(self, multipliers: Real, kappa: float) -> tuple[float, float]:
        """(sigma^2, tau^2), which replace (s0, t) in a lower bound on the error of every strategy.

        multipliers: v, float64 [n], non-negative, with sum 1.
        kappa: The weight of sigma, positive.

        Let d = v^(1/2), D = diag(d) and Q be a contraction. Then sigma = d'DW'Q d and tau = tr (I - dd') DW'Q. Every
        v and Q give a valid bound; this Q maximises tau + kappa sigma.
        """
        d = np.sqrt(multipliers)
        scaling = np.eye(self.size) + (kappa - 1) * np.outer(d, d)
        values, vectors = np.linalg.eigh(scaling @ (d[:, None] * self.gram * d) @ scaling)
        roots = np.sqrt(np.maximum(values, 0.0))
        along = float(roots @ (vectors.T @ d) ** 2)
        return (along / kappa) ** 2, (float(roots.sum()) - along) ** 2


def _multipliers(optimum: Real, gram: Real) -> Real:
    """The v of sum 1 that brings X diag(v) X closest to a multiple of V; at the exact optimum X they are equal."""
    normal_matrix = (optimum @ optimum) ** 2
    right_side = np.einsum("ij,ij->j", optimum, gram @ optimum)
    ridge = _RELATIVE_RIDGE * np.trace(normal_matrix) * np.eye(len(normal_matrix))
    multipliers = np.maximum(solve(normal_matrix + ridge, right_side, assume_a="pos"), 0.0)
    return np.asarray(multipliers / multipliers.sum())


@lru_cache(maxsize=64)
def _uniform_frame(size: int) -> ResidualFrame:
    return ResidualFrame.of(residual_matrix(size))


def _rounded_evenly(real: Real) -> NDArray[np.int64]:
    """Entries rounded down or up such that every column norm is close to the largest column norm of ``real``."""
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
