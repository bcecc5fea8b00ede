"""The arrays of the core that the exact reductions leave."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled


@compiled
def core_parts(
    chosen: NDArray[np.int64],
    bounds: NDArray[np.int64],
    dropped: NDArray[np.bool_],
    remaining: NDArray[np.int32],
    implied: NDArray[np.bool_],
    literals: NDArray[np.int32],
    negated: NDArray[np.bool_],
    weights: NDArray[np.int64],
    gains: NDArray[np.int64],
) -> tuple[
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.bool_],
    NDArray[np.int64],
]:
    """The fields of ``Core``, in order, for the open blocks and their remaining options, with "none" last.

    chosen: int64 [blocks], -2 where a block is open.
    bounds: int64 [blocks + 1], the columns of each block.
    dropped: bool [columns + blocks], the dropped choices, with "none" of each block behind the columns.
    remaining: int32 [c], the number of remaining literals of each clause; 0 where the clause is decided.
    implied: bool [c, k], or [1, 1] without groups: the literals that other literals of their clause imply.
    literals: int32 [c, k], the literals of the clauses; see ``SignedClauses``.
    negated: bool [c, k], whether each literal is negated.
    weights: int64 [c], the weight of each clause.
    gains: int64 [columns], what each column adds.
    """
    columns = gains.size
    blocks, options = 0, 0
    for block in range(chosen.size):
        if chosen[block] == -2:
            blocks += 1
            options += bounds[block + 1] - bounds[block] + 1
    option_of = np.full(columns if blocks > 0 else 0, -1, dtype=np.int32)
    core_bounds, column_of = np.zeros(blocks + 1, dtype=np.int64), np.empty(options, dtype=np.int64)
    core_gains = np.zeros(options, dtype=np.int64)
    blocks, options = 0, 0
    for block in range(chosen.size):
        if chosen[block] != -2:
            continue
        for column in range(bounds[block], bounds[block + 1]):
            if not dropped[column]:
                option_of[column] = options
                column_of[options], core_gains[options] = column, gains[column]
                options += 1
        if not dropped[columns + block]:
            column_of[options] = -1
            options += 1
        blocks += 1
        core_bounds[blocks] = options
    size, total = 0, 0
    for clause in range(remaining.size):
        size += remaining[clause] > 0
        total += remaining[clause]
    clause_bounds, core_weights = np.zeros(size + 1, dtype=np.int64), np.empty(size, dtype=np.int64)
    core_literals, core_negated = np.empty(total, dtype=np.int32), np.empty(total, dtype=np.bool_)
    size, total = 0, 0
    for clause in range(remaining.size):
        if remaining[clause] == 0:
            continue
        for literal in range(literals.shape[1]):
            option = option_of[literals[clause, literal]]
            if option < 0 or (implied.size > 1 and implied[clause, literal]):
                continue
            core_literals[total], core_negated[total] = option, negated[clause, literal]
            total += 1
        core_weights[size] = weights[clause]
        size += 1
        clause_bounds[size] = total
    return (
        core_bounds,
        column_of[:options],
        core_gains[:options],
        clause_bounds,
        core_literals,
        core_negated,
        core_weights,
    )
