"""Families of PrivBayes: which parents an attribute may have, from public facts and what was selected before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, final

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.structure.triangulation import Triangulation

_MOST_CANDIDATES: Final = 8192  # Of one round, beside those with at most one parent.
_MOST_CELLS: Final = 1 << 25  # Of all these candidates.


@final
@dataclass(frozen=True)
class Family:
    """An attribute and those on which its conditional distribution depends, all of them added to the network before."""

    child: str
    parents: Clique

    @property
    def names(self) -> Clique:
        return (*self.parents, self.child)


@final
@dataclass(frozen=True)
class Limits:
    """What a family may be.

    cells: Most cells of its marginal: with more it would not be theta-useful.
    parents: Most parents.
    model_cells: Most cells of the junction tree of all families.
    """

    cells: float
    parents: int
    model_cells: int


def candidates(domain: Domain, network: Sequence[Family], names: Sequence[str], limits: Limits) -> list[Family]:
    """The families that may come next: each attribute outside the network with each maximal set of parents inside.

    Sets are maximal among those whose family keeps the limits; () where none does. Where there are more families than
    can be compared, none has more parents than those can all have.

    Source: Zhang et al. (2017), greedy structure with theta-useful maximal parent sets, without taxonomies. That the
    network's junction tree stays small is this project's: its answers are exact.
    """
    inside = domain.canonical(family.child for family in network)
    outside = [name for name in names if name not in inside]
    triangulation = Triangulation.of(domain, [family.names for family in network])
    known: dict[Clique, int] = {}
    families: dict[int, list[Clique]] = {}

    def fits(size: int, parents: Clique) -> bool:
        cells = size * domain.size(parents)
        if cells > limits.cells:
            return False
        if parents not in known:
            known[parents] = triangulation.cells_with(parents)
        # A child added last is in one node alone, that of its family, which takes the place of its own.
        return known[parents] - size + cells <= limits.model_cells

    sizes = [domain.size((name,)) for name in outside]
    for size in set(sizes):
        families[size] = _maximal(domain, inside, partial(fits, size), limits.parents, sizes)
    return [Family(name, parents) for name, size in zip(outside, sizes, strict=True) for parents in families[size]]


def _maximal(
    domain: Domain, names: Clique, fits: Callable[[Clique], bool], max_parents: int, children: Sequence[int]
) -> list[Clique]:
    """Sets of at most so many names that fit, none inside another one: small sets first."""
    widest, rows = max(children), len(children)
    level: list[Clique] = [()]
    maximal: list[Clique] = []
    for order in range(max_parents):
        above: list[Clique] = []
        cells = 0
        for parents in _extended(level, names):
            if fits(parents):
                above.append(parents)
                cells += widest * domain.size(parents)
            if order and (rows * len(above) > _MOST_CANDIDATES or rows * cells > _MOST_CELLS):
                return [*maximal, *level]
        covered = {frozenset(parents) - {name} for parents in above for name in parents}
        maximal += [parents for parents in level if frozenset(parents) not in covered]
        level = above
    return [*maximal, *level]


def _extended(sets: Sequence[Clique], names: Clique) -> Iterator[Clique]:
    """Each set with each name that comes after its last one."""
    place = {name: index for index, name in enumerate(names)}
    for parents in sets:
        yield from ((*parents, name) for name in names[place[parents[-1]] + 1 if parents else 0 :])
