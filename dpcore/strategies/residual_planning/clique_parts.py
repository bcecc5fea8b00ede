"""The parts of a workload's cliques, each measured as a residual, and the error of the queries that use them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
_MAX_PAIRS: Final = 1 << 20  # Pairs of a clique and a part of it.


@dataclass(frozen=True, eq=False)
class RootLoss:
    """The square root of the least error, and its derivatives.

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
    """Subsets a of cliques b, small ones first, in the order of the attributes.

    Where attribute i of a query is w_i = (w_i u_i) 1' + w_i C_i, the answers on b are sums over the parts a of b, with
    the residual w_i C_i for i in a and the mean w_i u_i for i in b - a. With s0_i = |W_i u_i|^2, part a measured with
    noise s_a brings the error s_a V_a prod_{i in a} t_i, where V_a = sum over b >= a of c_b prod_{i in b - a} s0_i, and
    costs 1 / s_a.

    Source: ResidualPlanner+ (the successor of Xiao, He, Zhang and Kifer, 2023), for u = 1 / n.
    """

    def __init__(
        self, cliques: Sequence[tuple[int, ...]], weights: Iterable[float], residual: NDArray[np.bool_]
    ) -> None:
        """
        cliques: Positions of attributes, ascending; a clique may come more than once.
        weights: c_b, the weight of each clique's squared error.
        residual: bool [attributes], whether an attribute has a residual; attributes without one are in no part.

        Raises ValueError for more than 2^20 pairs of a clique and a part of it.
        """
        held = [[place for place in clique if residual[place]] for clique in cliques]
        pairs = sum(1 << len(indices) for indices in held)
        if pairs > _MAX_PAIRS:
            raise ValueError(f"the cliques have {pairs:,} parts; want at most {_MAX_PAIRS:,}: smaller cliques")
        distinct: set[tuple[int, ...]] = set()
        for indices in held:
            distinct.update(part for order in range(len(indices) + 1) for part in combinations(indices, order))
        self.parts = sorted(distinct, key=lambda part: (len(part), part))
        index = {part: place for place, part in enumerate(self.parts)}
        self.inside = np.zeros((len(self.parts), len(residual)))
        for place, part in enumerate(self.parts):
            self.inside[place, list(part)] = 1
        # Pairs of a clique b and a part a, by the size of b - a: indices of a, weights c_b, and attributes of b - a.
        pairs_of_size: dict[int, tuple[list[int], list[float], list[tuple[int, ...]]]] = {}
        for clique, indices, weight in zip(cliques, held, weights, strict=True):
            for order in range(len(indices) + 1):
                for part in combinations(indices, order):
                    difference = tuple(place for place in clique if place not in part)
                    part_indices, pair_weights, differences = pairs_of_size.setdefault(len(difference), ([], [], []))
                    part_indices.append(index[part])
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
        """The product of the factors of each part's attributes, float64 [parts].

        factors: float64 [attributes], positive.
        """
        return np.asarray(np.exp(self.inside @ np.log(factors)))

    def loss(self, means: Vector, rests: Vector) -> RootLoss:
        """The square root of the least error.

        means: s0_i, float64 [attributes], positive.
        rests: t_i, float64 [attributes], positive; unused for attributes without a residual.
        """
        energies = self.energies(means)
        roots = np.sqrt(energies * self.products(rests))
        slopes = roots / (2 * energies)
        by_mean = np.zeros(len(means))
        for parts, weights, differences in self._pairs:
            steps = slopes[parts] * weights * means[differences].prod(axis=1)
            by_mean += np.bincount(differences.ravel(), np.repeat(steps, differences.shape[1]), minlength=len(means))
        return RootLoss(roots, by_mean / means, (roots @ self.inside) / (2 * rests))
