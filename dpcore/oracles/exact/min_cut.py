"""The optimum of a core by a minimum cut, if the signs of its literals allow it.

A core with two options per block is a sum of products of 0/1 values. It is supermodular if every clause of two or more
literals has a positive weight, and its literals are all positive or all negated; maximising it is then the closure
problem. Either option of a block may count as its 1, and a clause of negative weight with two literals becomes one of
positive weight by flipping one of them: -w [a b] = w [a ~b] - w [a]. Choosing the 1s is therefore a two-colouring:
literals of a positive clause need equal colours, and those of a negative pair different ones. Negative clauses of three
or more literals have no such form.

Source: Picard, "Maximal closure of a graph and applications to combinatorial problems" (1976), with a network node for
each clause. The maximum flow is computed by Dinitz's algorithm.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.oracles.exact.core import Core

_UNBOUNDED = np.int64(2**61)


def min_cut(core: Core) -> NDArray[np.int64] | None:
    """The optimal option of each block, int64 [b]; None if no choice of the 1s makes the core supermodular.

    core: The core.
    """
    if (np.diff(core.bounds) != 2).any():
        return None
    block_of = core.block_of_option()
    blocks = block_of[core.literals].astype(np.int64)
    # Whether a literal holds for the first option of its block, which counts as its 1 until it is flipped.
    wants_one = (core.literals == core.bounds[blocks]) != core.negated
    flipped = _colouring(core.blocks, core.clause_bounds, blocks, wants_one, core.weights)
    if flipped is None:
        return None
    gain_of_one = core.gains[core.bounds[:-1]] - core.gains[core.bounds[:-1] + 1]
    gains = np.where(flipped, -gain_of_one, gain_of_one)
    ones = _closure(gains, core.clause_bounds, blocks, wants_one != flipped[blocks], core.weights)
    return np.where(ones != flipped, core.bounds[:-1], core.bounds[:-1] + 1)


@compiled
def _colouring(
    count: int,
    clause_bounds: NDArray[np.int64],
    blocks: NDArray[np.int64],
    wants_one: NDArray[np.bool_],
    weights: NDArray[np.int64],
) -> NDArray[np.bool_] | None:
    """The blocks to flip so that the literals of every positive clause hold for equal values: bool [count].

    None if no choice of blocks does that. The method is union-find with parity.
    """
    parent, parity = np.arange(count), np.zeros(count, dtype=np.bool_)
    for clause in range(weights.size):
        start, stop = clause_bounds[clause], clause_bounds[clause + 1]
        if weights[clause] < 0 and stop - start > 2:
            return None
        for index in range(start + 1, stop):
            differ = (wants_one[start] != wants_one[index]) != (weights[clause] < 0)
            first_root, first_parity = _root(blocks[start], parent, parity)
            root, root_parity = _root(blocks[index], parent, parity)
            if first_root == root:
                if (first_parity != root_parity) != differ or blocks[start] == blocks[index]:
                    return None
            else:
                parent[max(first_root, root)] = min(first_root, root)
                parity[max(first_root, root)] = (first_parity != root_parity) != differ
    flipped = np.empty(count, dtype=np.bool_)
    for block in range(count):
        flipped[block] = _root(block, parent, parity)[1]
    return flipped


@compiled
def _root(block: int, parent: NDArray[np.int64], parity: NDArray[np.bool_]) -> tuple[int, bool]:
    """The root of a block, and whether their colours differ; the path to the root is halved."""
    differs = False
    while parent[block] != block:
        above = parent[block]
        parity[block] = parity[block] != parity[above]  # The parity of a root is False.
        parent[block] = parent[above]
        differs = differs != parity[block]
        block = parent[block]
    return block, differs


@compiled
def _closure(
    gains: NDArray[np.int64],
    clause_bounds: NDArray[np.int64],
    blocks: NDArray[np.int64],
    wants_one: NDArray[np.bool_],
    weights: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """The values that maximise the gains of the 1s plus the weights of the clauses that hold: bool [blocks]."""
    count, clauses = gains.size, weights.size
    profit = gains.copy()
    source, sink = count + clauses, count + clauses + 1
    # Arcs come in pairs: forward arcs have even numbers, and their reverse arcs the next odd ones.
    arcs = 2 * (count + clauses + blocks.size)
    head, capacity = np.empty(arcs, dtype=np.int64), np.zeros(arcs, dtype=np.int64)
    tail = np.empty(arcs, dtype=np.int64)
    used = 0
    for clause in range(clauses):
        start, stop = clause_bounds[clause], clause_bounds[clause + 1]
        weight, like_first = weights[clause], wants_one[start]
        if weight < 0 or stop - start == 1:  # -w [a b] = w [a ~b] - w [a]; if a wants 0, [a] is 1 minus its value.
            profit[blocks[start]] += weight if like_first else -weight
            weight = -weight if stop - start > 1 else 0
        node = count + clause
        tail[used], head[used] = (source, node) if like_first else (node, sink)
        capacity[used] = weight
        used += 2
        for index in range(start, stop):
            tail[used], head[used] = (node, blocks[index]) if like_first else (blocks[index], node)
            capacity[used] = _UNBOUNDED
            used += 2
    for block in range(count):
        tail[used], head[used] = (source, block) if profit[block] > 0 else (block, sink)
        capacity[used] = abs(profit[block])
        used += 2
    for arc in range(0, arcs, 2):
        tail[arc + 1], head[arc + 1] = head[arc], tail[arc]
    nodes = count + clauses + 2
    arcs_from = np.zeros(nodes + 1, dtype=np.int64)
    for arc in range(arcs):
        arcs_from[tail[arc] + 1] += 1
    for node in range(nodes):
        arcs_from[node + 1] += arcs_from[node]
    next_slot, leaving = arcs_from[:-1].copy(), np.empty(arcs, dtype=np.int64)
    for arc in range(arcs):
        leaving[next_slot[tail[arc]]] = arc
        next_slot[tail[arc]] += 1
    level = _saturate(arcs_from, leaving, head, capacity, source, sink)
    return level[:count] >= 0


@compiled
def _saturate(
    arcs_from: NDArray[np.int64],
    leaving: NDArray[np.int64],
    head: NDArray[np.int64],
    capacity: NDArray[np.int64],
    source: int,
    sink: int,
) -> NDArray[np.int64]:
    """Sends a maximum flow; returns the residual network's levels, -1 for nodes that the source cannot reach."""
    nodes = arcs_from.size - 1
    level, queue = np.empty(nodes, dtype=np.int64), np.empty(nodes, dtype=np.int64)
    path, current = np.empty(nodes, dtype=np.int64), np.empty(nodes, dtype=np.int64)
    while True:
        level[:] = -1
        level[source] = 0
        queue[0] = source
        read, written = 0, 1
        while read < written:
            node = queue[read]
            read += 1
            for index in range(arcs_from[node], arcs_from[node + 1]):
                arc = leaving[index]
                if capacity[arc] > 0 and level[head[arc]] < 0:
                    level[head[arc]] = level[node] + 1
                    queue[written] = head[arc]
                    written += 1
        if level[sink] < 0:
            return level
        current[:] = arcs_from[:-1]
        node, depth = source, 0
        while True:
            if node == sink:
                amount = capacity[path[0]]
                for step in range(depth):
                    amount = min(amount, capacity[path[step]])
                back = depth
                for step in range(depth - 1, -1, -1):
                    capacity[path[step]] -= amount
                    capacity[path[step] ^ 1] += amount
                    if capacity[path[step]] == 0:
                        back = step
                node, depth = head[path[back] ^ 1], back
            elif current[node] < arcs_from[node + 1]:
                arc = leaving[current[node]]
                if capacity[arc] > 0 and level[head[arc]] == level[node] + 1:
                    path[depth] = arc
                    depth += 1
                    node = head[arc]
                else:
                    current[node] += 1
            elif node == source:
                break
            else:
                depth -= 1
                node = head[path[depth] ^ 1]
                current[node] += 1
