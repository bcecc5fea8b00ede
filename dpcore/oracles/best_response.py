"""The best response to one objective: exact reductions first, then bounds, annealing and branch and bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.oracles.annealing.anneal import Annealing
from dpcore.oracles.clauses import SignedClauses
from dpcore.oracles.coordinate_ascent import Blocks, blocks_of, improved_record
from dpcore.oracles.exact.components import UNSOLVED, components, enumerate_components
from dpcore.oracles.exact.core import Core
from dpcore.oracles.exact.dual_ascent import dual_ascent, initial_deltas
from dpcore.oracles.exact.min_cut import min_cut
from dpcore.oracles.exact.mip import Highs
from dpcore.oracles.exact.persistency import reduce_by_dominance
from dpcore.oracles.protocol import BestResponse

_DUAL_SWEEPS = 5  # Sweeps of the dual ascent per step; after each step the record and the gap are updated.
_FIRST_STEPS = 4
_FURTHER_STEPS = 20
_MAX_CUTS = 32  # Components on which a minimum cut is tried; the others are searched together.
_ANNEALING_WORK = (100_000, 20_000_000)  # Sweeps times literals: small cores get restarts, large ones fewer sweeps.


@final
@dataclass(frozen=True)
class BestResponseOracle:
    """Exact reductions, then the cheapest sufficient method for each component; preferences break ties at the end.

    1. Dominance to a fixpoint (``persistency``): with about as many samples as columns it decides nearly all columns.
    2. Components of the remaining core: enumeration if they are small, a minimum cut if their signs allow it.
    3. For the rest a dual bound, and the record that maximises it, until the gap is within the tolerance; then
       annealing; then, if nodes are allowed, the linear relaxation (accepted when integral) and branch and bound.

    tolerance: The gap at which the search ends, >= 0, as a fraction of the sum of absolute clause weights after
        merging. Theorem 4.6 of DualQuery requires alpha / 4 of the samples; with enough nodes ``bound`` proves it.
    node_limit: The largest number of nodes of branch and bound, >= 0; with 0 the linear relaxation is not solved
        either. It counts work, never seconds, so that responses can be reproduced.
    sweeps: The number of sweeps of annealing, >= 1.
    max_enumerated: The largest number of option combinations of a component that is enumerated, >= 1. Each combination
        takes about 20 ns.
    """

    tolerance: float = 0.0
    node_limit: int = 1000
    sweeps: int = 60
    max_enumerated: int = 1 << 16

    def __post_init__(self) -> None:
        if not (self.tolerance >= 0 and self.node_limit >= 0 and self.sweeps >= 1 and self.max_enumerated >= 1):
            raise ValueError(
                f"tolerance {self.tolerance}, node_limit {self.node_limit}, sweeps {self.sweeps}, max_enumerated "
                f"{self.max_enumerated}; want tolerance and node_limit >= 0, the others >= 1"
            )

    def respond(self, clauses: SignedClauses, preferences: NDArray[np.float64]) -> BestResponse:
        """The response; see ``Oracle``."""
        blocks = blocks_of(clauses, preferences)
        reduction = reduce_by_dominance(clauses)
        core = reduction.core
        none = blocks.none_preference[reduction.open_blocks]
        allowed = self.tolerance * float(np.abs(clauses.weights).sum())
        picks, gap = self._solve(core, core.preferences(preferences[clauses.columns], none), allowed)
        bound = reduction.constant + core.value(picks) + gap
        used, record = improved_record(clauses, blocks, reduction.completed(picks), preferences)
        return BestResponse(record, clauses.value(used), bound)

    def _solve(self, core: Core, preferences: NDArray[np.float64], allowed: float) -> tuple[NDArray[np.int64], int]:
        """The picked option of each block, and an upper bound on how much more any other picks can add."""
        if core.blocks == 0:
            return np.empty(0, dtype=np.int64), 0
        labels = components(core)
        picks = enumerate_components(core, labels, self.max_enumerated)
        for label in np.unique(labels[picks == UNSOLVED])[:_MAX_CUTS]:
            inside = labels == label
            cut = min_cut(core.part(inside))
            if cut is not None:
                picks[inside] = _options_of_blocks(core, inside)[cut]
        hard = picks == UNSOLVED
        if not hard.any():
            return picks, 0
        options = np.repeat(hard, np.diff(core.bounds))
        searched, gap = self._search(core.part(hard), preferences[options], allowed)
        picks[hard] = _options_of_blocks(core, hard)[searched]
        return picks, gap

    def _search(self, core: Core, preferences: NDArray[np.float64], allowed: float) -> tuple[NDArray[np.int64], int]:
        """The picked option of each block and the gap, for a core that no exact method solves cheaply."""
        problem = _CoreProblem.of(core, preferences)
        clauses = problem.clauses
        best, bound, deltas = _improve_by_dual(problem, None, None, initial_deltas(core), _FIRST_STEPS, allowed)
        if bound - clauses.value(best) > allowed:
            min_work, max_work = _ANNEALING_WORK
            sweeps = max(1, min(self.sweeps, max_work // len(core.literals)))
            restarts = max(1, min_work // (sweeps * len(core.literals)))
            annealed = Annealing(sweeps, restarts).respond(clauses, problem.preferences)
            if annealed.value > clauses.value(best):
                best = annealed.record
        if bound - clauses.value(best) > allowed and self.node_limit:
            best, bound, _ = _improve_by_dual(problem, best, bound, deltas, _FURTHER_STEPS, allowed)
        if bound - clauses.value(best) > allowed and self.node_limit:
            tolerance = allowed / float(np.abs(clauses.weights).sum())
            solved = Highs(self.node_limit, tolerance).respond_from(clauses, problem.preferences, best)
            best, bound = solved.record, min(bound, solved.bound)
        return np.flatnonzero(best[: len(core.columns)]), bound - clauses.value(best)


@dataclass(frozen=True, eq=False)
class _CoreProblem:
    """A core as an objective over records: the first columns are the core's options, the padding columns always 1.

    core: The core.
    clauses: Its objective.
    blocks: The choices of that objective.
    preferences: float64 [view.columns], which break ties.
    """

    core: Core
    clauses: SignedClauses
    blocks: Blocks
    preferences: NDArray[np.float64]

    @classmethod
    def of(cls, core: Core, preferences: NDArray[np.float64]) -> _CoreProblem:
        """The problem of a core; preferences: float64 [options], which break ties."""
        clauses = core.as_clauses()
        padded = np.append(preferences, np.zeros(clauses.view.columns - len(core.columns)))
        return cls(core, clauses, blocks_of(clauses, padded), padded)

    def improved(self, picks: NDArray[np.int64]) -> NDArray[np.bool_]:
        """The record from coordinate ascent that starts at the picked options."""
        padding = np.arange(len(self.core.columns), self.clauses.view.columns)
        return improved_record(self.clauses, self.blocks, np.append(picks, padding), self.preferences)[0]


def _improve_by_dual(
    problem: _CoreProblem,
    best: NDArray[np.bool_] | None,
    bound: int | None,
    deltas: NDArray[np.float64],
    steps: int,
    allowed: float,
) -> tuple[NDArray[np.bool_], int, NDArray[np.float64]]:
    """The best record and bound after steps of the dual ascent, no worse than the given ones, and the deltas.

    allowed: The gap at which the ascent ends.
    """
    for _ in range(steps):
        new_bound, picks, deltas = dual_ascent(problem.core, deltas, _DUAL_SWEEPS)
        bound = new_bound if bound is None else min(bound, new_bound)
        used = problem.improved(picks)
        if best is None or problem.clauses.value(used) > problem.clauses.value(best):
            best = used
        if bound - problem.clauses.value(best) <= allowed:
            break
    assert best is not None
    assert bound is not None
    return best, bound, deltas


def _options_of_blocks(core: Core, blocks: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The options of the marked blocks, in the order in which ``Core.part`` numbers them."""
    return np.flatnonzero(np.repeat(blocks, np.diff(core.bounds)))
