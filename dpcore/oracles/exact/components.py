"""Connected components of a core, and the optimum of small ones by enumeration."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.oracles.exact.core import Core

UNSOLVED = -1


def components(core: Core) -> NDArray[np.int64]:
    """The component of each block, int64 [b], numbered from 0 in the order of their first blocks.

    core: The core.

    Blocks of different components share no clause, so each component can be maximised by itself.
    """
    return _components(core.block_of_option(), core.clause_bounds, core.literals, core.blocks)


def enumerate_components(core: Core, labels: NDArray[np.int64], max_combinations: int) -> NDArray[np.int64]:
    """The optimal option of each block in small components: int64 [b]; UNSOLVED in the others.

    core: The core.
    labels: int64 [b], the component of each block, from ``components``.
    max_combinations: The largest number of option combinations of a component that is enumerated.

    Source: the loopless reflected mixed-radix Gray code (Knuth, The Art of Computer Programming 4A, 7.2.1.1,
    Algorithm H): each step changes one block, and costs the clauses of its two options.
    """
    offsets, clause_of, of_negated = core.incidence()
    return _enumerate(
        core.bounds,
        core.gains,
        core.clause_bounds,
        core.literals,
        core.negated,
        core.weights,
        offsets,
        clause_of,
        of_negated,
        labels,
        max_combinations,
    )


@compiled
def _components(
    block_of: NDArray[np.int64], clause_bounds: NDArray[np.int64], literals: NDArray[np.int32], blocks: int
) -> NDArray[np.int64]:
    parent = np.arange(blocks)
    for clause in range(clause_bounds.size - 1):
        first = block_of[literals[clause_bounds[clause]]]
        for index in range(clause_bounds[clause], clause_bounds[clause + 1]):
            first_root, second_root = first, block_of[literals[index]]
            while parent[first_root] != first_root:
                parent[first_root] = parent[parent[first_root]]
                first_root = parent[first_root]
            while parent[second_root] != second_root:
                parent[second_root] = parent[parent[second_root]]
                second_root = parent[second_root]
            parent[max(first_root, second_root)] = min(first_root, second_root)
    labels, count = np.empty(blocks, dtype=np.int64), 0
    for block in range(blocks):
        if parent[block] == block:
            labels[block] = count
            count += 1
        else:
            labels[block] = labels[parent[block]]  # A parent has a smaller number than its children.
    return labels


@compiled
def _worth(
    option: int,
    open_literals: NDArray[np.int32],
    gains: NDArray[np.int64],
    weights: NDArray[np.int64],
    offsets: NDArray[np.int64],
    clause_of: NDArray[np.int32],
    negated: NDArray[np.bool_],
) -> int:
    """What picking an option adds to the objective, in a block without a picked option."""
    worth = int(gains[option])
    for entry in range(offsets[option], offsets[option + 1]):
        clause = clause_of[entry]
        if open_literals[clause] == (0 if negated[entry] else 1):
            worth += -weights[clause] if negated[entry] else weights[clause]
    return worth


@compiled
def _pick(
    option: int,
    step: int,
    open_literals: NDArray[np.int32],
    offsets: NDArray[np.int64],
    clause_of: NDArray[np.int32],
    negated: NDArray[np.bool_],
) -> None:
    """Picks an option (step -1) or takes it back (step 1) in the counts of literals that do not hold."""
    for entry in range(offsets[option], offsets[option + 1]):
        open_literals[clause_of[entry]] += -step if negated[entry] else step


@compiled
def _enumerate(
    bounds: NDArray[np.int64],
    gains: NDArray[np.int64],
    clause_bounds: NDArray[np.int64],
    literals: NDArray[np.int32],
    negated: NDArray[np.bool_],
    weights: NDArray[np.int64],
    offsets: NDArray[np.int64],
    clause_of: NDArray[np.int32],
    of_negated: NDArray[np.bool_],
    labels: NDArray[np.int64],
    max_combinations: int,
) -> NDArray[np.int64]:
    blocks = labels.size
    count = labels.max() + 1 if blocks > 0 else 0
    combinations, starts = np.ones(count, dtype=np.int64), np.zeros(count + 1, dtype=np.int64)
    for block in range(blocks):
        starts[labels[block] + 1] += 1
        if combinations[labels[block]] <= max_combinations:
            combinations[labels[block]] *= bounds[block + 1] - bounds[block]
    for label in range(count):
        starts[label + 1] += starts[label]
    next_member, members = starts[:-1].copy(), np.empty(blocks, dtype=np.int64)
    open_literals = np.zeros(weights.size, dtype=np.int32)
    for clause in range(weights.size):
        for literal in range(clause_bounds[clause], clause_bounds[clause + 1]):
            open_literals[clause] += 0 if negated[literal] else 1
    for block in range(blocks):
        members[next_member[labels[block]]] = block
        next_member[labels[block]] += 1
        _pick(bounds[block], -1, open_literals, offsets, clause_of, of_negated)
    best = np.full(blocks, -1, dtype=np.int64)
    current, direction = bounds[:-1].copy(), np.ones(blocks, dtype=np.int64)
    focus = np.empty(blocks + 1, dtype=np.int64)
    for label in range(count):
        if combinations[label] > max_combinations:
            continue
        size = starts[label + 1] - starts[label]
        component_blocks = members[starts[label] : starts[label + 1]]
        focus[: size + 1] = np.arange(size + 1)
        value, best_value = 0, 0
        best[component_blocks] = current[component_blocks]
        while True:
            digit = focus[0]
            focus[0] = 0
            if digit == size:
                break
            block = component_blocks[digit]
            before, after = current[block], current[block] + direction[block]
            _pick(before, 1, open_literals, offsets, clause_of, of_negated)
            value -= _worth(before, open_literals, gains, weights, offsets, clause_of, of_negated)
            value += _worth(after, open_literals, gains, weights, offsets, clause_of, of_negated)
            _pick(after, -1, open_literals, offsets, clause_of, of_negated)
            current[block] = after
            if after == bounds[block] or after == bounds[block + 1] - 1:
                direction[block] = -direction[block]
                focus[digit] = focus[digit + 1]
                focus[digit + 1] = digit + 1
            if value > best_value:
                best_value = value
                best[component_blocks] = current[component_blocks]
    return best
