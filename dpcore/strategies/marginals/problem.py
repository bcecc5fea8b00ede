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

_FIXED_WORK: Final = 50_000  # The overhead of one evaluation, expressed in multiplications.


@final
@dataclass(frozen=True, eq=False)
class MarginalProblem:
    """Minimise err = sum_a E_a / lam_a over shares w >= 0 of sum 1, lam_a = sum_{b >= a} w_b^k prod_{b - a} alpha_i.

    energies: E, float64 [2^d], non-negative. For a subset a without energy, lam_a may be 0.
    alphas: alpha, float64 [d], one per attribute, in [0, 1].
    cells: float64 [2^d], the number of cells of each marginal.
    workload: int64 [cliques], the subsets of the workload. Measuring all of them always determines the answers.
    max_cells: The largest number of cells of a measured marginal outside the workload.
    noise: The law of the noise. Under Laplace noise k is 2, and shares are parts of the L1 sensitivity. Under Gaussian
        noise k is 1, and shares are parts of the squared L2 sensitivity.
    """

    energies: Vector
    alphas: Vector
    cells: Vector
    workload: Subsets
    max_cells: float
    noise: Noise

    @property
    def power(self) -> int:
        """The exponent k; lam is linear in w^k."""
        return 2 if self.noise is Noise.LAPLACE else 1

    @cached_property
    def needed(self) -> Subsets:
        """The subsets a with positive energy, whose lam_a must be positive."""
        return np.flatnonzero(self.energies > 0)

    @cached_property
    def candidates(self) -> Subsets:
        """The subsets that may be measured."""
        allowed = self.cells <= self.max_cells
        allowed[self.workload] = True
        return np.flatnonzero(allowed)

    @cached_property
    def _alpha_products(self) -> Vector:
        """The product of alpha_i over i in a, for every subset a."""
        return subset_products(self.alphas, np.ones(len(self.alphas)))

    def closed_form(self) -> tuple[float, Vector]:
        """A lower bound on the error over all w, and the lam that attains it.

        Returns the bound, and lam, float64 [2^d], up to a factor. Let v_b = w_b^k. Because sum_b v_b = sum_a p_a lam_a
        with p_a = prod_{i in a} (1 - alpha_i), the Cauchy-Schwarz inequality gives
        err sum_b v_b >= (sum_a (E_a p_a)^(1/2))^2. The bound is attained if the v_b of this lam are all >= 0. For
        marginals of codes it is the SVD bound.

        Source: McKenna (2022), Theorems 10 and 11.
        """
        cost_per_lam = subset_products(1 - self.alphas, np.ones(len(self.alphas)))
        bound = float(np.sqrt(self.energies * cost_per_lam).sum() ** 2)
        return bound, np.sqrt(self.energies / np.where(cost_per_lam > 0, cost_per_lam, 1.0))

    def columns(self, subsets: Subsets) -> Vector:
        """The matrix that maps w^k of these subsets to lam of the ``needed`` ones: float64 [needed, subsets]."""
        needed = self.needed[:, None]
        return np.where((subsets & needed) == needed, self._alpha_products[subsets ^ needed], 0.0)

    def evaluated(self, subsets: Subsets, shares: Vector, matrix: Vector | None) -> tuple[float, Vector]:
        """The error of given shares, and its negative gradient.

        subsets: int64 [m], the measured subsets.
        shares: float64 [m], their shares w.
        matrix: ``columns(subsets)``, which is faster for few subsets. With None, sums over all 2^d subsets are used.

        Returns err, and -d err / d w^k of these subsets, float64 [m]. If the subsets do not determine the workload's
        answers, err is inf and the gradient is 0.
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
        """The approximate number of multiplications of one evaluation with these subsets."""
        return _FIXED_WORK + 2 * min(len(self.needed) * len(subsets), len(self.alphas) << len(self.alphas))


@final
@dataclass(frozen=True, eq=False)
class Shares:
    """The marginals to measure, and their shares.

    subsets: int64 [m], the measured subsets.
    shares: float64 [m], positive, with sum 1.
    error: The error err of these shares.
    """

    subsets: Subsets
    shares: Vector
    error: float
