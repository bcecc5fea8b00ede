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

_FIXED_WORK: Final = 50_000  # Multiplications that an evaluation costs besides those of its sums.


@final
@dataclass(frozen=True, eq=False)
class MarginalProblem:
    """min of err = sum_a E_a / lam_a over shares w >= 0 with sum 1, lam_a = sum_{b >= a} w_b^k prod_{b - a} alpha_i.

    energies: E, float64 [2^d], non-negative. A subset without energy needs no lam_a.
    alphas: alpha, float64 [d], in [0, 1], one per attribute.
    cells: float64 [2^d], the number of cells of each marginal.
    workload: int64, the subsets of the workload; measuring all of them is one way to answer it.
    max_cells: The largest number of cells of a measured marginal that is not in the workload.
    noise: The law of the noise. k is 2 under Laplace noise, where shares are of the L1 sensitivity, and 1 under the
        Gaussians, where they are of the squared L2 sensitivity.
    """

    energies: Vector
    alphas: Vector
    cells: Vector
    workload: Subsets
    max_cells: float
    noise: Noise

    @property
    def power(self) -> int:
        """k, the power of a share that lam is linear in."""
        return 2 if self.noise is Noise.LAPLACE else 1

    @cached_property
    def needed(self) -> Subsets:
        """Subsets a with energy, whose lam_a must be positive."""
        return np.flatnonzero(self.energies > 0)

    @cached_property
    def candidates(self) -> Subsets:
        """Subsets that may be measured."""
        allowed = self.cells <= self.max_cells
        allowed[self.workload] = True
        return np.flatnonzero(allowed)

    @cached_property
    def _alpha_products(self) -> Vector:
        """prod over i in a of alpha_i, for every subset a."""
        return subset_products(self.alphas, np.ones(len(self.alphas)))

    def closed_form(self) -> tuple[float, Vector]:
        """A lower bound on the error for every w, and the lam that attains it where the v_b it belongs to are >= 0.

        Returns the bound, and lam, float64 [2^d]. Because sum_b v_b = sum_a p_a lam_a with p_a = prod over i in a of
        (1 - alpha_i), the Cauchy-Schwarz inequality gives err sum_b v_b >= (sum_a (E_a p_a)^(1/2))^2. For marginals of
        codes that is the SVD bound.

        Source: McKenna (2022), Theorems 10 and 11.
        """
        cost_per_lam = subset_products(1 - self.alphas, np.ones(len(self.alphas)))
        bound = float(np.sqrt(self.energies * cost_per_lam).sum() ** 2)
        return bound, np.sqrt(self.energies / np.where(cost_per_lam > 0, cost_per_lam, 1.0))

    def columns(self, subsets: Subsets) -> Vector:
        """The matrix that takes w^k of these subsets to lam of the needed ones: float64 [needed, subsets]."""
        needed = self.needed[:, None]
        return np.where((subsets & needed) == needed, self._alpha_products[subsets ^ needed], 0.0)

    def evaluated(self, subsets: Subsets, shares: Vector, matrix: Vector | None) -> tuple[float, Vector]:
        """The error of shares, and its negative gradient.

        subsets: int64 [k], the measured subsets.
        shares: float64 [k], their shares w.
        matrix: ``columns(subsets)``, which is faster for few subsets; None computes by sums over all 2^d subsets.

        Returns err, and -d err / d w^k of these subsets, float64 [k]; inf and zeros where they do not determine the
        workload's answers.
        """
        values = shares**self.power
        if matrix is None:
            over_subsets = np.zeros(self.energies.size)
            over_subsets[subsets] = values
            sums = superset_sums(over_subsets, self.alphas)[self.needed]
        else:
            sums = matrix @ values
        if not sums.min() > 0:
            return np.inf, np.zeros(len(subsets))
        errors = self.energies[self.needed] / sums
        gradient = errors / sums
        if matrix is not None:
            return float(errors.sum()), gradient @ matrix
        over_subsets = np.zeros(self.energies.size)
        over_subsets[self.needed] = gradient
        return float(errors.sum()), subset_sums(over_subsets, self.alphas)[subsets]

    def work(self, subsets: Subsets) -> int:
        """The number of multiplications of one evaluation."""
        return _FIXED_WORK + 2 * min(len(self.needed) * len(subsets), len(self.alphas) << len(self.alphas))


@final
@dataclass(frozen=True, eq=False)
class Shares:
    """The marginals to measure.

    subsets: int64 [k], the measured subsets.
    shares: float64 [k], positive, with sum 1.
    error: The error err of these shares.
    """

    subsets: Subsets
    shares: Vector
    error: float
