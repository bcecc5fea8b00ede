"""The core of an objective: blocks with one picked option each, and clauses of any length over the options."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import BinaryView
from dpcore.oracles.clauses import SignedClauses
from dpcore.oracles.coordinate_ascent import NONE


@dataclass(frozen=True, eq=False)
class Core:
    """An objective to be maximised over the picks of one option in each block.

    The objective is the sum of the gains of the picked options and of the weights of the clauses that hold. A literal
    holds when its option is picked, and a negated literal when it is not. A clause holds when all of its literals do.

    bounds: int64 [b + 1], the bounds of each block's options; a block has at least two.
    columns: int64 [o], the position of each option in the objective's ``columns``; NONE for "none of them".
    gains: int64 [o], what picking each option adds.
    clause_bounds: int64 [c + 1], the bounds of each clause's literals; a clause has at least one.
    literals: int32 [l], the option of each literal; distinct within a clause.
    negated: bool [l], whether each literal is negated.
    weights: int64 [c], what each clause adds when it holds.
    """

    bounds: NDArray[np.int64]
    columns: NDArray[np.int64]
    gains: NDArray[np.int64]
    clause_bounds: NDArray[np.int64]
    literals: NDArray[np.int32]
    negated: NDArray[np.bool_]
    weights: NDArray[np.int64]

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return len(self.bounds) - 1

    def block_of_option(self) -> NDArray[np.int64]:
        """The block of each option, int64 [o]."""
        return np.repeat(np.arange(self.blocks), np.diff(self.bounds))

    def incidence(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.bool_]]:
        """The literals sorted by option: offsets, and for each literal its clause and whether it is negated.

        The literals of option o are at offsets[o]:offsets[o + 1].
        """
        return _incidence(self.clause_bounds, self.literals, self.negated, len(self.columns))

    def value(self, picks: NDArray[np.int64]) -> int:
        """The objective of a choice.

        picks: int64 [b], the picked option of each block.
        """
        picked = np.zeros(len(self.columns), dtype=np.bool_)
        picked[picks] = True
        return int(self.gains[picks].sum()) + _satisfied_weight(
            picked, self.clause_bounds, self.literals, self.negated, self.weights
        )

    def part(self, blocks: NDArray[np.bool_]) -> Core:
        """The core of some blocks and their clauses.

        blocks: bool [b], marks a union of components: no clause may have literals both inside and outside it.
        """
        options = np.repeat(blocks, np.diff(self.bounds))
        position = np.cumsum(options) - 1
        clauses = options[self.literals[self.clause_bounds[:-1]]]
        lengths = np.diff(self.clause_bounds)
        literals = np.repeat(clauses, lengths)
        return Core(
            _bounds(np.diff(self.bounds)[blocks]),
            self.columns[options],
            self.gains[options],
            _bounds(lengths[clauses]),
            position[self.literals[literals]].astype(np.int32),
            self.negated[literals],
            self.weights[clauses],
        )

    def as_clauses(self) -> SignedClauses:
        """The same objective over records with one one-hot group per block, whose columns are the options, in order.

        Clauses are padded to one length by literals of further groups of one column each, which always hold.
        """
        options, lengths = len(self.columns), np.diff(self.clause_bounds)
        longest = int(lengths.max(initial=1))
        padding = int(longest - lengths.min(initial=longest))
        stops = [*self.bounds[1:].tolist(), *range(options + 1, options + padding + 1)]
        view = BinaryView(stops[-1], tuple(zip([0, *stops[:-1]], stops, strict=True)))
        padding_index = np.arange(longest) - lengths[:, None]  # Negative for the clause's own literals.
        literals = np.where(padding_index >= 0, options + padding_index, 0).astype(np.int32)
        negated = np.zeros(literals.shape, dtype=np.bool_)
        literals[padding_index < 0], negated[padding_index < 0] = self.literals, self.negated
        gains = np.append(self.gains, np.zeros(padding, dtype=np.int64))
        columns = np.arange(stops[-1], dtype=np.int32)
        return SignedClauses(view, columns, literals, negated, self.weights, 0, gains)

    def preferences(
        self, column_preferences: NDArray[np.float64], none_preferences: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The preference of each option, float64 [o].

        column_preferences: float64 [n], the preferences of the objective's ``columns``.
        none_preferences: float64 [b], the preference of "none" in each block.
        """
        none = np.repeat(none_preferences, np.diff(self.bounds))
        return np.where(self.columns == NONE, none, column_preferences[self.columns])


def _bounds(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)])


@compiled
def _satisfied_weight(
    picked: NDArray[np.bool_],
    clause_bounds: NDArray[np.int64],
    literals: NDArray[np.int32],
    negated: NDArray[np.bool_],
    weights: NDArray[np.int64],
) -> int:
    total = 0
    for clause in range(weights.size):
        holds = True
        for index in range(clause_bounds[clause], clause_bounds[clause + 1]):
            holds = holds and picked[literals[index]] != negated[index]
        if holds:
            total += weights[clause]
    return total


@compiled
def _incidence(
    clause_bounds: NDArray[np.int64], literals: NDArray[np.int32], negated: NDArray[np.bool_], options: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.bool_]]:
    offsets = np.zeros(options + 1, dtype=np.int64)
    for option in literals:
        offsets[option + 1] += 1
    for option in range(options):
        offsets[option + 1] += offsets[option]
    next_entry = offsets[:-1].copy()
    clause_of, of_negated = np.empty(literals.size, dtype=np.int32), np.empty(literals.size, dtype=np.bool_)
    for clause in range(clause_bounds.size - 1):
        for literal in range(clause_bounds[clause], clause_bounds[clause + 1]):
            option = literals[literal]
            clause_of[next_entry[option]] = clause
            of_negated[next_entry[option]] = negated[literal]
            next_entry[option] += 1
    return offsets, clause_of, of_negated
