"""Intermediate cliques that save passes over a large table when it is summed to many parts, or they are added to it.

A node of a junction tree is summed to many smaller tables, its *parts*: the cliques whose potentials it holds, and the
separators of its children. Each part costs a pass over the node, unless it is summed from a smaller table that contains
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final, NamedTuple, final

from dpcore.domain import Clique, Domain

_MAX_PAIRED: Final = 20  # Number of parts up to which all pairs are compared.


class Step(NamedTuple):
    """One part that is summed from a table, or added to it.

    An index below the number of parts names a part, a larger one an intermediate clique.

    table: Index of the table; -1 is the node itself.
    part: Index of the part.
    """

    table: int
    part: int


def shared_steps(domain: Domain, node: Clique, cliques: Sequence[Clique]) -> tuple[tuple[Clique, ...], list[Step]]:
    """Plans how a node is summed to its parts.

    Two parts that are summed from their union cost one pass over the table and two over the union, instead of two over
    the table.

    domain: Attributes and their sizes.
    node: Attributes of the node.
    cliques: The parts, each inside the node.

    Returns: The intermediate cliques, and the steps from the node down, tables before their parts.
    """
    return _Plan(domain, node, cliques).steps()


class NestedPart(NamedTuple):
    """A clique whose table is summed from the table above it, with the parts that are summed from it in turn.

    clique: Attributes of the table.
    is_asked: Whether it is one of the cliques that were asked for; otherwise it only saves passes over the table above.
    parts: The parts that are summed from it.
    """

    clique: Clique
    is_asked: bool
    parts: tuple[NestedPart, ...]


def nested_parts(domain: Domain, node: Clique, cliques: Sequence[Clique]) -> NestedPart:
    """The plan of ``shared_steps`` as a tree whose root is the node itself; the cliques are distinct."""
    intermediate, steps = shared_steps(domain, node, cliques)
    names = (*cliques, *intermediate)
    below: dict[int, list[int]] = {}
    for step in steps:
        below.setdefault(step.table, []).append(step.part)

    def part(index: int, clique: Clique) -> NestedPart:
        return NestedPart(clique, 0 <= index < len(cliques), tuple(part(k, names[k]) for k in below.get(index, ())))

    return part(-1, node)


@final
class _Plan:
    """A tree of tables below a node; ``_below`` lists the indices that are summed from each table."""

    def __init__(self, domain: Domain, node: Clique, cliques: Sequence[Clique]) -> None:
        self._sizes = dict(zip(node, domain.shape(node), strict=True))
        self._node = node
        self._parts = len(cliques)
        self._names = [frozenset(clique) for clique in cliques]
        self._below: dict[int, list[int]] = {-1: list(range(len(cliques)))}

    def steps(self) -> tuple[tuple[Clique, ...], list[Step]]:
        """The result of ``shared_steps``."""
        waiting, steps = [-1], []
        while waiting:
            table = waiting.pop()
            self._share(table)
            for part in self._below[table]:
                steps.append(Step(table, part))
                if part in self._below:
                    waiting.append(part)
        intermediate = self._names[self._parts :]
        return tuple(tuple(name for name in self._node if name in names) for names in intermediate), steps

    def _share(self, table: int) -> None:
        """Lets parts of a table be summed from intermediate cliques, or from each other.

        Many parts are first split by the largest attribute that only some of them have: the parts without the
        attribute share a table in which it is summed out.
        """
        names_of_table = frozenset(self._node) if table < 0 else self._names[table]
        kept, joined = self._below[table], []
        while len(kept) > _MAX_PAIRED:
            partial = [name for name in names_of_table if not all(name in self._names[part] for part in kept)]
            if not partial:
                break
            split = max(partial, key=lambda name: (self._sizes[name], name))
            without = [part for part in kept if split not in self._names[part]]
            kept = [part for part in kept if split in self._names[part]]
            joined.append(self._join(without, frozenset().union(*(self._names[part] for part in without))))
        self._below[table] = self._paired(joined + kept, self._cells(names_of_table))

    def _paired(self, children: list[int], cells: int) -> list[int]:
        """Joins the pair with the smallest union as long as that saves work on a table of ``cells`` cells."""
        while len(children) > 1:
            unions = [(self._names[a] | self._names[b], a, b) for a, b in combinations(children, 2)]
            union, a, b = min(unions, key=lambda candidate: (self._cells(candidate[0]), candidate[1:]))
            nested = union in (self._names[a], self._names[b])
            if (1 if nested else 2) * self._cells(union) >= cells:
                return children
            children = [child for child in children if child not in (a, b)]
            children.append(self._join([a, b], union))
        return children

    def _join(self, children: list[int], union: frozenset[str]) -> int:
        """The index of the table that holds all of the children: one of them, or a new intermediate clique."""
        holder = next((child for child in children if self._names[child] == union), None)
        if holder is None:
            holder = len(self._names)
            self._names.append(union)
        below = [child for child in children if child != holder]
        if below:
            self._below.setdefault(holder, []).extend(below)
        return holder

    def _cells(self, names: frozenset[str]) -> int:
        """Number of cells of a clique."""
        cells = 1
        for name in names:
            cells *= self._sizes[name]
        return cells
