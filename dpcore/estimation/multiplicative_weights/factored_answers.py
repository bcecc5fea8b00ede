"""Marginals of a product of dense tables, recomputed only where a table has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import Clique, Domain
from dpcore.estimation.multiplicative_weights.dense import tables_of
from dpcore.queries import Marginals

_NO_VERSION: Final = -1  # Differs from every version of a table.


@final
@dataclass(frozen=True, eq=False)
class Factor:
    """One group of attributes, independent of all other groups.

    domain: The attributes of the group.
    table: float64 [cells], in C order of the domain's attributes, of any positive sum.
    version: A number that changes whenever the table changes.
    """

    domain: Domain
    table: NDArray[np.float64]
    version: int = 0


@final
class FactoredAnswers:
    """The answers of fixed marginals, while the tables of the groups change and groups are joined.

    queries: The marginals.

    A marginal over several groups is the product of its parts, one per group. Parts are recomputed only if the version
    of their table has changed. After groups were joined, only the marginals that involve them are split again. All
    products are computed in one compiled pass over the answers.

    Source: Hardt, Ligett and McSherry (2012), section 4.
    """

    def __init__(self, queries: Marginals) -> None:
        self._cliques = queries.cliques
        lengths = [len(clique) for clique in queries.cliques]
        self._first = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        attribute_count = int(self._first[-1])
        self._sizes = np.array([size for clique in self._cliques for size in queries.domain.shape(clique)], np.int64)
        self._starts = np.concatenate([[0], np.cumsum(queries.sizes)]).astype(np.int64)
        # For each attribute of each clique: the slot of its part in the clique, and its stride within the part.
        self._slot, self._stride = np.zeros(attribute_count, np.int64), np.zeros(attribute_count, np.int64)
        # For each slot of each clique (at most one per attribute): the part's group, and its offset in that group.
        self._group, self._offset = np.zeros(attribute_count, np.int64), np.zeros(attribute_count, np.int64)
        self._slots = np.zeros(len(lengths), np.int64)
        self._cliques_with: dict[str, list[int]] = {}
        for index, clique in enumerate(self._cliques):
            for name in clique:
                self._cliques_with.setdefault(name, []).append(index)
        self._parts: dict[int, _Parts] = {}

    def values(self, factors: Mapping[int, Factor], total: float) -> NDArray[np.float64]:
        """The answers of the product of the factors, float64 [queries.size].

        factors: The groups, by a number that is never reused for another group. Together they contain all attributes of
            the cliques.
        total: The sum that the product is scaled to, in counts.
        """
        self._resplit(factors)
        begins = np.zeros(max(factors, default=0) + 1, np.int64)
        pieces, length = [], 0
        for number, parts in self._parts.items():
            parts.refresh(factors[number])
            begins[number] = length
            length += parts.size
            pieces.append(parts.values)
        out = np.empty(int(self._starts[-1]))
        flat = np.concatenate([np.zeros(0), *pieces])
        positions = begins[self._group] + self._offset
        indices = (self._first, self._sizes, self._slot, self._stride, self._slots)
        _multiply(out, flat, total, self._starts, *indices, positions)
        return out

    def joined_cells(self, factors: Mapping[int, Factor]) -> NDArray[np.float64]:
        """The number of cells of the table that each clique would be joined into, float64 [cliques].

        factors: The groups, as for ``values``.

        Numbers below 2^53 are exact; numbers that overflow are inf.
        """
        self._resplit(factors)
        cells = np.zeros(max(factors, default=0) + 1)
        for number, factor in factors.items():
            cells[number] = factor.table.size
        return _products(cells, self._first, self._slots, self._group)

    def _resplit(self, factors: Mapping[int, Factor]) -> None:
        """Splits again the cliques that contain an attribute of a new group."""
        new = [number for number in factors if number not in self._parts]
        if not new:
            return
        for number in [number for number in self._parts if number not in factors]:
            del self._parts[number]
        self._parts |= {number: _Parts() for number in new}
        group_of_attribute = {name: number for number, factor in factors.items() for name in factor.domain.names}
        names = (name for number in new for name in factors[number].domain.names)
        for index in sorted({index for name in names for index in self._cliques_with.get(name, ())}):
            self._split(index, group_of_attribute)

    def _split(self, index: int, group_of_attribute: Mapping[str, int]) -> None:
        """Splits one clique into its parts, one per group."""
        clique, first = self._cliques[index], int(self._first[index])
        groups: dict[int, list[int]] = {}
        for position, name in enumerate(clique):
            groups.setdefault(group_of_attribute[name], []).append(first + position)
        for slot, (number, positions) in enumerate(groups.items()):
            stride = 1
            for position in reversed(positions):
                self._slot[position], self._stride[position] = slot, stride
                stride *= int(self._sizes[position])
            self._group[first + slot] = number
            part = tuple(clique[position - first] for position in positions)
            self._offset[first + slot] = self._parts[number].offset(part, stride)
        self._slots[index] = len(groups)


class _Parts:
    """The marginals of one group that the cliques use as parts, concatenated."""

    def __init__(self) -> None:
        self.values = np.zeros(0)
        self.size = 0
        self._offsets: dict[Clique, int] = {}
        self._version = _NO_VERSION

    def offset(self, part: Clique, size: int) -> int:
        """The index of the part's first cell in ``values``; new parts are appended."""
        if part not in self._offsets:
            self._offsets[part] = self.size
            self.size += size
            self._version = _NO_VERSION
        return self._offsets[part]

    def refresh(self, factor: Factor) -> None:
        """Recomputes the probabilities of all parts if the table has changed."""
        if self._version == factor.version or not self._offsets:
            return
        names = factor.domain.names
        only_whole_table = set(self._offsets) == {names}
        counts = factor.table
        if not only_whole_table:
            counts = tables_of(factor.table, factor.domain, _marginals(factor, self._offsets))
        self.values = counts / factor.table.sum()
        self._version = factor.version


def _marginals(factor: Factor, parts: Iterable[Clique]) -> Marginals:
    return Marginals(factor.domain, tuple(parts))


@compiled
def _multiply(
    out: NDArray[np.float64],
    flat: NDArray[np.float64],
    total: float,
    starts: NDArray[np.int64],
    first: NDArray[np.int64],
    sizes: NDArray[np.int64],
    slot: NDArray[np.int64],
    stride: NDArray[np.int64],
    slots: NDArray[np.int64],
    positions: NDArray[np.int64],
) -> None:
    """Fills ``out`` in C order: each cell of a clique is the total times one entry of each of the clique's parts."""
    for clique in range(slots.size):
        begin, attributes, parts = first[clique], first[clique + 1] - first[clique], slots[clique]
        entry = positions[begin : begin + parts].copy()
        code = np.zeros(attributes, np.int64)
        for cell in range(starts[clique], starts[clique + 1]):
            value = total
            for part in range(parts):
                value *= flat[entry[part]]
            out[cell] = value
            for index in range(attributes - 1, -1, -1):
                attribute = begin + index
                code[index] += 1
                entry[slot[attribute]] += stride[attribute]
                if code[index] < sizes[attribute]:
                    break
                entry[slot[attribute]] -= sizes[attribute] * stride[attribute]
                code[index] = 0


@compiled
def _products(
    cells: NDArray[np.float64], first: NDArray[np.int64], slots: NDArray[np.int64], group: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The product of the numbers of cells of each clique's groups."""
    out = np.ones(slots.size)
    for clique in range(slots.size):
        for part in range(slots[clique]):
            out[clique] *= cells[group[first[clique] + part]]
    return out
