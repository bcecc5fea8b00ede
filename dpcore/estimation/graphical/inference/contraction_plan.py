"""Which intermediate cliques save passes over a large table when many of its parts are summed or added."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final, NamedTuple, final

from dpcore.domain import Clique, Domain

_MOST_PAIRED: Final = 20  # Parts whose pairs are all compared.


class Step(NamedTuple):
    """A part is summed from (or added to) a table: both are indices, and the node itself is -1.

    Indices below the number of parts are parts, the others are intermediate cliques in their order.
    """

    table: int
    part: int


def shared_steps(domain: Domain, node: Clique, cliques: Sequence[Clique]) -> tuple[tuple[Clique, ...], list[Step]]:
    """Intermediate cliques between a node and its parts, and the steps from the node down, tables before their parts.

    Two parts taken from their union cost one pass over the table and two over the union, instead of two over the table.
    """
    return _Plan(domain, node, cliques).steps()


@final
class _Plan:
    def __init__(self, domain: Domain, node: Clique, cliques: Sequence[Clique]) -> None:
        self._sizes = dict(zip(node, domain.shape(node), strict=True))
        self._node = node
        self._parts = len(cliques)
        self._names = [frozenset(clique) for clique in cliques]
        self._below: dict[int, list[int]] = {-1: list(range(len(cliques)))}

    def steps(self) -> tuple[tuple[Clique, ...], list[Step]]:
        waiting, steps = [-1], []
        while waiting:
            table = waiting.pop()
            self._share(table)
            for part in self._below[table]:
                steps.append(Step(table, part))
                if part in self._below:
                    waiting.append(part)
        made = self._names[self._parts :]
        return tuple(tuple(name for name in self._node if name in names) for names in made), steps

    def _share(self, table: int) -> None:
        """Moves parts of a table below intermediate cliques, or below each other.

        Many parts are first split on the largest attribute that only some of them have: the others share its sum.
        """
        here = frozenset(self._node) if table < 0 else self._names[table]
        kept, joined = self._below[table], []
        while len(kept) > _MOST_PAIRED:
            partial = [name for name in here if not all(name in self._names[part] for part in kept)]
            if not partial:
                break
            split = max(partial, key=lambda name: (self._sizes[name], name))
            without = [part for part in kept if split not in self._names[part]]
            kept = [part for part in kept if split in self._names[part]]
            joined.append(self._join(without, frozenset().union(*(self._names[part] for part in without))))
        self._below[table] = self._paired(joined + kept, self._cells(here))

    def _paired(self, children: list[int], cells: int) -> list[int]:
        """Joins the pair with the smallest union as long as that saves something."""
        while len(children) > 1:
            unions = [(self._names[a] | self._names[b], a, b) for a, b in combinations(children, 2)]
            union, a, b = min(unions, key=lambda found: (self._cells(found[0]), found[1:]))
            nested = union in (self._names[a], self._names[b])
            if (1 if nested else 2) * self._cells(union) >= cells:
                return children
            children = [child for child in children if child not in (a, b)]
            children.append(self._join([a, b], union))
        return children

    def _join(self, children: list[int], union: frozenset[str]) -> int:
        """The index of what holds all of the children: one of them, or a new intermediate clique."""
        holder = next((child for child in children if self._names[child] == union), None)
        if holder is None:
            holder = len(self._names)
            self._names.append(union)
        below = [child for child in children if child != holder]
        if below:
            self._below.setdefault(holder, []).extend(below)
        return holder

    def _cells(self, names: frozenset[str]) -> int:
        cells = 1
        for name in names:
            cells *= self._sizes[name]
        return cells
