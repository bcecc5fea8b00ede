"""The candidate families of PrivBayes, from public facts and earlier selections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, final

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.structure.triangulation import Triangulation

_MAX_CANDIDATES: Final = 8192  # Candidates of one round with two parents or more.
_MAX_CELLS: Final = 1 << 25  # Cells of all these candidates together.


@final
@dataclass(frozen=True)
class Family:
    """An attribute, and its parents in the network, all of which were added before it."""

    child: str
    parents: Clique

    @property
    def names(self) -> Clique:
        return (*self.parents, self.child)


@final
@dataclass(frozen=True)
class Limits:
    """The limits of a family.

    cells: Maximum number of cells of its marginal; a larger family would not be theta-useful.
    parents: Maximum number of parents.
    model_cells: Maximum number of cells of the junction tree of all families.
    """

    cells: float
    parents: int
    model_cells: int


def candidates(domain: Domain, network: Sequence[Family], names: Sequence[str], limits: Limits) -> list[Family]:
    """The candidate families of the next round: each attribute outside the network, with each of its parent sets.

    The parent sets of an attribute are the maximal ones among those whose family keeps the limits; the empty set if
    none does. If these are too many to compare, the number of parents is limited to the largest number for which they
    are not.

    domain: The domain of the table.
    network: The families of the earlier rounds, at least one.
    names: The attributes of the final network.
    limits: The limits of a family.

    Source: Zhang et al. (2017), greedy structure with theta-useful maximal parent sets, without taxonomies. The limit
    on the junction tree is this project's: it keeps exact answers affordable.
    """
    inside = domain.canonical(family.child for family in network)
    outside = [name for name in names if name not in inside]
    triangulation = Triangulation.of(domain, [family.names for family in network])
    cells_with: dict[Clique, int] = {}
    families: dict[int, list[Clique]] = {}

    def fits(size: int, parents: Clique) -> bool:
        cells = size * domain.size(parents)
        if cells > limits.cells:
            return False
        if parents not in cells_with:
            cells_with[parents] = triangulation.cells_with(parents)
        # The child is in one node of the tree only, that of its family, which replaces the child's own node.
        return cells_with[parents] - size + cells <= limits.model_cells

    sizes = [domain.size((name,)) for name in outside]
    for size in set(sizes):
        families[size] = _maximal_parents(domain, inside, partial(fits, size), limits.parents, sizes)
    return [Family(name, parents) for name, size in zip(outside, sizes, strict=True) for parents in families[size]]


def _maximal_parents(
    domain: Domain, names: Clique, fits: Callable[[Clique], bool], max_parents: int, child_sizes: Sequence[int]
) -> list[Clique]:
    """The maximal sets of at most ``max_parents`` of the names that fit, small sets first.

    The search goes level by level, from k to k + 1 parents, and stops before the candidates become too many.
    """
    max_child_size, children = max(child_sizes), len(child_sizes)
    level: list[Clique] = [()]
    maximal: list[Clique] = []
    for order in range(max_parents):
        next_level: list[Clique] = []
        cells = 0
        for parents in _extended(level, names):
            if fits(parents):
                next_level.append(parents)
                cells += max_child_size * domain.size(parents)
            if order and (children * len(next_level) > _MAX_CANDIDATES or children * cells > _MAX_CELLS):
                return [*maximal, *level]
        covered = {frozenset(parents) - {name} for parents in next_level for name in parents}
        maximal += [parents for parents in level if frozenset(parents) not in covered]
        level = next_level
    return [*maximal, *level]


def _extended(sets: Sequence[Clique], names: Clique) -> Iterator[Clique]:
    """Each set extended by each name that comes after its last one, so that every larger set occurs once."""
    index_of = {name: index for index, name in enumerate(names)}
    for parents in sets:
        yield from ((*parents, name) for name in names[index_of[parents[-1]] + 1 if parents else 0 :])
