"""A distribution over a junction tree, ready to answer: joint tables of its nodes and messages between them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.estimation.graphical.answering.contraction import (
    Table,
    TableCache,
    TooLargeError,
    absorbed,
    arranged,
    combine,
    contract,
    labels_of,
    mask_of,
)
from dpcore.estimation.graphical.answering.restriction import Request, Results, cuts, parts_of
from dpcore.estimation.graphical.answering.tree_routing import Group, TreeRoutes
from dpcore.estimation.graphical.inference.node_tables import Conditionals
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree

KEPT_BYTES: Final = 1 << 26
_BYTES: Final = 8
LARGEST_BETWEEN: Final = 1 << 20  # Cells of a table between the nodes and an answer.
_MOST_SHARED: Final = 2  # Messages about more attributes are hardly asked for twice.
_Message = tuple[int, int, int]  # (to a node, from its neighbour, about these attributes of the neighbour's side)


@final
class Calibrated:
    """A distribution over a junction tree, ready to answer.

    Every node has its joint table. A query then needs only the nodes between its attributes: at one of them meet
    messages p(attributes | separator), one from each neighbour behind which attributes of the query lie. Sums of nodes
    and messages are shared by all queries, also of later calls; marginals that differ in one attribute are made by one
    matrix product. A message is conditional by the table of its own sender: nodes that agree on a separator but for
    rounding may differ by any factor where it has next to no probability.

    conditionals: float64 [cells of the separator, cells of the residual] for each node: p(residual | separator), with
        zero rows where the separator has probability 0. Of ``Conditionals`` the joint tables are read where they are.
    kept_bytes: What joint and shared tables may take, but shared ones at least a quarter; the longest unused go first.
    largest: Cells of a table between the nodes and an answer; where it would be larger, the answer is made in blocks of
        the values of an attribute, or in slices, which allow for the cells of the largest node. So memory is bounded
        by the nodes, the kept tables, a few tables between and the answers themselves.

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
        self._routes = TreeRoutes(tree)
        self._sizes = list(tree.domain.sizes)  # Values of each attribute: of a block, those in it.
        self._cut = 0  # Of a block: the attribute that is cut last, as a set, and
        self._whole: Calibrated | None = None  # what it is cut from.
        self._least = kept_bytes // 4  # Bytes kept by a block.
        self._kept = TableCache(max(self._least, kept_bytes - _BYTES * tree.cells))
        self._sums: list[dict[int, int]] = [{} for _ in tree.nodes]
        self._joints = list[Table]()
        if isinstance(conditionals, Conditionals):
            self._joints += [Table(tree.domain.axes(names), values) for names, values in conditionals.joints]
        else:
            for node, conditional in enumerate(conditionals):
                self._joints.append(self._joint(node, conditional))
        self._between, self._largest = largest, max([largest, *tree.sizes])
        attributes = len(self._sizes)
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
            tables[label] = Table((label, len(self._sizes) + label), matrix.T)
        answers = np.zeros(tuple(table.values.shape[1] for table in tables.values()))
        if answers.size:
            self._fill(answers, tuple(tables), Request(self._largest, tables))
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
                answers[begin:end] = self._table(mask_of(part), Request(self._largest, part)).values
            except TooLargeError as error:
                bounds = cuts(begin, end, -(-error.cells // self._largest))
                waiting += itertools.pairwise(bounds)
        return answers

    def _answered(self, cliques: Sequence[Clique]) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
        asked = [self._routes.labels(clique) for clique in cliques]
        shapes = [tuple(self.domain.sizes[label] for label in labels) for labels in asked]
        sizes = [math.prod(shape) for shape in shapes]
        vector = np.zeros(sum(sizes))
        ends = np.cumsum(sizes, dtype=np.int64).tolist()
        views = [vector[end - size : end].reshape(shape) for end, size, shape in zip(ends, sizes, shapes, strict=True)]
        results = dict(zip(reversed(asked), reversed(views), strict=True))  # The first of equal cliques.
        groups: dict[Group, dict[tuple[int, ...], NDArray[np.float64]]] = {}
        # Large cliques first: the sums that they leave behind serve the smaller ones.
        for labels in sorted(results, key=len, reverse=True):
            groups.setdefault(self._routes.group(labels), {})[labels] = results[labels]
        self._fill_groups(groups)
        for labels, view in zip(asked, views, strict=True):
            if view is not results[labels]:
                view[...] = results[labels]
        return vector, views

    def _fill_groups(self, groups: Mapping[Group, Results]) -> None:
        """Adds the tables of many groups to results of zeros.

        Where a table between would be too large, the values of one of its attributes that the node has where the group
        meets are taken block by block, for all such groups together: a block is a calibrated tree with fewer values.
        """
        large: dict[int, dict[Group, tuple[int, int]]] = {}  # Cells of the table, and what it may be cut by.
        for group, results in groups.items():
            try:
                self._fill_group(group, results)
            except TooLargeError as error:  # Holds on to tables, so blocks wait until it is gone.
                by = self._routes.cuttable(group[0], self._sizes, error, self._between)
                large.setdefault(group[0], {})[group] = error.cells, by
        for node, errors in large.items():
            while errors:
                if (label := self._routes.cut(node, self._sizes, errors.values())) < 0:
                    break
                cut = {group: groups[group] for group, (_, mask) in errors.items() if mask >> label & 1}
                cells = max(errors[group][0] for group in cut)
                for begin, end in itertools.pairwise(cuts(0, self._sizes[label], -(-cells // self._between))):
                    parts = {group: parts_of(results, label, slice(begin, end)) for group, results in cut.items()}
                    self._block(label, slice(begin, end))._fill_groups(parts)
                errors = {group: error for group, error in errors.items() if group not in cut}
            for labels, result in itertools.chain.from_iterable(groups[group].items() for group in errors):
                self._fill(result, labels, Request(self._largest))

    def _block(self, label: int, places: slice) -> Calibrated:
        """What is known of some values of an attribute, as a tree that sums to their probability.

        Right for queries that meet at a node of the attribute: nodes without it keep their tables, and from there come
        the messages of the whole.
        """
        block = copy(self)
        block._whole, block._cut = self, 1 << label
        block._kept = TableCache(self._least)
        block._sums = [{} for _ in self._sums]
        block._sizes = [*self._sizes[:label], places.stop - places.start, *self._sizes[label + 1 :]]
        block._joints = [Request(0, ranges={label: places}).restricted(table, self._sizes) for table in self._joints]
        return block

    def _fill_group(self, group: Group, results: Results) -> None:
        """Adds the tables of a group: one product, of what they have in common and their messages side by side.

        Raises TooLargeError, and adds nothing, where a table would be too large.
        """
        request = Request(self._between)
        if len(results) == 1:
            for labels, result in results.items():
                self._add(result, labels, self._table(mask_of(labels), request), request)
            return
        node, last, common = group
        others = tuple(next(label for label in labels if not common >> label & 1) for labels in results)
        branches = self._routes.branches(node, common)
        incoming = [self._message((node, other, part), request) for other, part in branches.items()]
        joint = self._meet(node, 0, common | self._routes.separator(node, last), incoming, request)
        messages = self._side_by_side(node, last, others)
        product = contract(joint, messages, common | self._always, self._between)
        begin = 0
        for other, (labels, result) in zip(others, results.items(), strict=True):
            end = begin + self._sizes[other]
            axes = [product.labels.index(self._batch if label == other else label) for label in labels]
            result += product.values.transpose(axes)[(slice(None),) * labels.index(other) + (slice(begin, end),)]
            begin = end

    def _side_by_side(self, node: int, other: int, labels: tuple[int, ...]) -> Table:
        """The messages about single attributes through one edge, one after another along the label of the batch."""
        key = (node, other, labels, "side by side")
        table = self._kept.get(key)
        if table is None:
            separator = labels_of(self._routes.separator(node, other))
            messages = [self._message((node, other, 1 << label), Request(self._between)) for label in labels]
            cells = sum(message.values.size for message in messages)
            if cells > self._between:
                raise TooLargeError(cells, mask_of(separator))
            parts = [arranged(message, [*separator, label]) for message, label in zip(messages, labels, strict=True)]
            table = Table((*separator, self._batch), np.concatenate(parts, axis=-1))
            self._kept.keep(key, table)
        return table

    def _fill(self, result: NDArray[np.float64], labels: tuple[int, ...], request: Request) -> None:
        """Adds the table of some attributes, in slices of the longest axis where it would take too much memory."""
        try:
            self._add(result, labels, self._table(mask_of(labels), request), request)
            return
        except TooLargeError as error:  # Holds on to tables, so slices wait until it is gone.
            cells = error.cells
        axis = max(range(len(labels)), key=lambda axis: result.shape[axis])
        for begin, end in itertools.pairwise(cuts(0, result.shape[axis], -(-cells // request.largest))):
            self._fill(
                result[(slice(None),) * axis + (slice(begin, end),)], labels, request.only(labels[axis], begin, end)
            )

    def _add(self, result: NDArray[np.float64], labels: tuple[int, ...], table: Table, request: Request) -> None:
        """Adds a table to a result whose axes are the attributes in another order."""
        result += arranged(table, [len(self._sizes) + label if label in request.factors else label for label in labels])

    def _table(self, wanted: int, request: Request) -> Table:
        """The table of some attributes; where one has a factor, with the other label of the factor in its place."""
        parts: dict[int, int] = {}
        for label in labels_of(wanted):
            root = self._routes.roots[self._routes.homes[label]]
            parts[root] = parts.get(root, 0) | 1 << label
        tables = [self._connected(part, request) for part in parts.values()]
        result = tables[0] if tables else Table((), np.ones(()))
        for table in tables[1:]:
            result = contract(result, table, self._always, request.largest)  # The batch alone can be in both.
        return result

    def _connected(self, wanted: int, request: Request) -> Table:
        """The table of attributes of one tree of the forest."""
        node, branches = self._routes.meeting(wanted)
        incoming = [self._message((node, other, part), request) for other, part in branches.items()]
        return self._meet(node, 0, wanted, incoming, request)

    def _meet(self, node: int, separator: int, wanted: int, incoming: Sequence[Table], request: Request) -> Table:
        """p(wanted | separator) from the messages into a node; the joint table for an empty separator."""
        mask = self._routes.masks[node]
        here = needed = wanted & mask
        for message in incoming:
            needed |= mask_of(message.labels) & mask
        factored = mask_of(request.factors)
        tables = list(incoming)
        if factored:
            tables = absorbed([*incoming, *(request.factors[label] for label in labels_of(here & factored))])
        keep = wanted & ~factored | separator | self._always
        table = self._given(node, needed, separator, request)
        tables = [request.restricted(other, self._sizes) for other in tables]  # Messages may come with it cut already.
        return combine(table, tables, keep, request.largest)

    def _message(self, message: _Message, request: Request) -> Table:
        """p(attributes | separator) for attributes behind the separator between two nodes.

        A list in place of recursion: trees may be thousands of nodes deep.
        """
        plan, found, below = [message], dict[_Message, Table](), dict[_Message, list[_Message]]()
        for key in plan:
            known = self._kept.get(key) if self._shared(key, request) else None
            if known is not None:
                found[key] = known
            elif (whole := self._uncut(key[1])) is not None:
                found[key] = whole._message(key, request)
            else:
                _, node, part = key
                below[key] = [(node, other, rest) for other, rest in self._routes.branches(node, part).items()]
                plan += below[key]
        for key in reversed(below):
            to, node, part = key
            incoming = [found.pop(other) for other in below[key]]
            found[key] = self._meet(node, self._routes.separator(to, node), part, incoming, request)
            if incoming and self._shared(key, request):  # Those from one node alone are kept as such.
                self._kept.keep(key, found[key])
        return found[message]

    def _shared(self, message: _Message, request: Request) -> bool:
        """Whether a message is kept for other queries: one that the request changes is not."""
        to, node, part = message
        if part.bit_count() > _MOST_SHARED:
            return False
        changed = mask_of(request.ranges) & (part | self._routes.separator(to, node))
        return not (changed or part & mask_of(request.factors))

    def _given(self, node: int, mask: int, separator: int, request: Request) -> Table:
        """p(attributes of the node | its separator), with the separator's labels among those of the table; the marginal
        for an empty separator. Raises TooLargeError.
        """
        if not separator:
            return request.restricted(self._within(node, mask), self._sizes)
        mask |= separator
        key = (node, mask, separator, "given")
        table = None if request.ranges else self._kept.get(key)
        if table is None:
            labels, values = request.restricted(self._within(node, mask), self._sizes)
            if values.size > request.largest:
                raise TooLargeError(values.size, mask)
            # What is asked of an attribute that the separator lacks does not change what is given.
            base = request.restricted(self._within(node, separator), self._sizes).values
            sizes = zip(labels, values.shape, strict=True)
            base = base.reshape([size if separator >> label & 1 else 1 for label, size in sizes])
            table = Table(labels, np.divide(values, base, out=np.zeros_like(values), where=base > 0))
            if not request.ranges:
                self._kept.keep(key, table)
        return table

    def _uncut(self, node: int) -> Calibrated | None:
        """What knows all of a node, where the attribute of this block's last cut is not the node's."""
        return self._whole if self._cut & ~self._routes.masks[node] else None

    def _within(self, node: int, mask: int) -> Table:
        """The marginal of some of a node's attributes, from the smallest table at hand that has them."""
        if (whole := self._uncut(node)) is not None:
            return whole._within(node, mask)
        best = self._joints[node]
        if mask == self._routes.masks[node]:
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
