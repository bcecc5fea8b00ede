"""A distribution over a junction tree, ready to answer: joint tables of its nodes and messages between them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.estimation.pgm.contraction import (
    KeptTables,
    Table,
    TooLargeError,
    absorbed,
    arranged,
    combine,
    contract,
    labels_of,
    mask_of,
)
from dpcore.estimation.pgm.junction_tree import JunctionTree
from dpcore.estimation.pgm.places import Places

KEPT_BYTES: Final = 1 << 26
LARGEST_BETWEEN: Final = 1 << 22  # Cells of a table between the nodes and an answer.
_MOST_SHARED: Final = 2  # Messages about more attributes are hardly asked for twice.
_Group = tuple[int, int, int]  # (node, its neighbour, attributes in common)
_Message = tuple[int, int, int]  # (to a node, from its neighbour, about these attributes of the neighbour's side)


class _Request(NamedTuple):
    """What is asked of some attributes besides their values.

    factors: Tables by an attribute that they sum out; their other label stands for it in the answer.
    ranges: Values to which an attribute is restricted.
    """

    factors: Mapping[int, Table] = MappingProxyType({})
    ranges: Mapping[int, slice] = MappingProxyType({})

    def only(self, label: int, begin: int, end: int) -> _Request:
        """The request for some places of what is asked of one attribute."""
        if label in self.factors:
            labels, values = self.factors[label]
            return self._replace(factors={**self.factors, label: Table(labels, values[:, begin:end])})
        before = self.ranges[label].start if label in self.ranges else 0
        return self._replace(ranges={**self.ranges, label: slice(before + begin, before + end)})


@final
class Calibrated:
    """A distribution over a junction tree, ready to answer.

    Every node has its joint table. A query then needs only the nodes between its attributes: at one of them meet
    messages p(attributes | separator), one from each neighbour behind which attributes of the query lie. Sums of nodes
    and messages are shared by all queries, also of later calls; marginals that differ in one attribute are made by one
    matrix product.

    conditionals: float64 [cells of the separator, cells of the residual] for each node: p(residual | separator), with
        zero rows where the separator has probability 0.
    kept_bytes: What shared tables may take besides the joint tables; those that were not used for longest go first.

    largest: Cells of a table between the nodes and an answer, or those of the largest node if it has more: where a
        table would be larger, the answer is made in slices.

    So memory is bounded by the nodes, the kept tables, a few tables between and the answers themselves.

    Source: McKenna (2022), section 4.4, variable elimination and Algorithm 4, here on a calibrated tree.
    """

    def __init__(
        self,
        tree: JunctionTree,
        conditionals: Sequence[NDArray[np.float64]],
        kept_bytes: int = KEPT_BYTES,
        largest: int = LARGEST_BETWEEN,
    ) -> None:
        self.tree, self.domain = tree, tree.domain
        self._places = Places(tree)
        self._kept = KeptTables(kept_bytes)
        self._sums: list[dict[int, int]] = [{} for _ in tree.nodes]
        self._joints: list[Table] = []
        for node, conditional in enumerate(conditionals):
            self._joints.append(self._joint(node, conditional))
        self._largest = max([largest, *tree.sizes])
        attributes = len(self.domain.sizes)
        self._batch = 2 * attributes
        self._always = ((1 << attributes + 1) - 1) << attributes  # Rows of factors and the batch are never summed over.

    def marginals(self, cliques: Sequence[Clique]) -> list[NDArray[np.float64]]:
        """Probabilities of any cliques, shape ``domain.shape(clique)`` each: views of one vector, see ``vector``."""
        return self._answered(cliques)[1]

    def vector(self, cliques: Sequence[Clique]) -> NDArray[np.float64]:
        """The marginals of any cliques, one after another, each in C order of its attributes in the domain's order."""
        return self._answered(cliques)[0]

    def linear(self, factors: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """The answers of Q_1 x ... x Q_d, shape: rows of each factor, attributes in the order of the domain.

        factors: float64 [rows, size of the attribute], of any sign; an attribute without one is summed out.

        The matrices enter while attributes are summed out, so no table over all attributes is made.

        Source: McKenna (2022), Algorithm 4.
        """
        tables = {}
        for name in self.domain.canonical(factors):
            label, matrix = self.domain.index(name), np.asarray(factors[name], dtype=np.float64)
            if matrix.ndim != 2 or matrix.shape[1] != self.domain.sizes[label]:
                raise ValueError(f"factor of {name!r} is {matrix.shape}; want [rows, {self.domain.sizes[label]}]")
            tables[label] = Table((label, self._row_label(label)), matrix.T)
        answers = np.empty(tuple(table.values.shape[1] for table in tables.values()))
        if answers.size:
            self._fill(answers, tuple(tables), _Request(tables))
        return answers

    def products(self, weights: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """The expectation of products of functions of one attribute each, many products at once, float64 [m].

        weights: float64 [m, size of the attribute], of any sign: what each product multiplies by, for each value of
            the attribute. At least one attribute; those without weights are multiplied by 1.
        """
        matrices = {self.domain.index(name): np.asarray(matrix, np.float64) for name, matrix in weights.items()}
        shapes = {matrix.shape[:1] for matrix in matrices.values()}
        fitting = all(matrix.shape[1:] == (self.domain.sizes[label],) for label, matrix in matrices.items())
        if len(shapes) != 1 or not fitting:
            got = {name: np.shape(matrix) for name, matrix in weights.items()}
            raise ValueError(f"weights {got}; want [products, size of the attribute], the same products for each")
        answers = np.empty(shapes.pop())
        waiting = [(0, answers.size)] if answers.size else []
        while waiting:
            begin, end = waiting.pop()
            part = {label: Table((self._batch, label), matrix[begin:end]) for label, matrix in matrices.items()}
            try:
                answers[begin:end] = self._table(mask_of(part), _Request(part)).values
            except TooLargeError as error:
                cuts = _cuts(begin, end, -(-error.cells // self._largest))
                waiting += itertools.pairwise(cuts)
        return answers

    def _answered(self, cliques: Sequence[Clique]) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
        asked = [self._places.labels(clique) for clique in cliques]
        shapes = [tuple(self.domain.sizes[label] for label in labels) for labels in asked]
        sizes = [math.prod(shape) for shape in shapes]
        vector = np.empty(sum(sizes))
        ends = np.cumsum(sizes, dtype=np.int64).tolist()
        views = [vector[end - size : end].reshape(shape) for end, size, shape in zip(ends, sizes, shapes, strict=True)]
        results: dict[tuple[int, ...], NDArray[np.float64]] = {}
        for labels, view in zip(asked, views, strict=True):
            results.setdefault(labels, view)
        groups: dict[_Group, list[tuple[int, ...]]] = {}
        # Large cliques first: the sums that they leave behind serve the smaller ones.
        for labels in sorted(results, key=len, reverse=True):
            groups.setdefault(self._group(labels), []).append(labels)
        for group, members in groups.items():
            if len(members) == 1 or not self._fill_group(group, {labels: results[labels] for labels in members}):
                for labels in members:
                    self._fill(results[labels], labels, _Request())
        for labels, view in zip(asked, views, strict=True):
            if view is not results[labels]:
                view[...] = results[labels]
        return vector, views

    def _group(self, labels: tuple[int, ...]) -> _Group:
        """Queries of one group differ in one attribute, which lies behind one edge of the node where they meet."""
        wanted = mask_of(labels)
        node, branches = -1, dict[int, int]()
        if len({self._places.roots[self._places.homes[label]] for label in labels}) == 1:
            node, branches = self._places.meeting(wanted)
        single = [other for other, part in branches.items() if part.bit_count() == 1]
        if not single:
            return node, -1, wanted
        # Many attributes behind an edge make large groups, a small separator makes short messages.
        last = max(single, key=lambda other: self._places.worth(node, other))
        return node, last, wanted & ~branches[last]

    def _fill_group(self, group: _Group, results: Mapping[tuple[int, ...], NDArray[np.float64]]) -> bool:
        """Writes the tables of a group: one product, of what they have in common and their messages side by side.

        Returns False, and writes nothing, where a table would be too large.
        """
        node, last, common = group
        others = tuple(next(label for label in labels if not common >> label & 1) for labels in results)
        branches = self._places.branches(node, common)
        try:
            incoming = [self._message((node, other, part), _Request()) for other, part in branches.items()]
            joint = self._meet(node, 0, common | self._places.separator(node, last), incoming, _Request())
            messages = self._side_by_side(node, last, others)
            product = contract(joint, messages, common | self._always, self._largest)
        except TooLargeError:
            return False
        begin = 0
        for other, (labels, result) in zip(others, results.items(), strict=True):
            end = begin + self.domain.sizes[other]
            axes = [product.labels.index(self._batch if label == other else label) for label in labels]
            cut = [slice(None)] * len(labels)
            cut[labels.index(other)] = slice(begin, end)
            result[...] = product.values.transpose(axes)[tuple(cut)]
            begin = end
        return True

    def _side_by_side(self, node: int, other: int, labels: tuple[int, ...]) -> Table:
        """The messages about single attributes through one edge, one after another along the label of the batch."""
        key = (node, other, labels, "side by side")
        table = self._kept.get(key)
        if table is None:
            separator = labels_of(self._places.separator(node, other))
            messages = [self._message((node, other, 1 << label), _Request()) for label in labels]
            parts = [arranged(message, [*separator, label]) for message, label in zip(messages, labels, strict=True)]
            table = Table((*separator, self._batch), np.concatenate(parts, axis=-1))
            self._kept.keep(key, table)
        return table

    def _fill(self, result: NDArray[np.float64], labels: tuple[int, ...], request: _Request) -> None:
        """Writes the table of some attributes, in slices of the longest axis where it would take too much memory."""
        try:
            table = self._table(mask_of(labels), request)
        except TooLargeError as error:
            axis = max(range(len(labels)), key=lambda axis: result.shape[axis])
            cuts = _cuts(0, result.shape[axis], -(-error.cells // self._largest))
            for begin, end in itertools.pairwise(cuts):
                part = result[(slice(None),) * axis + (slice(begin, end),)]
                self._fill(part, labels, request.only(labels[axis], begin, end))
        else:
            axes = [
                table.labels.index(self._row_label(label) if label in request.factors else label) for label in labels
            ]
            result[...] = table.values.transpose(axes)

    def _row_label(self, label: int) -> int:
        """The label of the rows of an attribute's factor."""
        return len(self.domain.sizes) + label

    def _table(self, wanted: int, request: _Request) -> Table:
        """The table of some attributes; where one has a factor, with the other label of the factor in its place."""
        parts: dict[int, int] = {}
        for label in labels_of(wanted):
            root = self._places.roots[self._places.homes[label]]
            parts[root] = parts.get(root, 0) | 1 << label
        tables = [self._connected(part, request) for part in parts.values()]
        result = tables[0] if tables else Table((), np.ones(()))
        for table in tables[1:]:
            result = contract(result, table, self._always, self._largest)  # The batch alone can be in both.
        return result

    def _connected(self, wanted: int, request: _Request) -> Table:
        """The table of attributes of one tree of the forest."""
        node, branches = self._places.meeting(wanted)
        incoming = [self._message((node, other, part), request) for other, part in branches.items()]
        return self._meet(node, 0, wanted, incoming, request)

    def _meet(self, node: int, separator: int, wanted: int, incoming: Sequence[Table], request: _Request) -> Table:
        """p(wanted | separator) from the messages into a node; the joint table for an empty separator."""
        mask = self._places.masks[node]
        here = needed = wanted & mask
        for message in incoming:
            needed |= mask_of(message.labels) & mask
        factored = mask_of(request.factors)
        tables = list(incoming)
        if factored:
            tables = absorbed([*incoming, *(request.factors[label] for label in labels_of(here & factored))])
        keep = wanted & ~factored | separator | self._always
        table = self._given(node, needed, separator) if separator else self._within(node, needed)
        if request.ranges:
            table, tables = self._restricted(table, request), [self._restricted(other, request) for other in tables]
        return combine(table, tables, keep, self._largest)

    def _restricted(self, table: Table, request: _Request) -> Table:
        """The part of a table that is asked for; messages may come with it already cut off."""
        cuts = [slice(None)] * len(table.labels)
        for axis, label in enumerate(table.labels):
            if label in request.ranges and table.values.shape[axis] == self.domain.sizes[label]:
                cuts[axis] = request.ranges[label]
        return Table(table.labels, table.values[tuple(cuts)])

    def _message(self, message: _Message, request: _Request) -> Table:
        """p(attributes | separator) for attributes behind the separator between two nodes.

        A list in place of recursion: trees may be thousands of nodes deep.
        """
        plan, found, below = [message], dict[_Message, Table](), dict[_Message, list[_Message]]()
        for key in plan:
            known = self._kept.get(key) if self._shared(key[2], request) else None
            if known is not None:
                found[key] = known
            else:
                _, node, part = key
                below[key] = [(node, other, rest) for other, rest in self._places.branches(node, part).items()]
                plan += below[key]
        for key in reversed(below):
            to, node, part = key
            incoming = [found.pop(other) for other in below[key]]
            found[key] = self._meet(node, self._places.separator(to, node), part, incoming, request)
            if self._shared(part, request):
                self._kept.keep(key, found[key])
        return found[message]

    def _shared(self, part: int, request: _Request) -> bool:
        """Whether a message about these attributes is kept for other queries: never one of a part of the cells, which
        may be cut along the separator as well.
        """
        if part.bit_count() > _MOST_SHARED or request.ranges:
            return False
        return not any(part >> label & 1 for label in request.factors)

    def _given(self, node: int, mask: int, separator: int) -> Table:
        """p(attributes of the node | its separator), with the separator's labels among those of the table."""
        mask |= separator
        key = (node, mask, separator, "given")
        table = self._kept.get(key)
        if table is None:
            labels, values = self._within(node, mask)
            shape = [size if separator >> label & 1 else 1 for label, size in zip(labels, values.shape, strict=True)]
            base = self._within(node, separator).values.reshape(shape)
            table = Table(labels, np.divide(values, base, out=np.zeros_like(values), where=base > 0))
            self._kept.keep(key, table)
        return table

    def _within(self, node: int, mask: int) -> Table:
        """The marginal of some of a node's attributes, from the smallest table at hand that has them."""
        best = self._joints[node]
        if mask == self._places.masks[node]:
            return best
        known = self._sums[node]
        for other in [other for other in known if not mask & ~other]:
            if known[other] < best.values.size:
                table = self._kept.get((node, other))
                if table is None:
                    del known[other]
                else:
                    best = table
        labels = tuple(label for label in best.labels if mask >> label & 1)
        if labels == best.labels:
            return best
        axes = tuple(axis for axis, label in enumerate(best.labels) if not mask >> label & 1)
        table = Table(labels, np.asarray(best.values.sum(axis=axes)))
        known[mask] = table.values.size
        self._kept.keep((node, mask), table)
        return table

    def _joint(self, node: int, conditional: NDArray[np.float64]) -> Table:
        """A node's joint table from its parent's, axes in the order of the domain."""
        names, separator = self.tree.nodes[node], self.tree.separators[node]
        cells = self.domain.size(separator)
        if conditional.shape != (cells, self.domain.size(names) // cells):
            raise ValueError(f"conditional {conditional.shape} of node {node}; want [cells of separator, of residual]")
        values = conditional
        if separator:
            above = self._within(self.tree.parents[node], mask_of(self.domain.axes(separator)))
            values = above.values.reshape(-1, 1) * conditional
        labels = self.domain.axes(names)
        order = sorted(range(len(labels)), key=labels.__getitem__)
        shaped = values.reshape(self.domain.shape(names)).transpose(order)
        return Table(tuple(sorted(labels)), np.ascontiguousarray(shaped))


def _cuts(begin: int, end: int, pieces: int) -> list[int]:
    """Bounds of that many pieces of nearly one length, at least two and at most one for each place."""
    pieces = min(max(2, pieces), end - begin)
    return [begin + (end - begin) * piece // pieces for piece in range(pieces + 1)]
