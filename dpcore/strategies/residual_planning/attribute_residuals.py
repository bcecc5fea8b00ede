"""How to split one attribute's queries into a mean and a residual, and to measure the residual under Gaussian noise."""

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
_GAPS: Final = (1e-5, 1e-4)  # Up to _SMALL values, and beyond: each step costs as their cube.
_SMALL: Final = 256
_MIXED: Final = 2.0**-10  # Of what all values share alike: directions that no query needs are measured a little too.
_STEPS: Final = 4  # Of gamma in a factor of two: the optimum is flat.
_LEAST_GAMMA: Final = 2.0**-10  # Both of t: further out u hardly moves.
_LARGEST_GAMMA: Final = 2.0**8
_FLIPPED: Final = 0.25  # An entry goes to the other side where that is at most three times as far.
_RIDGE: Final = 1e-12  # Of a trace.
_LEAST_MEAN: Final = 1e-12  # Of t.


@dataclass(frozen=True, eq=False)
class Split:
    """One u with what it costs.

    mean: s0 = |W u|^2. rest: t, the least squared error of all of W C, C = I - u 1', at unit noise and sensitivity.
    factor: R, float64 [n - 1, n], whose columns have squared norm 1 at most; t is the error of measuring R.
    multipliers: v, float64 [n], with sum 1: those of the columns of the optimum that u is from.
    """

    mean: float
    rest: float
    factor: Real
    multipliers: Real


@final
class AttributeResidual:
    """The queries W about one attribute, n values, in what marginals of it cost: |W u|^2 and the residual W C.

    Attributes that no query can tell the values of apart, but for their names, have u = 1 / n, and are measured as
    ``residual_bases.residual_matrix``. For others u is that of the best strategy X for W and gamma times the total: the
    u with 1'u = 1 of least u'Xu = alpha, which makes X the sum of alpha 11' and a residual Y with Y u = 0. Over all u
    that minimises (s0 + gamma)^(1/2) + t^(1/2), so that gamma walks along the best pairs (s0, t).

    size: n. flat: Whether W is the same for all values: it has no residual then. uniform: Whether u = 1 / n.
    gram: G = W'W, float64 [n, n].
    mean, rest: s0 and t for u = 1 / n; where not ``uniform`` t by its SVD bound.
    """

    def __init__(self, workload: NDArray[np.int64]) -> None:
        """
        workload: W, int64 [m, n].

        Raises ValueError for more values than ``residual_matrix`` allows, and for other queries than of single values
            about more than LARGEST_SIZE values.
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
        """The gamma on the grid that stands for this one. rest: t, near where it is."""
        within = min(max(gamma, _LEAST_GAMMA * rest), _LARGEST_GAMMA * rest)
        return math.exp2(round(_STEPS * math.log2(within)) / _STEPS)

    def split(self, gamma: float) -> Split:
        """The best u for W and gamma times the total, gamma > 0; computed once."""
        if gamma not in self._splits:
            self._splits[gamma] = self._made(gamma)
        return self._splits[gamma]

    def _made(self, gamma: float) -> Split:
        n = self.size
        together = self.gram + gamma
        best = gaussian_optimum(together, _GAPS[n > _SMALL]).gram
        inverse = np.linalg.inv((1 - _MIXED**2) * best + _MIXED**2 * np.eye(n))
        u = inverse.sum(axis=1)
        u /= u.sum()
        centring = np.eye(n) - u[:, None]
        within, every = centring.T @ best @ centring, centring.T @ centring
        gram = (1 - _MIXED) * within / within.diagonal().max() + _MIXED * every / every.diagonal().max()
        values, vectors = np.linalg.eigh((gram + gram.T) / 2)
        factor = np.sqrt(values[1:, None]) * vectors.T[1:]
        # Of the residual alone: the part of W that the rows of R span.
        read = (centring.T @ self.gram @ centring) @ (vectors[:, 1:] / values[1:])
        rest = float(np.einsum("ij,ij->", read, vectors[:, 1:])) * float(gram.diagonal().max())
        return Split(max(float(u @ self.gram @ u), _LEAST_MEAN * rest), rest, factor, _multipliers(best, together))

    def rounded(self, split: Split | None, bits: int) -> ResidualFrame:
        """The residual's queries as integers.

        split: None where ``uniform``. bits: The largest entry is 2^bits or a little more.

        u is that of the integers. Some entries go up or down against the nearest integer, so that all columns have
        nearly one norm.

        Raises ValueError where the grid is too coarse for n - 1 independent rows.
        """
        if split is None:
            return _uniform(self.size)
        scaled = split.factor * (2.0**bits / np.abs(split.factor).max())
        return ResidualFrame.of(_evened(scaled))

    def costs(self, frame: ResidualFrame) -> tuple[float, float]:
        """(s0, t) of a frame: t at the noise of one of its integer answers."""
        rest = float(np.einsum("ij,ij->", frame.inverse, self.gram @ frame.inverse))
        return max(float(frame.mean @ self.gram @ frame.mean), _LEAST_MEAN * rest * frame.cost), rest

    def below(self, multipliers: Real, kappa: float) -> tuple[float, float]:
        """(sigma^2, tau^2), which take the place of (s0, t) in a lower bound on the error of every strategy.

        multipliers: v, float64 [n], not negative and with sum 1. kappa: Positive.

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
    found = np.maximum(solve(alike + _RIDGE * np.trace(alike) * np.eye(len(alike)), sides, assume_a="pos"), 0.0)
    return np.asarray(found / found.sum())


@lru_cache(maxsize=64)
def _uniform(size: int) -> ResidualFrame:
    return ResidualFrame.of(residual_matrix(size))


def _evened(real: Real) -> NDArray[np.int64]:
    """Integers next to real numbers, with column norms as near to the largest real one as single entries bring them."""
    rounded = np.rint(real)
    excess = (rounded**2).sum(axis=0) - (real**2).sum(axis=0).max()
    columns = np.arange(real.shape[1])
    for places in np.argsort(-np.abs(real), axis=0, kind="stable"):
        value = rounded[places, columns]
        left = real[places, columns] - value
        other = value + np.sign(left)
        change = other**2 - value**2
        flipped = (np.abs(left) > _FLIPPED) & (np.abs(excess + change) < np.abs(excess))
        rounded[places, columns] = np.where(flipped, other, value)
        excess += np.where(flipped, change, 0.0)
    return rounded.astype(np.int64)
