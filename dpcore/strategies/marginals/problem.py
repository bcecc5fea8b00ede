"""The error of measuring marginals with given shares of the sensitivity, and its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.measurement import Noise
from dpcore.strategies.marginals.subset_sums import Vector, subset_products, subset_sums, superset_sums

Subsets = NDArray[np.int64]

_EACH: Final = 50_000  # Multiplications that an evaluation costs besides those of its sums.


@final
@dataclass(frozen=True, eq=False)
class MarginalProblem:
    """min of err = sum_a E_a / lam_a over shares w >= 0 with sum 1, lam_a = sum_{b >= a} w_b^k prod_{b - a} alpha_i.

    energies: E, float64 [2^d], non-negative; an a without energy needs no lam_a.
    alphas: float64 [d], in [0, 1].
    cells: Of each marginal, float64 [2^d].
    asked: Subsets of the workload, int64: measuring them all is a way to answer it.
    most_cells: Of a marginal that is measured, besides those that are asked for.
    noise: k is 2 for Laplace noise, where shares are of the L1 sensitivity, 1 for the Gaussians, of its square.
    """

    energies: Vector
    alphas: Vector
    cells: Vector
    asked: Subsets
    most_cells: float
    noise: Noise

    @property
    def power(self) -> int:
        return 2 if self.noise is Noise.LAPLACE else 1

    @cached_property
    def needed(self) -> Subsets:
        return np.flatnonzero(self.energies > 0)

    @cached_property
    def candidates(self) -> Subsets:
        """Subsets that may be measured."""
        allowed = self.cells <= self.most_cells
        allowed[self.asked] = True
        return np.flatnonzero(allowed)

    @cached_property
    def _steps(self) -> Vector:
        """prod over i in a of alpha_i, for every subset a."""
        return subset_products(self.alphas, np.ones(len(self.alphas)))

    def closed_form(self) -> tuple[float, Vector]:
        """A lower bound on the error for every w, and lam that attains it where its v_b are all >= 0.

        As sum_b v_b = sum_a p_a lam_a with p_a = prod over i in a of (1 - alpha_i), the Cauchy-Schwarz inequality gives
        err sum_b v_b >= (sum_a (E_a p_a)^(1/2))^2. For marginals of codes that is the SVD bound.

        Source: McKenna (2022), Theorems 10 and 11.
        """
        paid = subset_products(1 - self.alphas, np.ones(len(self.alphas)))
        bound = float(np.sqrt(self.energies * paid).sum() ** 2)
        return bound, np.sqrt(self.energies / np.where(paid > 0, paid, 1.0))

    def columns(self, subsets: Subsets) -> Vector:
        """The matrix that takes w^k of these subsets to lam of those needed: float64 [needed, subsets]."""
        needed = self.needed[:, None]
        return np.where((subsets & needed) == needed, self._steps[subsets ^ needed], 0.0)

    def evaluated(self, subsets: Subsets, shares: Vector, matrix: Vector | None) -> tuple[float, Vector]:
        """err, and -d err / d w^k of these subsets; inf and zeros where the workload is out of their reach."""
        values = shares**self.power
        if matrix is None:
            everywhere = np.zeros(self.energies.size)
            everywhere[subsets] = values
            sums = superset_sums(everywhere, self.alphas)[self.needed]
        else:
            sums = matrix @ values
        if not sums.min() > 0:
            return np.inf, np.zeros(len(subsets))
        errors = self.energies[self.needed] / sums
        pulls = errors / sums
        if matrix is not None:
            return float(errors.sum()), pulls @ matrix
        everywhere = np.zeros(self.energies.size)
        everywhere[self.needed] = pulls
        return float(errors.sum()), subset_sums(everywhere, self.alphas)[subsets]

    def work(self, subsets: Subsets) -> int:
        """Multiplications of an evaluation."""
        return _EACH + 2 * min(len(self.needed) * len(subsets), len(self.alphas) << len(self.alphas))


@final
@dataclass(frozen=True, eq=False)
class Shares:
    """What is measured: subsets int64 [k], ascending; shares float64 [k], positive, with sum 1; err of them."""

    subsets: Subsets
    shares: Vector
    error: float
