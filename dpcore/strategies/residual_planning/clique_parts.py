"""The parts of a workload's cliques, each measured as one residual, and the error of the answers built from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
_MAX_PAIRS: Final = 1 << 20  # Largest number of pairs of a clique and one of its parts.


@dataclass(frozen=True, eq=False)
class RootLoss:
    """The square root of the least error of all queries, and its derivatives.

    roots: float64 [parts], (V_a prod t_i)^(1/2) of each part a; their sum is the square root of the least error.
    by_mean: float64 [attributes], derivatives of that sum by s0_i.
    by_rest: float64 [attributes], derivatives of that sum by t_i.
    """

    roots: Vector
    by_mean: Vector
    by_rest: Vector

    @property
    def value(self) -> float:
        """The square root of the least error."""
        return float(self.roots.sum())


class CliqueParts:
    """All subsets a (the parts) of the workload's cliques b, small ones first, attributes in the order of the domain.

    The query of attribute i splits into a mean and a residual, w_i = (w_i u_i) 1' + w_i C_i. An answer on b is
    therefore a sum over the parts a of b. It uses the residual w_i C_i for i in a, and the mean w_i u_i for i in b - a.
    Let s0_i = |W_i u_i|^2, and let t_i be the least squared error of W_i C_i. Measuring part a with noise variance s_a
    costs 1 / s_a and contributes the error s_a V_a prod_{i in a} t_i, where
    V_a = sum over b >= a of c_b prod_{i in b - a} s0_i.

    Source: ResidualPlanner+ (the successor of Xiao, He, Zhang and Kifer, 2023), for u = 1 / n.
    """

    def __init__(
        self, cliques: Sequence[tuple[int, ...]], weights: Iterable[float], residual: NDArray[np.bool_]
    ) -> None:
        """
        cliques: The attribute positions of each clique, ascending. The same clique may occur several times.
        weights: c_b, the weight of each clique's squared error.
        residual: bool [attributes], whether each attribute has a residual. Attributes without one belong to no part.

        Raises ValueError for more than 2^20 pairs of a clique and one of its parts.
        """
        residual_attributes = [[axis for axis in clique if residual[axis]] for clique in cliques]
        pairs = sum(1 << len(axes) for axes in residual_attributes)
        if pairs > _MAX_PAIRS:
            raise ValueError(f"the cliques have {pairs:,} parts; want at most {_MAX_PAIRS:,}: smaller cliques")
        distinct: set[tuple[int, ...]] = set()
        for axes in residual_attributes:
            distinct.update(part for order in range(len(axes) + 1) for part in combinations(axes, order))
        self.parts = sorted(distinct, key=lambda part: (len(part), part))
        index_of_part = {part: index for index, part in enumerate(self.parts)}
        self.inside = np.zeros((len(self.parts), len(residual)))
        for index, part in enumerate(self.parts):
            self.inside[index, list(part)] = 1
        # All pairs of a clique b and a part a, grouped by the size of b - a: the index of a, c_b, and b - a.
        pairs_of_size: dict[int, tuple[list[int], list[float], list[tuple[int, ...]]]] = {}
        for clique, axes, weight in zip(cliques, residual_attributes, weights, strict=True):
            for order in range(len(axes) + 1):
                for part in combinations(axes, order):
                    difference = tuple(axis for axis in clique if axis not in part)
                    part_indices, pair_weights, differences = pairs_of_size.setdefault(len(difference), ([], [], []))
                    part_indices.append(index_of_part[part])
                    pair_weights.append(weight)
                    differences.append(difference)
        self._pairs = [
            (
                np.array(part_indices),
                np.array(pair_weights),
                np.array(differences, dtype=np.intp).reshape(len(part_indices), size),
            )
            for size, (part_indices, pair_weights, differences) in pairs_of_size.items()
        ]

    def energies(self, means: Vector) -> Vector:
        """V_a of each part, float64 [parts].

        means: s0_i, float64 [attributes].
        """
        energies = np.zeros(len(self.parts))
        for parts, weights, differences in self._pairs:
            energies += np.bincount(parts, weights * means[differences].prod(axis=1), minlength=len(energies))
        return energies

    def products(self, factors: Vector) -> Vector:
        """The product of one factor per attribute over each part, float64 [parts].

        factors: float64 [attributes], positive.
        """
        return np.asarray(np.exp(self.inside @ np.log(factors)))

    def loss(self, means: Vector, rests: Vector) -> RootLoss:
        """The square root of the least error, with its derivatives.

        means: s0_i, float64 [attributes], positive.
        rests: t_i, float64 [attributes], positive. Values of attributes without a residual are ignored.
        """
        energies = self.energies(means)
        roots = np.sqrt(energies * self.products(rests))
        slopes = roots / (2 * energies)
        by_mean = np.zeros(len(means))
        for parts, weights, differences in self._pairs:
            steps = slopes[parts] * weights * means[differences].prod(axis=1)
            by_mean += np.bincount(differences.ravel(), np.repeat(steps, differences.shape[1]), minlength=len(means))
        return RootLoss(roots, by_mean / means, (roots @ self.inside) / (2 * rests))
