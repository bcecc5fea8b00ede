"""Exact marginals of a graphical model: belief propagation on a junction tree, one compiled loop for all structures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import Clique
from dpcore.estimation.graphical.inference.contraction_plan import shared_steps
from dpcore.estimation.graphical.inference.node_tables import NodeTable
from dpcore.estimation.graphical.inference.strides import (
    StridePlans,
    add_block,
    add_part,
    block_cells,
    clear_part,
    row_sum,
    stride_plans,
    sum_block,
    sum_part,
)
from dpcore.estimation.graphical.inference.vector_exp import exp_of
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.queries import Marginals

# Rows are scaled so that the largest cell of all is 1; a row that then sums to less than this is scaled by itself.
_UNDERFLOW: Final = 1e-100


class MarginalOracle(Protocol):
    """Computes marginals of cliques, and tables of the tree's nodes, from log-potentials on the cliques.

    The laws of an oracle are tested in tests/contract. Implemented by ``Inference``.

    log_partition: ln Z of the last call.
    queries: The cliques that have log-potentials.
    work: Number of cells of tables that a call reads: those of the nodes twice, and for every marginal those of the
        table from which it is summed. A call takes about a nanosecond for each.
    """

    log_partition: float
    work: int

    @property
    def queries(self) -> Marginals: ...

    def marginals(self, potentials: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities of each clique's cells, float64 [queries.size], from log-potentials of the same shape."""
        ...

    def conditionals(self, potentials: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """p(residual | separator) of every node, float64 [cells of its separator, cells of its residual]."""
        ...

    def take_tables(self) -> tuple[NodeTable, ...]:
        """The joint tables of all nodes after a call of ``marginals``; the oracle keeps no copy."""
        ...


class MessageSchedule(NamedTuple):
    """A junction tree and its cliques as arrays for the compiled loops.

    The loops work on two flat vectors. ``tables`` holds one table for each node, with a row for each cell of its
    separator. ``slots`` holds the potentials of the cliques, then a message for each node, then intermediate cliques.
    A *step* of a node sums a part from a table, or adds it to the table (``contraction_plan.Step``).

    starts: Where each node's table begins, and the end of the last; int64 [nodes + 1].
    blocks: Number of cells of a block of each node's table; int64 [nodes].
    rows: Number of cells of each node's separator; int64 [nodes].
    parents: Parent of each node, -1 for roots; int64 [nodes].
    messages: Where each node's message to its parent begins in the slots; int64 [nodes].
    steps: Index of the first step of each node, and the number of steps; int64 [nodes + 1].
    inner_steps: Index of the first step of each node whose table is a slot, not the node itself; int64 [nodes].
    plan: The strides of all steps; the steps of a node are in the order in which its table is summed.
    """

    starts: NDArray[np.int64]
    blocks: NDArray[np.int64]
    rows: NDArray[np.int64]
    parents: NDArray[np.int64]
    messages: NDArray[np.int64]
    steps: NDArray[np.int64]
    inner_steps: NDArray[np.int64]
    plan: StridePlans


@final
class Inference:
    """The marginal oracle: belief propagation on a junction tree. Implements ``MarginalOracle``.

    Messages towards the roots are logarithms, and every node is normalised for each cell of its separator. Hence
    potentials of any size neither overflow nor underflow, and -inf excludes a cell (a structural zero). Messages from
    the roots are probabilities.

    tree: The junction tree.
    cliques: The cliques that have log-potentials, each inside some node of the tree; the empty clique () is allowed.

    Raises: ValueError for a clique that no node contains.

    Source: thesis, section 4.3; Lauritzen and Spiegelhalter (1988); Koller and Friedman (2009), section 10.3.
    """

    def __init__(self, tree: JunctionTree, cliques: Sequence[Clique]) -> None:
        self.tree = tree
        self.queries = Marginals(tree.domain, tuple(cliques) or ((),))
        self._size = self.queries.size
        self._orders = _loop_orders(tree)
        self._schedule, slots, step_cells = _schedule(tree, self._orders, self.queries)
        self.work = 2 * tree.cells + step_cells
        self._tables = np.zeros(self._schedule.starts[-1])
        self._calibrated = False  # Whether the tables are joint tables.
        self._slots = np.zeros(slots)
        self._scales = np.zeros(self._schedule.rows.sum())
        self.log_partition = 0.0

    def marginals(self, potentials: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities of each clique's cells, float64 [queries.size], from log-potentials of the same shape.

        All are 0 if the potentials exclude every cell of the domain.

        Raises: ValueError for potentials of another shape.
        """
        self._collect(potentials)
        if self.log_partition == -np.inf:
            return np.zeros(self._size)
        _distribute(self._schedule, self._tables, self._slots, self._scales)
        self._calibrated = True
        return self._slots[: self._size].copy()

    def conditionals(self, potentials: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """p(residual | separator) of every node, float64 [cells of its separator, cells of its residual].

        A row is 0 if the potentials of this node, or of its descendants, exclude the separator's cell.

        Raises: ValueError for potentials of another shape.
        """
        self._collect(potentials)
        tables = np.split(self._tables, self._schedule.starts[1:-1])
        scales = np.split(self._scales, np.cumsum(self._schedule.rows)[:-1])
        scaled = (table.reshape(rows.size, -1) * rows[:, None] for table, rows in zip(tables, scales, strict=True))
        return tuple(self._in_tree_order(node, table) for node, table in enumerate(scaled))

    def take_tables(self) -> tuple[NodeTable, ...]:
        """The joint tables of all nodes as the last call of ``marginals`` left them, without a copy.

        The oracle keeps no reference to them, and allocates new tables for its next call.

        Raises: RuntimeError if the last call was not ``marginals``, or if its potentials excluded every cell.
        """
        if not self._calibrated:
            raise RuntimeError(
                "no joint tables to take; want a call of marginals before, with potentials that allow some record"
            )
        pieces = np.split(self._tables, self._schedule.starts[1:-1])
        self._tables, self._calibrated = np.zeros(self._schedule.starts[-1]), False
        shape = self.tree.domain.shape
        return tuple(
            NodeTable(order, table.reshape(shape(order))) for order, table in zip(self._orders, pieces, strict=True)
        )

    def _collect(self, potentials: NDArray[np.float64]) -> None:
        """The pass from the leaves to the roots, which sets the log-partition."""
        if potentials.shape != (self._size,):
            raise ValueError(f"potentials have shape {potentials.shape}; want ({self._size},)")
        self._calibrated = False
        self._slots[: self._size] = potentials
        self._slots[self._size :] = 0.0
        self.log_partition = _collect(self._schedule, self._tables, self._slots, self._scales)

    def _in_tree_order(self, node: int, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """A node's table with its attributes in the order of the tree, float64 [separator, residual]."""
        domain, order, tree_order = self.tree.domain, self._orders[node], self.tree.nodes[node]
        if order == tree_order:
            return table
        cells = table.reshape(domain.shape(order)).transpose([order.index(name) for name in tree_order])
        return np.array(cells, order="C").reshape(table.shape)


def _loop_orders(tree: JunctionTree) -> list[Clique]:
    """The order of attributes in the table of each node: separator, then residual, each with the largest last."""
    size = dict(zip(tree.domain.names, tree.domain.sizes, strict=True)).__getitem__
    pairs = zip(tree.separators, tree.residuals, strict=True)
    return [(*sorted(separator, key=size), *sorted(residual, key=size)) for separator, residual in pairs]


def _schedule(tree: JunctionTree, orders: list[Clique], queries: Marginals) -> tuple[MessageSchedule, int, int]:
    """The schedule of a tree whose tables have these orders, the length of the slots, and the cells that steps read."""
    domain = tree.domain
    separators = [order[: len(separator)] for order, separator in zip(orders, tree.separators, strict=True)]
    slots = [*queries.cliques, *separators]
    begins = np.cumsum([0, *map(domain.size, slots)]).tolist()
    starts = np.cumsum([0, *tree.sizes]).tolist()
    messages = begins[len(queries.cliques) : -1]
    pairs: list[tuple[Clique, int, Clique, int]] = []
    firsts, inner_steps, step_cells = [0], [], 0
    for node, parts in enumerate(_parts_of_nodes(tree, queries.cliques)):
        intermediate, steps = shared_steps(domain, orders[node], [slots[index] for index in parts])
        indices = [*parts, *range(len(slots), len(slots) + len(intermediate))]
        slots += intermediate
        for clique in intermediate:
            begins.append(begins[-1] + domain.size(clique))
        tables = [(slots[index], begins[index]) for index in indices]
        tables.append((orders[node], starts[node]))  # The last, which steps call -1.
        pairs += [(*tables[step.table], *tables[step.part]) for step in steps]
        step_cells += sum(domain.size(tables[step.table][0]) for step in steps)
        inner_steps.append(firsts[-1] + sum(step.table < 0 for step in steps))
        firsts.append(len(pairs))
    arrays = {
        "starts": starts, "blocks": [block_cells(domain.shape(order)) for order in orders],
        "rows": [domain.size(separator) for separator in separators], "parents": tree.parents, "messages": messages,
        "steps": firsts, "inner_steps": inner_steps,
    }  # fmt: skip
    integers = {name: np.array(values, dtype=np.int64) for name, values in arrays.items()}
    return MessageSchedule(**integers, plan=stride_plans(domain, pairs)), begins[-1], step_cells


def _parts_of_nodes(tree: JunctionTree, cliques: Sequence[Clique]) -> list[list[int]]:
    """The parts of each node: indices of cliques, then of the separators of its children among the slots."""
    parts: list[list[int]] = [[] for _ in tree.nodes]
    for index, clique in enumerate(cliques):
        parts[tree.node_of(clique)].append(index)
    for node, parent in enumerate(tree.parents):
        if parent >= 0:
            parts[parent].append(len(cliques) + node)
    return parts


@compiled
def _collect(
    schedule: MessageSchedule, tables: NDArray[np.float64], slots: NDArray[np.float64], scales: NDArray[np.float64]
) -> float:
    """The pass from the leaves to the roots: sets every table to p(residual | separator), up to a factor for each row.

    Returns: The log-partition.
    """
    log_partition = 0.0
    buffer = np.empty(schedule.blocks.max())
    for node in range(schedule.parents.size - 1, -1, -1):
        first_step, inner_step = schedule.steps[node], schedule.inner_steps[node]
        for step in range(schedule.steps[node + 1] - 1, inner_step - 1, -1):
            add_part(schedule.plan, step, slots, slots)
        start, end, block = schedule.starts[node], schedule.starts[node + 1], schedule.blocks[node]
        width = (end - start) // schedule.rows[node]
        piece = max(width, block)  # Whole rows, and whole blocks.
        for first in range(start, end, piece):
            for begin in range(first, first + piece, block):
                cells = tables[begin : begin + block]
                for cell in range(block):
                    cells[cell] = 0.0
                for step in range(first_step, inner_step):
                    add_block(schedule.plan, step, (begin - start) // block, cells, slots)
            message, rows = schedule.messages[node] + (first - start) // width, piece // width
            scale = message - schedule.messages[0]
            _exponentials(
                tables[first : first + piece], buffer, slots[message : message + rows], scales[scale : scale + rows]
            )
        if schedule.parents[node] < 0:
            log_partition += slots[schedule.messages[node]]
    return log_partition


@compiled
def _exponentials(
    table: NDArray[np.float64], buffer: NDArray[np.float64], message: NDArray[np.float64], scales: NDArray[np.float64]
) -> None:
    """Turns the log-potentials of some rows into exponentials.

    table: Log-potentials of one row, or of several rows that fit in the buffer together; overwritten by exponentials.
    buffer: Memory for one block.
    message: Set to the logarithm of the sum of the exponentials of each row.
    scales: Set to the factor that makes each row sum to 1; 0 for an excluded row.
    """
    width = table.size // message.size
    common = _largest(table)
    for begin in range(0, table.size, buffer.size):
        cells = table[begin : begin + buffer.size]
        for cell in range(cells.size):
            buffer[cell] = cells[cell]
        exp_of(buffer[: cells.size], common if common > -np.inf else 0.0, cells)
    for row in range(message.size):
        shift, total = common, row_sum(table, row * width, width)
        if total < _UNDERFLOW:  # A single row has a cell of exactly 1, so this happens to it only if it is excluded.
            logs = buffer[row * width : (row + 1) * width]
            shift = _largest(logs)
            if shift == -np.inf:
                message[row], scales[row] = -np.inf, 0.0
                continue
            exp_of(logs, shift, table[row * width : (row + 1) * width])
            total = row_sum(table, row * width, width)
        message[row], scales[row] = shift + np.log(total), 1.0 / total


@compiled
def _largest(values: NDArray[np.float64]) -> float:
    """The largest value, from four interleaved maxima that a processor finds in parallel."""
    whole = values.size - values.size % 4
    a, b, c, d = -np.inf, -np.inf, -np.inf, -np.inf
    for index in range(0, whole, 4):
        a = max(a, values[index])
        b = max(b, values[index + 1])
        c = max(c, values[index + 2])
        d = max(d, values[index + 3])
    for index in range(whole, values.size):
        a = max(a, values[index])
    return max(max(a, b), max(c, d))


@compiled
def _distribute(
    schedule: MessageSchedule, tables: NDArray[np.float64], slots: NDArray[np.float64], scales: NDArray[np.float64]
) -> None:
    """The pass from the roots to the leaves: sets every table and every slot to its marginal."""
    for node in range(schedule.parents.size):
        first_step, inner_step, last = schedule.steps[node], schedule.inner_steps[node], schedule.steps[node + 1]
        for step in range(first_step, inner_step):
            clear_part(schedule.plan, step, slots)
        start, end = schedule.starts[node], schedule.starts[node + 1]
        count, block = schedule.rows[node], schedule.blocks[node]
        width = (end - start) // count
        message = schedule.messages[node]
        factors = scales[message - schedule.messages[0] :][:count]
        if schedule.parents[node] >= 0:
            for row in range(count):
                factors[row] *= slots[message + row]
        for first in range(start, end, block):
            cells = tables[first : first + block]
            _scale_rows(cells, factors, first - start, width)
            for step in range(first_step, inner_step):
                sum_block(schedule.plan, step, (first - start) // block, cells, slots)
        for step in range(inner_step, last):
            sum_part(schedule.plan, step, slots, slots)


@compiled
def _scale_rows(cells: NDArray[np.float64], factors: NDArray[np.float64], first: int, width: int) -> None:
    """Multiplies consecutive cells of a table, from the ``first`` on, by the factors of their rows."""
    run = min(width, cells.size)
    for begin in range(0, cells.size, run):
        factor, row_cells = factors[(first + begin) // width], cells[begin : begin + run]
        for cell in range(run):
            row_cells[cell] *= factor
