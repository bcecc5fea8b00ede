"""The lattice of all parts of a workload's marginals: what each part adds to the variance of a marginal's cell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain

Vector = NDArray[np.float64]
_Positions = NDArray[np.intp]
_MAX_ORDER: Final = 18  # Largest number of attributes of a marginal; 18 attributes have 262,144 subsets.
_MAX_LEVEL_ENTRIES: Final = 1 << 24  # Largest number of entries of one level's table of attribute positions.
_MAX_CODE: Final = 1 << 62  # Codes of rows stay below this, so that they fit into int64.


@final
@dataclass(frozen=True, eq=False)
class Allocation:
    """The noise and the budget shares of all parts, including parts that get no budget.

    noise: float64 [parts], s_a.
    shares: float64 [parts], p_a / s_a.
    error: The weighted squared error that these shares minimise.
    """

    noise: Vector
    shares: Vector
    error: float


@final
class Lattice:
    """The lattice of all parts of a workload's marginals, with one level per number of attributes.

    Vectors have one entry per part, small parts first. Sums over all pairs of a part and a superset of it are computed
    level by level, by deleting one attribute at a time. A pair that differs in r attributes is reached by r! paths,
    which the divisions by the distance correct.
    """

    def __init__(self, domain: Domain, cliques: Iterable[Clique], replaced: bool) -> None:
        """
        domain: The domain of the workload.
        cliques: The workload's marginals.
        replaced: True if neighbouring tables differ by one replaced row, False if by one added or removed row.

        Raises ValueError if there are too many parts, or if an attribute is unknown or repeated.
        """
        self._names = np.array(domain.names, dtype=object)
        levels, self._order = _positions(domain, list(cliques))
        sizes = np.array(domain.sizes, dtype=np.float64)
        self.rows, self.faces, self.clique_rows = _closure(levels, len(sizes))
        self.starts = np.cumsum([0, *map(len, self.rows)])
        self._inverse_squares = [(sizes[rows] ** -2.0).T for rows in self.rows]
        self.parts_sizes = np.concatenate([sizes[rows].prod(axis=1) for rows in self.rows])
        self.energies = np.concatenate([(1 - 1 / sizes[rows]).prod(axis=1) for rows in self.rows])
        self.costs = self.energies.copy()
        if replaced and len(self.rows) > 1:
            # |a(x) - a(y)|^2 is largest where x and y differ in the smallest attribute alone.
            smallest = np.concatenate([sizes[rows].min(axis=1) for rows in self.rows[1:]])
            self.costs[1:] *= 2 * smallest / np.maximum(smallest - 1, 1)
        indices = np.concatenate([start + rows for start, rows in zip(self.starts[:-1], self.clique_rows, strict=True)])
        self.workload, self._workload_index = np.unique(indices, return_inverse=True)

    @property
    def workload_sizes(self) -> Vector:
        """The number of cells of each marginal of the workload."""
        return np.asarray(self.parts_sizes[self.workload])

    @property
    def parts(self) -> list[Clique]:
        """The attributes of each part, in the order of the domain."""
        return list(chain.from_iterable(map(tuple, self._names[rows].tolist()) for rows in self.rows))

    def sums_of_weights(self, weights: Vector, combine: np.ufunc) -> Vector:
        """The weight of each marginal of the workload.

        weights: float64 [cliques], in the order in which the cliques were given.
        combine: Merges the weights of equal cliques.
        """
        sums = np.zeros(len(self.workload))
        combine.at(sums, self._workload_index, weights[self._order])
        return sums

    def variances(self, of_parts: Vector) -> Vector:
        """The variance of a cell of each marginal b: the sum over its parts a of v_a prod_{b - a} 1 / n^2.

        of_parts: float64 [parts], the variance v_a of a cell of each part's residual.
        """
        levels = self._levels(of_parts)
        current, sums = levels, [level.copy() for level in levels]
        for distance in range(1, len(levels)):
            following = [np.zeros_like(level) for level in levels]
            for order in range(distance, len(levels)):
                below = current[order - 1][self.faces[order]]
                following[order] = (below * self._inverse_squares[order]).sum(axis=0) / distance
                sums[order] += following[order]
            current = following
        return np.asarray(np.concatenate(sums)[self.workload])

    def importance(self, weights: Vector) -> Vector:
        """The weight of each part in the sum over the workload's marginals of weight * variance: float64 [parts]."""
        part_weights = np.zeros(self.starts[-1])
        part_weights[self.workload] = weights
        levels = self._levels(part_weights)
        current, sums = levels, [level.copy() for level in levels]
        for distance in range(1, len(levels)):
            following = [np.zeros_like(level) for level in levels]
            for order in range(len(levels) - distance, 0, -1):
                contributions = (current[order] * self._inverse_squares[order]).ravel()
                faces, size = self.faces[order].ravel(), len(levels[order - 1])
                following[order - 1] = np.bincount(faces, contributions, minlength=size) / distance
                sums[order - 1] += following[order - 1]
            current = following
        return np.concatenate(sums)

    def closed_form(self, weights: Vector) -> Allocation:
        """The allocation that minimises the sum over the workload's marginals of weight * variance of a cell."""
        roots = np.sqrt(self.importance(weights) * self.energies * self.costs)
        shares = roots / roots.sum()
        noise = np.divide(self.costs, shares, out=np.zeros_like(shares), where=shares > 0)
        return Allocation(noise, shares, float(roots.sum() ** 2))

    def _levels(self, vector: Vector) -> list[Vector]:
        return np.split(vector, self.starts[1:-1])


