"""Parts of cliques, each measured as a residual, and the error of all queries on the cliques from those."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
_LARGEST_PAIRS: Final = 1 << 20  # Of a clique and a part of it.


@dataclass(frozen=True, eq=False)
class RootLoss:
    """The root of the least error, and how it grows.

    roots: float64 [parts], (V_a prod t_i)^(1/2) of each part a; their sum is the root of the least error.
    by_mean, by_rest: float64 [attributes], derivatives of that sum by s0_i and by t_i.
    """

    roots: Vector
    by_mean: Vector
    by_rest: Vector

    @property
    def value(self) -> float:
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
        cliques: Positions of attributes, ascending. weights: c_b, one a clique; a clique may come again.
        residual: bool [attributes], which have one: other attributes are in no part.

        Raises ValueError for more pairs of a clique and a part of it than 2^20.
        """
        held = [[place for place in clique if residual[place]] for clique in cliques]
        pairs = sum(1 << len(places) for places in held)
        if pairs > _LARGEST_PAIRS:
            raise ValueError(f"the cliques have {pairs:,} parts; want at most {_LARGEST_PAIRS:,}: smaller cliques")
        found: set[tuple[int, ...]] = set()
        for places in held:
            found.update(part for order in range(len(places) + 1) for part in combinations(places, order))
        self.parts = sorted(found, key=lambda part: (len(part), part))
        index = {part: place for place, part in enumerate(self.parts)}
        self.inside = np.zeros((len(self.parts), len(residual)))
        for place, part in enumerate(self.parts):
            self.inside[place, list(part)] = 1
        walks: dict[int, tuple[list[int], list[float], list[tuple[int, ...]]]] = {}
        for clique, places, weight in zip(cliques, held, weights, strict=True):
            for order in range(len(places) + 1):
                for part in combinations(places, order):
                    left = tuple(place for place in clique if place not in part)
                    to, much, means = walks.setdefault(len(left), ([], [], []))
                    to.append(index[part])
                    much.append(weight)
                    means.append(left)
        self._walks = [
            (np.array(to), np.array(much), np.array(means, dtype=np.intp).reshape(len(to), order))
            for order, (to, much, means) in walks.items()
        ]

    def energies(self, means: Vector) -> Vector:
        """V_a of each part, float64 [parts]. means: s0_i, float64 [attributes]."""
        found = np.zeros(len(self.parts))
        for to, much, left in self._walks:
            found += np.bincount(to, much * means[left].prod(axis=1), minlength=len(found))
        return found

    def products(self, factors: Vector) -> Vector:
        """The product over the attributes of each part of factors, float64 [attributes], positive: float64 [parts]."""
        return np.asarray(np.exp(self.inside @ np.log(factors)))

    def loss(self, means: Vector, rests: Vector) -> RootLoss:
        """means: s0_i; rests: t_i, of attributes without a residual any; both float64 [attributes], positive."""
        energies = self.energies(means)
        roots = np.sqrt(energies * self.products(rests))
        slopes = roots / (2 * energies)
        by_mean = np.zeros(len(means))
        for to, much, left in self._walks:
            steps = slopes[to] * much * means[left].prod(axis=1)
            by_mean += np.bincount(left.ravel(), np.repeat(steps, left.shape[1]), minlength=len(means))
        return RootLoss(roots, by_mean / means, (roots @ self.inside) / (2 * rests))
