"""A calibrated junction tree, with the joint tables of its nodes and messages between them: it answers queries."""

from __future__ import annotations

import itertools
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
    absorb_subsets,
    contract,
    contract_all,
    joint_table,
    labels_of,
    mask_of,
    transpose_to,
)
from dpcore.estimation.graphical.answering.restriction import (
    Restriction,
    Results,
    cut_points,
    factor_tables,
    result_views,
    split_results,
)
from dpcore.estimation.graphical.answering.tree_routing import Group, TreeRoutes
from dpcore.estimation.graphical.answering.within_nodes import fill_within_nodes
from dpcore.estimation.graphical.inference.node_tables import Conditionals
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree

CACHE_BYTES: Final = 1 << 26
_BYTES: Final = 8  # Bytes of a float64.
MAX_INTERMEDIATE_CELLS: Final = 1 << 20
_MAX_CACHED_ATTRIBUTES: Final = 2  # Messages about more attributes are rarely needed twice.
_Message = tuple[int, int, int]  # (receiving node, sending neighbour, mask of attributes on the sender's side)


@final
class Calibrated:
    """A distribution over a junction tree, ready to answer queries.

    Every node has its joint table. A query then needs only the nodes between its attributes: one of them receives a
    message p(attributes | separator) from each neighbour behind which attributes of the query lie. Marginals of nodes
    and messages are shared by all queries, also by those of later calls, and marginals that differ in one attribute are
    made by one matrix product. A message is divided by the separator's marginal in the table of its sender, not of its
    receiver: the two agree up to rounding, which may be any factor where the separator has a tiny probability.

    tree: The junction tree.
    conditionals: p(residual | separator) of each node, float64 [cells of the separator, cells of the residual], with
        rows of 0 where the separator has probability 0. The joint tables of ``Conditionals`` are used without a copy.
    cache_bytes: Cache size in bytes for joint and intermediate tables; at least a quarter is kept for intermediate
        ones, and the least recently used are evicted first.
    max_cells: The largest number of cells of an intermediate table between the nodes and an answer. If a table would be
        larger, the answer is made in blocks of the values of an attribute, or in slices, whose tables may have as many
        cells as the largest node. So memory is bounded by the nodes, the cache, a few intermediate tables and the
        answers.

    Raises: ValueError for a conditional of another shape.

    Source: McKenna (2022), section 4.4, variable elimination and Algorithm 4, here on a calibrated tree.
    """

    def __init__(
        self,
        tree: JunctionTree,
        conditionals: Sequence[NDArray[np.float64]],
        cache_bytes: int = CACHE_BYTES,
        max_cells: int = MAX_INTERMEDIATE_CELLS,
    ) -> None:
        self.tree, self.domain = tree, tree.domain
        self._routes = TreeRoutes(tree)
        self._sizes = list(tree.domain.sizes)  # Number of values of each attribute; in a block, of the block.
        self._split_mask = 0  # In a block, the attribute by which the tree was split last, as a mask.
        self._whole: Calibrated | None = None  # In a block, the tree that was split.
        self._min_cache_bytes = cache_bytes // 4  # Cache size of a block.
        self._cache = TableCache(max(self._min_cache_bytes, cache_bytes - _BYTES * tree.cells))
        self._sums: list[dict[int, int]] = [{} for _ in tree.nodes]
        self._joints = list[Table]()
        if isinstance(conditionals, Conditionals):
            self._joints += [Table(tree.domain.axes(names), values) for names, values in conditionals.joints]
        for node, conditional in enumerate(conditionals if not self._joints else ()):
            self._joints.append(self._joint(node, conditional))
        self._max_cells, self._max_slice_cells = max_cells, max([max_cells, *tree.sizes])
        attributes = len(self._sizes)
        self._batch = 2 * attributes
        # Labels of rows of factors and of the batch are never summed over.
        self._always_kept = ((1 << attributes + 1) - 1) << attributes

    def marginals(self, cliques: Sequence[Clique]) -> list[NDArray[np.float64]]:
        """Probabilities of any cliques, each float64 of shape ``domain.shape(clique)``; all are views of one vector."""
        return self._answer(cliques)[1]

    def vector(self, cliques: Sequence[Clique]) -> NDArray[np.float64]:
        """The marginals of any cliques, one after another, each in C order of its attributes in the domain's order."""
        return self._answer(cliques)[0]

    def linear(self, factors: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """The answers of Q_1 x ... x Q_d: one axis for each factor, of the length of its rows, in the domain's order.

        factors: Q_i by attribute, float64 [rows, size of the attribute], of any sign; an attribute without a factor is
            summed out.

        The matrices enter while attributes are summed out, so no table over all attributes is made.

        Raises: ValueError for a factor of another shape.

        Source: McKenna (2022), Algorithm 4.
        """
        tables = factor_tables(self.domain, factors)
        answers = np.zeros(tuple(table.values.shape[1] for table in tables.values()))
        if answers.size:
            self._fill(answers, tuple(tables), Restriction(self._max_slice_cells, tables))
        return answers

    def products(self, weights: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """The expectation of products of functions of one attribute each, many products at once, float64 [m].

        weights: Values of the functions by attribute, float64 [m, size of the attribute], of any sign. At least one
            attribute has weights; the functions of the others are 1.

        Raises: ValueError for weights of other shapes.
        """
        matrices = {self.domain.index(name): np.asarray(matrix, np.float64) for name, matrix in weights.items()}
        shapes = {matrix.shape[:1] for matrix in matrices.values()}
        fits = all(matrix.shape[1:] == (self.domain.sizes[label],) for label, matrix in matrices.items())
        if len(shapes) != 1 or not fits:
            given = {name: np.shape(matrix) for name, matrix in weights.items()}
            raise ValueError(f"weights have shapes {given}; want [products, size], the same products for each")
        answers = np.empty(shapes.pop())
        waiting = [(0, answers.size)] if answers.size else []
        while waiting:
            begin, end = waiting.pop()
            part = {label: Table((self._batch, label), matrix[begin:end]) for label, matrix in matrices.items()}
            try:
                answers[begin:end] = self._table(mask_of(part), Restriction(self._max_slice_cells, part)).values
            except TooLargeError as error:
                waiting += itertools.pairwise(cut_points(begin, end, -(-error.cells // self._max_slice_cells)))
        return answers

    def _answer(self, cliques: Sequence[Clique]) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
        """The marginals as one vector, and as views of it in the shapes of the cliques."""
        labels_of_cliques = [self._routes.labels(clique) for clique in cliques]
        shapes = [tuple(self.domain.sizes[label] for label in labels) for labels in labels_of_cliques]
        vector, views = result_views(shapes)
        # Only the first of equal cliques is computed.
        results = dict(zip(reversed(labels_of_cliques), reversed(views), strict=True))
        remaining = fill_within_nodes(self.domain, self._joints, results)
        groups: dict[Group, dict[tuple[int, ...], NDArray[np.float64]]] = {}
        # Large cliques come first: the sums that they leave in the cache serve the smaller ones.
        for labels in sorted(remaining, key=len, reverse=True):
            groups.setdefault(self._routes.group(labels), {})[labels] = results[labels]
        self._fill_groups(groups)
        for labels, view in zip(labels_of_cliques, views, strict=True):
            if view is not results[labels]:
                view[...] = results[labels]
        return vector, views

    def _fill_groups(self, groups: Mapping[Group, Results]) -> None:
        """Adds the tables of many groups to results of zeros.

        If an intermediate table would be too large, an attribute of the node where the group meets is split into blocks
        of values, for all such groups together. A block is a calibrated tree in which the attribute has fewer values.
        """
        # For each node and group with a table that is too large: its cells, and the attributes that can split it.
        too_large: dict[int, dict[Group, tuple[int, int]]] = {}
        for group, results in groups.items():
            try:
                self._fill_group(group, results)
            except TooLargeError as error:  # The error keeps tables alive, so blocks wait until it is gone.
                splittable = self._routes.splittable(group[0], self._sizes, error, self._max_cells)
                too_large.setdefault(group[0], {})[group] = error.cells, splittable
        for node, remaining in too_large.items():
            while remaining:
                if (label := self._routes.split_attribute(node, self._sizes, remaining.values())) < 0:
                    break
                split = [group for group, (_, mask) in remaining.items() if mask >> label & 1]
                cells = max(remaining[group][0] for group in split)
                for begin, end in itertools.pairwise(cut_points(0, self._sizes[label], -(-cells // self._max_cells))):
                    values = slice(begin, end)
                    parts = {group: split_results(groups[group], label, values) for group in split}
                    self._block(label, values)._fill_groups(parts)
                remaining = {group: error for group, error in remaining.items() if group not in split}
            for labels, result in itertools.chain.from_iterable(groups[group].items() for group in remaining):
                self._fill(result, labels, Restriction(self._max_slice_cells))

    def _block(self, label: int, values: slice) -> Calibrated:
        """The part of the tree with some values of an attribute, whose tables sum to the probability of those values.

        It is valid for queries that meet at a node with the attribute: nodes without the attribute keep their tables,
        and send the same messages as in the whole tree.
        """
        block = copy(self)
        block._whole, block._split_mask = self, 1 << label
        block._cache = TableCache(self._min_cache_bytes)
        block._sums = [{} for _ in self._sums]
        block._sizes = [*self._sizes[:label], values.stop - values.start, *self._sizes[label + 1 :]]
        block._joints = [Restriction(0, ranges={label: values}).restrict(table, self._sizes) for table in self._joints]
        return block

    def _fill_group(self, group: Group, results: Results) -> None:
        """Adds the tables of a group, by one product of their common part with their concatenated messages.

        Raises: TooLargeError if a table would be too large; nothing is added then.
        """
        restriction = Restriction(self._max_cells)
        if len(results) == 1:
            for labels, result in results.items():
                self._add(result, labels, self._table(mask_of(labels), restriction), restriction)
            return
        node, last, common = group
        distinct = tuple(next(label for label in labels if not common >> label & 1) for labels in results)
        branches = self._routes.branches(node, common)
        incoming = [self._message((node, neighbour, part), restriction) for neighbour, part in branches.items()]
        joint = self._meet(node, 0, common | self._routes.separator(node, last), incoming, restriction)
        messages = self._concatenated_messages(node, last, distinct)
        product = contract(joint, messages, common | self._always_kept, self._max_cells)
        begin = 0
        for distinct_label, (labels, result) in zip(distinct, results.items(), strict=True):
            end = begin + self._sizes[distinct_label]
            axes = [product.labels.index(self._batch if label == distinct_label else label) for label in labels]
            result += product.values.transpose(axes)[
                (slice(None),) * labels.index(distinct_label) + (slice(begin, end),)
            ]
            begin = end

    def _concatenated_messages(self, node: int, neighbour: int, labels: tuple[int, ...]) -> Table:
        """The messages about single attributes through one edge, concatenated along the label of the batch."""
        key = (node, neighbour, labels, "concatenated")
        table = self._cache.get(key)
        if table is None:
            separator = labels_of(self._routes.separator(node, neighbour))
            messages = [self._message((node, neighbour, 1 << label), Restriction(self._max_cells)) for label in labels]
            cells = sum(message.values.size for message in messages)
            if cells > self._max_cells:
                raise TooLargeError(cells, mask_of(separator))
            parts = [
                transpose_to(message, [*separator, label]) for message, label in zip(messages, labels, strict=True)
            ]
            table = Table((*separator, self._batch), np.concatenate(parts, axis=-1))
            self._cache.put(key, table)
        return table

    def _fill(self, result: NDArray[np.float64], labels: tuple[int, ...], restriction: Restriction) -> None:
        """Adds the table of some attributes, in slices of the longest axis if the table would be too large."""
        try:
            self._add(result, labels, self._table(mask_of(labels), restriction), restriction)
            return
        except TooLargeError as error:  # The error keeps tables alive, so slices wait until it is gone.
            cells = error.cells
        axis = max(range(len(labels)), key=lambda axis: result.shape[axis])
        for begin, end in itertools.pairwise(cut_points(0, result.shape[axis], -(-cells // restriction.max_cells))):
            self._fill(
                result[(slice(None),) * axis + (slice(begin, end),)],
                labels,
                restriction.narrow(labels[axis], begin, end),
            )

    def _add(
        self, result: NDArray[np.float64], labels: tuple[int, ...], table: Table, restriction: Restriction
    ) -> None:
        """Adds a table to a result that has the attributes as axes, in any order."""
        result += transpose_to(
            table, [len(self._sizes) + label if label in restriction.factors else label for label in labels]
        )

    def _table(self, query_mask: int, restriction: Restriction) -> Table:
        """The table of some attributes; the row label of a factor replaces the label of its attribute."""
        parts: dict[int, int] = {}
        for label in labels_of(query_mask):
            root = self._routes.roots[self._routes.homes[label]]
            parts[root] = parts.get(root, 0) | 1 << label
        tables = [self._connected(part, restriction) for part in parts.values()]
        result = tables[0] if tables else Table((), np.ones(()))
        for table in tables[1:]:
            # Tables of different trees share at most the label of the batch.
            result = contract(result, table, self._always_kept, restriction.max_cells)
        return result

    def _connected(self, query_mask: int, restriction: Restriction) -> Table:
        """The table of attributes of one tree of the forest."""
        node, branches = self._routes.meeting(query_mask)
        incoming = [self._message((node, neighbour, part), restriction) for neighbour, part in branches.items()]
        return self._meet(node, 0, query_mask, incoming, restriction)

    def _meet(
        self, node: int, separator: int, query_mask: int, incoming: Sequence[Table], restriction: Restriction
    ) -> Table:
        """p(attributes | separator) from the messages into a node; the joint table for an empty separator."""
        mask = self._routes.masks[node]
        own = needed = query_mask & mask
        for message in incoming:
            needed |= mask_of(message.labels) & mask
        factored = mask_of(restriction.factors)
        factors = [restriction.factors[label] for label in labels_of(own & factored)]
        tables = absorb_subsets([*incoming, *factors]) if factored else list(incoming)
        keep = query_mask & ~factored | separator | self._always_kept
        table = self._conditional(node, needed, separator, restriction)
        tables = [restriction.restrict(message, self._sizes) for message in tables]  # Some are restricted already.
        return contract_all(table, tables, keep, restriction.max_cells)

    def _message(self, message: _Message, restriction: Restriction) -> Table:
        """p(attributes | separator) for attributes behind the separator between two nodes.

        The messages on which it depends are listed first, not computed recursively, because trees may be thousands of
        nodes deep.
        """
        plan, tables, below = [message], dict[_Message, Table](), dict[_Message, list[_Message]]()
        for key in plan:
            cached = self._cache.get(key) if self._is_shared(key, restriction) else None
            if cached is not None:
                tables[key] = cached
            elif (whole := self._unsplit(key[1])) is not None:
                tables[key] = whole._message(key, restriction)
            else:
                _, node, part = key
                below[key] = [(node, neighbour, rest) for neighbour, rest in self._routes.branches(node, part).items()]
                plan += below[key]
        for key in reversed(below):
            to, node, part = key
            incoming = [tables.pop(sender) for sender in below[key]]
            tables[key] = self._meet(node, self._routes.separator(to, node), part, incoming, restriction)
            if incoming and self._is_shared(key, restriction):  # ``_conditional`` caches those of single nodes.
                self._cache.put(key, tables[key])
        return tables[message]

    def _is_shared(self, message: _Message, restriction: Restriction) -> bool:
        """Whether a message is cached for other queries, which requires that the restriction does not change it."""
        to, node, part = message
        if part.bit_count() > _MAX_CACHED_ATTRIBUTES:
            return False
        changed = mask_of(restriction.ranges) & (part | self._routes.separator(to, node))
        return not (changed or part & mask_of(restriction.factors))

    def _conditional(self, node: int, mask: int, separator: int, restriction: Restriction) -> Table:
        """p(attributes of the node | its separator), with the separator's labels among those of the table.

        For an empty separator it is the marginal of the attributes.

        Raises: TooLargeError if the table would be too large.
        """
        if not separator:
            return restriction.restrict(self._within(node, mask), self._sizes)
        mask |= separator
        key = (node, mask, separator, "conditional")
        table = None if restriction.ranges else self._cache.get(key)
        if table is None:
            labels, values = restriction.restrict(self._within(node, mask), self._sizes)
            if values.size > restriction.max_cells:
                raise TooLargeError(values.size, mask)
            # Only restrictions of the separator's own attributes change the condition.
            base = restriction.restrict(self._within(node, separator), self._sizes).values
            sizes = zip(labels, values.shape, strict=True)
            base = base.reshape([size if separator >> label & 1 else 1 for label, size in sizes])
            table = Table(labels, np.divide(values, base, out=np.zeros_like(values), where=base > 0))
            if not restriction.ranges:
                self._cache.put(key, table)
        return table

    def _unsplit(self, node: int) -> Calibrated | None:
        """The tree that was split, if the node does not have the attribute of the split; else None."""
        return self._whole if self._split_mask & ~self._routes.masks[node] else None

    def _within(self, node: int, mask: int) -> Table:
        """The marginal of some of a node's attributes, from the smallest known table that has all of them."""
        if (whole := self._unsplit(node)) is not None:
            return whole._within(node, mask)
        smallest = self._joints[node]
        if mask == self._routes.masks[node]:
            return smallest
        known_cells = self._sums[node]
        for superset in [superset for superset in known_cells if not mask & ~superset]:
            if known_cells[superset] < smallest.values.size:
                table = self._cache.get((node, superset))
                if table is None:
                    del known_cells[superset]
                else:
                    smallest = table
        if (labels := tuple(label for label in smallest.labels if mask >> label & 1)) == smallest.labels:
            return smallest
        axes = tuple(axis for axis, label in enumerate(smallest.labels) if not mask >> label & 1)
        table = Table(labels, np.asarray(smallest.values.sum(axis=axes)))
        known_cells[mask] = table.values.size
        self._cache.put((node, mask), table)
        return table

    def _joint(self, node: int, conditional: NDArray[np.float64]) -> Table:
        """A node's joint table from its parent's, with axes in the order of the domain."""
        separator = self.tree.separators[node]
        parent_marginal = None
        if separator:
            parent_marginal = self._within(self.tree.parents[node], mask_of(self.domain.axes(separator))).values
        return joint_table(self.tree, node, conditional, parent_marginal)
