"""Domains of named discrete attributes, and views of records as 0/1 columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpcore.frozen import plain_text

Clique = tuple[str, ...]


@dataclass(frozen=True)
class Domain:
    """An ordered set of attributes, each with a finite number of values.

    names: Names of the attributes, all different.
    sizes: Number of values of each attribute, at least 1.

    Raises ValueError for a repeated name or a size below 1.

    >>> Domain.of({"age": 5, "sex": 2}).shape(("sex",))
    (2,)
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(map(plain_text, self.names)))
        object.__setattr__(self, "sizes", tuple(int(size) for size in self.sizes))
        if len(set(self.names)) != len(self.names):
            repeated = sorted({name for name in self.names if self.names.count(name) > 1})
            raise ValueError(f"attributes {repeated} appear twice; want distinct names")
        for name, size in zip(self.names, self.sizes, strict=True):
            if size < 1:
                raise ValueError(f"attribute {name!r} has size {size}; want >= 1")

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> Domain:
        """The domain of attributes given with their sizes, in the order of the mapping."""
        return cls(tuple(sizes), tuple(sizes.values()))

    @cached_property
    def _hash(self) -> int:
        return hash((self.names, self.sizes))

    def __hash__(self) -> int:
        """Computed once, because domains are parts of many keys and may have thousands of attributes."""
        return self._hash

    def __getstate__(self) -> dict[str, object]:
        """Omits cached values, because another process hashes strings differently."""
        return {"names": self.names, "sizes": self.sizes}

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.names)}

    def __contains__(self, name: str) -> bool:
        return name in self._positions

    def index(self, name: str) -> int:
        """Position of an attribute. Raises ValueError for an unknown name."""
        position = self._positions.get(name)
        if position is None:
            raise ValueError(f"unknown attribute {name!r}; want one of {list(self.names)}")
        return position

    def axes(self, clique: Iterable[str]) -> tuple[int, ...]:
        """Positions of the attributes of a clique, in the order of the clique."""
        return tuple(map(self.index, clique))

    def canonical(self, clique: Iterable[str]) -> Clique:
        """The clique with its attributes in the order of the domain. Raises ValueError for a repeated attribute."""
        names = tuple(clique)
        if len(set(names)) != len(names):
            raise ValueError(f"clique {names} repeats an attribute; want distinct attributes")
        return tuple(self.names[axis] for axis in sorted(self.axes(names)))

    def shape(self, clique: Iterable[str] | None = None) -> tuple[int, ...]:
        """Sizes of the attributes of a clique, or of all attributes."""
        return self.sizes if clique is None else tuple(self.sizes[axis] for axis in self.axes(clique))

    def size(self, clique: Iterable[str] | None = None) -> int:
        """Number of cells of the table over a clique, or over all attributes, as an exact integer of any size."""
        return math.prod(self.shape(clique))

    def named(self, cliques: Iterable[Clique]) -> Clique:
        """The attributes that some clique names, in the order of the domain."""
        names = {name for clique in cliques for name in clique}
        return tuple(name for name in self.names if name in names)

    def project(self, clique: Iterable[str]) -> Domain:
        """The domain of the attributes of a clique, in the order of the clique."""
        names = tuple(clique)
        return Domain(names, self.shape(names))


@dataclass(frozen=True)
class BinaryView:
    """Records as vectors of 0/1 columns. For tables, the columns form one-hot groups.

    columns: Number of columns.
    groups: Half-open column ranges that cover all columns; a record has exactly one 1 in each. Empty for baskets.
    names: Attribute of each group, or empty. Names label synthetic rows and do not change any query, so views that
        differ only in their names are equal.

    Raises ValueError for fewer than one column, for groups that do not cover the columns in order, and for a number of
    names other than the number of groups.
    """

    columns: int
    groups: tuple[tuple[int, int], ...] = ()
    names: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", int(self.columns))
        object.__setattr__(self, "groups", tuple((int(start), int(stop)) for start, stop in self.groups))
        object.__setattr__(self, "names", tuple(map(plain_text, self.names)))
        if self.columns < 1:
            raise ValueError(f"a binary view has {self.columns} columns; want >= 1")
        starts, stops = [start for start, _ in self.groups], [stop for _, stop in self.groups]
        if self.groups and (starts != [0, *stops[:-1]] or stops[-1] != self.columns):
            raise ValueError("one-hot groups must be contiguous and cover every column")
        if self.names and len(self.names) != len(self.groups):
            raise ValueError(f"{len(self.names)} names for {len(self.groups)} one-hot groups; want one each, or none")

    @classmethod
    def one_hot(cls, domain: Domain) -> BinaryView:
        """The view with one column per value and one group per attribute, in the order of the domain."""
        stops = np.cumsum(domain.sizes).tolist()
        return cls(stops[-1], tuple(zip([0, *stops[:-1]], stops, strict=True)), domain.names)

    @property
    def domain(self) -> Domain | None:
        """The domain of the one-hot groups, or None for baskets. Groups without names are numbered."""
        if not self.groups:
            return None
        names = self.names or tuple(f"attribute_{position}" for position in range(len(self.groups)))
        return Domain(names, tuple(stop - start for start, stop in self.groups))

    def group_of_column(self) -> NDArray[np.int32]:
        """Group of each column, int32 [columns]. Without groups, every column is a group of its own."""
        if not self.groups:
            return np.arange(self.columns, dtype=np.int32)
        return np.repeat(np.arange(len(self.groups), dtype=np.int32), [stop - start for start, stop in self.groups])
