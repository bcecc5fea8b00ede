"""The best response by simulated annealing, for thousands of objectives that differ only in their gains."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.oracles.annealing.moves import anneal
from dpcore.oracles.clauses import SignedClauses
from dpcore.oracles.coordinate_ascent import NONE, Blocks, blocks_of, improved_record
from dpcore.oracles.protocol import BestResponse

# The first and last temperature, in units of the mean absolute clause weight.
_MAX_TEMPERATURE: Final = 2.0
_MIN_TEMPERATURE: Final = 0.2
_THREADS: Final = min(8, os.cpu_count() or 1)  # The number of threads changes the run time, never a response.


@final
@dataclass(frozen=True)
class Annealing:
    """Simulated annealing with heat-bath moves of single blocks, and moves that satisfy a whole clause.

    A block is a one-hot group or a column outside the groups. The best state is improved until neither a change of one
    block nor satisfying one clause of positive weight raises the objective. Random numbers come from a counter, so the
    same input gives the same response. The bound is only the sum of positive weights and gains.

    sweeps: The number of visits to each block, >= 1. The work is proportional to sweeps times literals.
    restarts: The number of runs with different random numbers, >= 1; the best one is kept.
    """

    sweeps: int = 200
    restarts: int = 1

    def __post_init__(self) -> None:
        if self.sweeps < 1 or self.restarts < 1:
            raise ValueError(f"sweeps {self.sweeps}, restarts {self.restarts}; want both >= 1")

    def respond(self, clauses: SignedClauses, preferences: NDArray[np.float64]) -> BestResponse:
        """The response; see ``Oracle``."""
        blocks = blocks_of(clauses, preferences)
        none_gains = np.zeros((1, len(blocks.spare)), dtype=np.int64)
        chosen = self._anneal(clauses, blocks, clauses.gains[None], none_gains, 0)
        used, record = improved_record(clauses, blocks, chosen[0], preferences)
        return BestResponse(record, clauses.value(used), _bound(clauses, blocks))

    def respond_many(self, clauses: SignedClauses, perturbations: NDArray[np.int64], seed: int) -> NDArray[np.bool_]:
        """A record for each perturbation, with a large objective plus perturbations of its columns that are 1.

        clauses: The objective.
        perturbations: int64 [s, view.columns], added to ``clauses.gains``.
        seed: The seed of the search's random numbers, 0 <= seed < 2^63.

        Returns bool [s, view.columns]. Columns that no clause names follow the perturbations alone; the first of equal
        ones is chosen.
        """
        view = clauses.view
        occurs = np.zeros(view.columns, dtype=np.bool_)
        occurs[clauses.columns] = True
        blocks = blocks_of(clauses, np.zeros(view.columns))
        groups_of_blocks = view.group_of_column()[clauses.columns[blocks.bounds[:-1]]]
        spare, spare_gains = _best_spares(clauses, occurs, perturbations)
        gains = perturbations[:, clauses.columns] + clauses.gains
        chosen = self._anneal(clauses, blocks, gains, spare_gains[:, groups_of_blocks], seed)
        records = np.zeros(perturbations.shape, dtype=np.bool_)
        if view.groups:
            spare[:, groups_of_blocks] = np.where(chosen == NONE, spare[:, groups_of_blocks], clauses.columns[chosen])
            np.put_along_axis(records, spare, True, axis=1)
        else:
            records[:, ~occurs] = perturbations[:, ~occurs] > 0
            records[:, clauses.columns] = chosen != NONE
        return records

    def _anneal(
        self, clauses: SignedClauses, blocks: Blocks, gains: NDArray[np.int64], none_gains: NDArray[np.int64], seed: int
    ) -> NDArray[np.int64]:
        """A position in ``clauses.columns``, or NONE, for each sample and block: int64 [s, b].

        gains: int64 [s, n], which replace the gains of the clauses.
        none_gains: int64 [s, b], the gain of "none" in each block.
        seed: The seed of the random numbers.
        """
        # The options of a block are "none", if it is allowed, and then its columns.
        block_of_column = np.repeat(np.arange(len(blocks.spare)), np.diff(blocks.bounds))
        option_of_column = np.arange(len(clauses.columns)) + np.cumsum(blocks.none_allowed)[block_of_column]
        bounds = blocks.bounds + np.append(0, np.cumsum(blocks.none_allowed))
        none_options = bounds[:-1][blocks.none_allowed]
        column_of_option = np.full(bounds[-1], NONE, dtype=np.int64)
        column_of_option[option_of_column] = np.arange(len(clauses.columns))
        option_gains = np.empty((len(gains), bounds[-1]), dtype=np.int64)
        option_gains[:, option_of_column], option_gains[:, none_options] = gains, none_gains[:, blocks.none_allowed]
        literals = 2 * option_of_column[clauses.literals] + clauses.negated
        flat = literals.ravel()
        order = np.argsort(flat >> 1, kind="stable")
        chosen_options = np.empty((len(gains), len(blocks.spare)), dtype=np.int64)
        shared = (
            bounds,
            np.repeat(np.arange(len(blocks.spare)), np.diff(bounds)),
            literals,
            clauses.weights,
            np.searchsorted(flat[order] >> 1, np.arange(bounds[-1] + 1)),
            2 * (order // max(1, literals.shape[1])) + (flat[order] & 1),
            _temperatures(clauses, self.sweeps),
            self.restarts,
            seed,
        )

        def anneal_rows(start: int, stop: int) -> None:
            anneal(chosen_options[start:stop], option_gains[start:stop], *shared, start)

        pieces = np.linspace(0, len(gains), min(_THREADS, len(gains)) + 1).astype(int).tolist()
        if len(pieces) == 2:
            anneal_rows(*pieces)
        else:
            with ThreadPoolExecutor(len(pieces) - 1) as pool:
                for future in [pool.submit(anneal_rows, *piece) for piece in pairwise(pieces)]:
                    future.result()
        return column_of_option[chosen_options]


def _temperatures(clauses: SignedClauses, sweeps: int) -> NDArray[np.float64]:
    unit = float(np.abs(clauses.weights).mean()) if clauses.weights.size else 1.0
    return unit * np.geomspace(_MAX_TEMPERATURE, _MIN_TEMPERATURE, sweeps)


def _best_spares(
    clauses: SignedClauses, occurs: NDArray[np.bool_], perturbations: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The unnamed column of largest perturbation in each group, and its perturbation: int64 [s, groups].

    They are NONE and 0 if every column is named. Without groups both are zeros, int64 [s, columns], because "none" has
    no gain.
    """
    view = clauses.view
    if not view.groups:
        return (np.zeros(perturbations.shape, dtype=np.int64),) * 2
    lowest = np.iinfo(np.int64).min
    free = np.where(occurs, lowest, perturbations)
    columns = np.stack([free[:, start:stop].argmax(axis=1) + start for start, stop in view.groups], axis=1)
    values = np.take_along_axis(free, columns, axis=1)
    return np.where(values == lowest, NONE, columns), np.where(values == lowest, 0, values)


def _bound(clauses: SignedClauses, blocks: Blocks) -> int:
    """An upper bound on the objective: all positive weights and the largest gain of each block."""
    best = np.maximum.reduceat(clauses.gains, blocks.bounds[:-1]) if len(blocks.spare) else np.zeros(0, dtype=np.int64)
    best = np.where(blocks.none_allowed, np.maximum(best, 0), best)
    return clauses.constant + int(clauses.weights[clauses.weights > 0].sum()) + int(best.sum())
