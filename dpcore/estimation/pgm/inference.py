"""Exact marginals of a graphical model: belief propagation on a junction tree, one compiled loop for all structures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import Clique, Domain
from dpcore.estimation.pgm.junction_tree import JunctionTree
from dpcore.estimation.pgm.layout import Parts, add_part, parts, row_sum, sum_part
from dpcore.estimation.pgm.sharing import Step, shared_steps
from dpcore.estimation.pgm.vector_exp import exp_in_place
from dpcore.queries import Marginals


class MarginalOracle(Protocol):
    """Log-potentials on cliques in, their marginals and the conditionals of the tree's nodes out.

    log_partition: Of the last call.
    """

    log_partition: float

    @property
    def queries(self) -> Marginals: ...

    def marginals(self, potentials: NDArray[np.float64]) -> NDArray[np.float64]: ...

    def conditionals(self, potentials: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]: ...


class Schedule(NamedTuple):
    """What the compiled loops read of a structure.

    Two flat vectors: ``tables`` holds a table a node, a row for each cell of its separator; ``slots`` holds the
    potentials of the cliques, then a message for each node, then intermediate cliques.

    starts: Where each node's table begins, and the end of the last.
    rows: Cells of each node's separator.
    parents: Parent of each node, -1 for roots.
    sent: Where each node's message begins in the slots.
    steps: Where the steps of each node begin, and the end of the last.
    inside: Steps whose table is a slot as well.
    plan: The steps, from the node down.
    """

    starts: NDArray[np.int64]
    rows: NDArray[np.int64]
    parents: NDArray[np.int64]
    sent: NDArray[np.int64]
    steps: NDArray[np.int64]
    inside: NDArray[np.bool_]
    plan: Parts


@final
class Inference:
    """The marginal oracle (thesis, section 4.3): log-potentials on cliques in, marginals of the same cliques out.

    Messages towards the roots are logarithms, and every node is normalised for each cell of its separator: potentials
    of any size, and -inf (structural zeros), neither overflow nor vanish. Messages from the roots are probabilities.

    tree: The structure.
    cliques: Where potentials live; each inside some node of the tree, () allowed.

    Raises ValueError for a clique that no node contains.

    Source: Lauritzen and Spiegelhalter (1988); Koller and Friedman (2009), section 10.3.
    """

    def __init__(self, tree: JunctionTree, cliques: Sequence[Clique]) -> None:
        self.tree = tree
        self.queries = Marginals(tree.domain, tuple(cliques) or ((),))
        self._orders = [_loop_order(tree.domain, tree, node) for node in range(len(tree.nodes))]
        self._schedule, slots = _schedule(tree, self._orders, self.queries)
        self._tables = np.zeros(self._schedule.starts[-1])
        self._slots = np.zeros(slots)
        self.log_partition = 0.0

    def marginals(self, potentials: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities of each clique's cells, float64 [queries.size], from log-potentials of the same shape.

        All zero where the potentials exclude every cell of the domain.
        """
        self._collect(potentials)
        if self.log_partition == -np.inf:
            return np.zeros(self.queries.size)
        _distribute(self._schedule, self._tables, self._slots)
        return self._slots[: self.queries.size].copy()

    def conditionals(self, potentials: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """p(residual | separator) of every node, float64 [cells of its separator, cells of its residual].

        A row is zero where the potentials exclude its cell of the separator by this node or those below it.
        """
        self._collect(potentials)
        pieces = np.split(self._tables, self._schedule.starts[1:-1])
        return tuple(self._in_tree_order(node, piece) for node, piece in enumerate(pieces))

    def _collect(self, potentials: NDArray[np.float64]) -> None:
        if potentials.shape != (self.queries.size,):
            raise ValueError(f"potentials have shape {potentials.shape}; want ({self.queries.size},)")
        self._slots[: self.queries.size] = potentials
        self._slots[self.queries.size :] = 0.0
        self.log_partition = _collect(self._schedule, self._tables, self._slots)

    def _in_tree_order(self, node: int, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """A node's table with its attributes in the order of the tree, float64 [separator, residual]."""
        domain, order, wanted = self.tree.domain, self._orders[node], self.tree.nodes[node]
        cells = table.reshape(domain.shape(order)).transpose([order.index(name) for name in wanted])
        return np.array(cells, order="C").reshape(self._schedule.rows[node], -1)


def _loop_order(domain: Domain, tree: JunctionTree, node: int) -> Clique:
    """The attributes of a node as its table is laid out: the separator, then the others, each with the largest last."""
    separator = tree.separators[node]
    residual = [name for name in tree.nodes[node] if name not in separator]
    size = dict(zip(domain.names, domain.sizes, strict=True))
    return (*sorted(separator, key=size.__getitem__), *sorted(residual, key=size.__getitem__))


def _schedule(tree: JunctionTree, orders: list[Clique], queries: Marginals) -> tuple[Schedule, int]:
    """The schedule of a tree whose tables have these orders, and the length of its slots."""
    domain, nodes = tree.domain, range(len(tree.nodes))
    separators = [_separator(orders[node], tree.separators[node]) for node in nodes]
    slots = [*queries.cliques, *separators]
    begins = np.cumsum([0, *map(domain.size, slots)]).tolist()
    starts = np.cumsum([0, *map(domain.size, orders)]).tolist()
    held: list[list[int]] = [[] for _ in nodes]
    for index, clique in enumerate(queries.cliques):
        held[tree.node_of(clique)].append(index)
    for node in nodes:
        if tree.parents[node] >= 0:
            held[tree.parents[node]].append(len(queries.cliques) + node)
    pairs: list[tuple[Clique, int, Clique, int]] = []
    inside: list[bool] = []
    firsts = [0]
    for node in nodes:
        made, steps = shared_steps(domain, orders[node], [slots[index] for index in held[node]])
        here = [*held[node], *range(len(slots), len(slots) + len(made))]
        slots += made
        for clique in made:
            begins.append(begins[-1] + domain.size(clique))
        pairs += [_pair(step, here, slots, begins, orders[node], starts[node]) for step in steps]
        inside += [step.table >= 0 for step in steps]
        firsts.append(len(pairs))
    rows = [domain.size(separator) for separator in separators]
    sent = begins[len(queries.cliques) : len(queries.cliques) + len(separators)]
    schedule = Schedule(
        starts=np.array(starts, dtype=np.int64),
        rows=np.array(rows, dtype=np.int64),
        parents=np.array(tree.parents, dtype=np.int64),
        sent=np.array(sent, dtype=np.int64),
        steps=np.array(firsts, dtype=np.int64),
        inside=np.array(inside, dtype=np.bool_),
        plan=parts(domain, pairs),
    )
    return schedule, begins[-1]


def _pair(
    step: Step, here: list[int], slots: list[Clique], begins: list[int], node: Clique, start: int
) -> tuple[Clique, int, Clique, int]:
    part = here[step.part]
    if step.table < 0:
        return node, start, slots[part], begins[part]
    table = here[step.table]
    return slots[table], begins[table], slots[part], begins[part]


def _separator(order: Clique, separator: Clique) -> Clique:
    return order[: len(separator)]


@compiled
def _collect(schedule: Schedule, tables: NDArray[np.float64], slots: NDArray[np.float64]) -> float:
    """Leaves to roots: p(residual | separator) into every table; returns the log-partition."""
    log_partition = 0.0
    tables[:] = 0.0
    for node in range(schedule.parents.size - 1, -1, -1):
        for step in range(schedule.steps[node + 1] - 1, schedule.steps[node] - 1, -1):
            add_part(schedule.plan, step, slots if schedule.inside[step] else tables, slots)
        sent = slots[schedule.sent[node] : schedule.sent[node] + schedule.rows[node]]
        _normalise(tables[schedule.starts[node] : schedule.starts[node + 1]], sent)
        if schedule.parents[node] < 0:
            log_partition += sent[0]
    return log_partition


@compiled
def _normalise(table: NDArray[np.float64], message: NDArray[np.float64]) -> None:
    """Log-potentials, a row for each cell of the separator: to rows that sum to 1, and the logarithms of their sums."""
    width = table.size // message.size
    for row in range(message.size):
        cells = table[row * width : (row + 1) * width]
        largest = cells[0]
        for cell in range(width):
            largest = max(largest, cells[cell])
        message[row] = largest
        if largest > -np.inf:
            for cell in range(width):
                cells[cell] -= largest
    exp_in_place(table)
    for row in range(message.size):
        if message[row] == -np.inf:
            continue
        total = row_sum(table, row * width, width)
        message[row] += np.log(total)
        scale, cells = 1.0 / total, table[row * width : (row + 1) * width]
        for cell in range(width):
            cells[cell] *= scale


@compiled
def _distribute(schedule: Schedule, tables: NDArray[np.float64], slots: NDArray[np.float64]) -> None:
    """Roots to leaves: every table becomes the marginal of its node, every slot that of its clique."""
    for node in range(schedule.parents.size):
        if schedule.parents[node] >= 0:
            sent = slots[schedule.sent[node] : schedule.sent[node] + schedule.rows[node]]
            width = (schedule.starts[node + 1] - schedule.starts[node]) // sent.size
            for row in range(sent.size):
                first = schedule.starts[node] + row * width
                cells = tables[first : first + width]
                for cell in range(width):
                    cells[cell] *= sent[row]
        for step in range(schedule.steps[node], schedule.steps[node + 1]):
            sum_part(schedule.plan, step, slots if schedule.inside[step] else tables, slots)