def _positions(domain: Domain, cliques: list[Clique]) -> tuple[list[_Positions], _Positions]:
    """The attribute positions of the cliques, one array per order from 0 on, and the index of each clique so sorted."""
    if not cliques:
        raise ValueError("no marginals; want at least one")
    orders = np.array([len(clique) for clique in cliques])
    position = {name: index for index, name in enumerate(domain.names)}
    levels, indices = [], []
    for order in range(int(orders.max()) + 1):
        of_order = np.flatnonzero(orders == order)
        names = chain.from_iterable(cliques[index] for index in of_order.tolist())
        try:
            flat = np.fromiter((position[name] for name in names), dtype=np.intp, count=order * len(of_order))
        except KeyError as error:
            raise ValueError(f"unknown attribute {error.args[0]!r}; want one of {list(domain.names)}") from None
        rows = np.sort(flat.reshape(len(of_order), order), axis=1)
        if (repeated := np.flatnonzero((rows[:, 1:] == rows[:, :-1]).any(axis=1))).size:
            raise ValueError(f"clique {cliques[of_order[repeated[0]]]} repeats an attribute; want distinct attributes")
        levels.append(rows)
        indices.append(of_order)
    return levels, np.concatenate(indices)


def _closure(cliques: list[_Positions], attributes: int) -> tuple[list[_Positions], list[_Positions], list[_Positions]]:
    """All parts of the cliques, one level per number k of attributes.

    Returns three lists over k:
        rows: [parts of k attributes, k], the attribute positions of each part, ascending.
        faces: [k, parts], for each deleted attribute the index of the remaining part in the level below.
        clique_rows: [cliques of k attributes], the index of each clique in its level.
    """
    if len(cliques) > _MAX_ORDER + 1:
        raise ValueError(f"a marginal of {len(cliques) - 1} attributes; want at most {_MAX_ORDER}")
    levels, faces, clique_rows = [], [], []
    above = np.empty((0, len(cliques)), dtype=np.intp)
    for order in range(len(cliques) - 1, -1, -1):
        faces_above = [np.delete(above, index, axis=1) for index in range(order + 1)]
        candidates = np.concatenate([*faces_above, cliques[order]])
        if candidates.size > _MAX_LEVEL_ENTRIES:
            raise ValueError(
                f"the marginals have {len(candidates):,} parts of {order} attributes; want smaller cliques"
            )
        rows, inverse = _distinct(candidates, attributes)
        faces.append(inverse[: (order + 1) * len(above)].reshape(order + 1, len(above)))
        clique_rows.append(inverse[(order + 1) * len(above) :])
        levels.append(rows)
        above = rows
    # The faces of a level are indices into the level below, so they were computed one iteration later.
    return levels[::-1], [np.empty((0, 1), dtype=np.intp), *faces[:0:-1]], clique_rows[::-1]


def _distinct(rows: _Positions, attributes: int) -> tuple[_Positions, _Positions]:
    """The distinct rows in ascending order, and the index of each row among them."""
    code, span = np.zeros(len(rows), dtype=np.int64), 1
    for column in rows.T:
        if span * attributes > _MAX_CODE:
            values, code = np.unique(code, return_inverse=True)
            span = len(values)
        code, span = code * attributes + column, span * attributes
    _, first_rows, inverse = np.unique(code, return_index=True, return_inverse=True)
    return rows[first_rows], inverse
