"""The oracle of the dual family: exact where an objective reduces to little, annealing and bounds where it does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.oracles.annealing.anneal import Annealing
from dpcore.oracles.clauses import SignedClauses
from dpcore.oracles.coordinate_ascent import Blocks, blocks_of, settled
from dpcore.oracles.exact.components import UNSOLVED, components, enumerated
from dpcore.oracles.exact.core import Core
from dpcore.oracles.exact.dual_ascent import ascended, started
from dpcore.oracles.exact.min_cut import min_cut
from dpcore.oracles.exact.mip import Highs
from dpcore.oracles.exact.persistency import reduced
from dpcore.oracles.protocol import BestResponse

_DUAL_SWEEPS = 5  # Of one step; between steps the picks are looked at, and the gap.
_FIRST_STEPS = 4
_FURTHER_STEPS = 20
_CUTS = 32  # Most components that a cut is tried on; the others are searched together.
_ANNEALING_WORK = (100_000, 20_000_000)  # Sweeps times literals: small cores get restarts, large ones fewer sweeps.


@final
@dataclass(frozen=True)
class BestResponseOracle:
    """Reductions, components, and for each what is cheapest there; ties by the preferences at the end.

    1. Dominance to a fixpoint (``persistency``): with about as many samples as columns that decides nearly everything.
    2. Components of what is left: tried one by one where there are few picks, a minimum cut where the signs allow it.
    3. On the rest a dual bound with picks read off it, until the gap is within the tolerance; then annealing; then,
       where nodes are allowed, the linear relaxation (accepted when integral) and branch and bound from the best found.

    tolerance: Gap that is left alone, as a fraction of the sampled weight that merging leaves, so a smaller one of the
        samples. Theorem 4.6 of DualQuery asks for alpha / 4: with nodes enough, ``bound`` proves it.
    node_limit: Most nodes of branch and bound; 0 for neither these nor the simplex. Work is counted, never timed.
    sweeps: Of annealing.
    picks: Most picks of a component that are tried one by one, at some 20 ns each.
    """

    tolerance: float = 0.0
    node_limit: int = 1000
    sweeps: int = 60
    picks: int = 1 << 16

    def __post_init__(self) -> None:
        if not (self.tolerance >= 0 and self.node_limit >= 0 and self.sweeps >= 1 and self.picks >= 1):
            raise ValueError(
                f"tolerance {self.tolerance}, node_limit {self.node_limit}, sweeps {self.sweeps}, picks {self.picks}; "
                "want tolerance and node_limit >= 0, the others >= 1"
            )

    def respond(self, clauses: SignedClauses, preferences: NDArray[np.float64]) -> BestResponse:
        """The response; see ``Oracle``."""
        blocks = blocks_of(clauses, preferences)
        reduction = reduced(clauses)
        core = reduction.core
        none = blocks.none_preference[reduction.open_blocks]
        allowed = self.tolerance * float(np.abs(clauses.weights).sum())
        picks, gap = self._solved(core, core.preferences(preferences[clauses.columns], none), allowed)
        bound = reduction.constant + core.value(picks) + gap
        used, record = settled(clauses, blocks, reduction.completed(picks), preferences)
        return BestResponse(record, clauses.value(used), bound)

    def _solved(self, core: Core, preferences: NDArray[np.float64], allowed: float) -> tuple[NDArray[np.int64], int]:
        """Picks, and how much more any others can have."""
        if core.blocks == 0:
            return np.empty(0, dtype=np.int64), 0
        labels = components(core)
        picks = enumerated(core, labels, self.picks)
        for label in np.unique(labels[picks == UNSOLVED])[:_CUTS]:
            inside = labels == label
            cut = min_cut(core.part(inside))
            if cut is not None:
                picks[inside] = _options(core, inside)[cut]
        hard = picks == UNSOLVED
        if not hard.any():
            return picks, 0
        options = np.repeat(hard, np.diff(core.bounds))
        found, gap = self._searched(core.part(hard), preferences[options], allowed)
        picks[hard] = _options(core, hard)[found]
        return picks, gap

    def _searched(self, core: Core, preferences: NDArray[np.float64], allowed: float) -> tuple[NDArray[np.int64], int]:
        """Picks and their gap, where nothing but search is left."""
        problem = _Problem.of(core, preferences)
        clauses = problem.clauses
        best, bound, deltas = _climbed(problem, None, None, started(core), _FIRST_STEPS, allowed)
        if bound - clauses.value(best) > allowed:
            least, most = _ANNEALING_WORK
            sweeps = max(1, min(self.sweeps, most // len(core.literals)))
            restarts = max(1, least // (sweeps * len(core.literals)))
            annealed = Annealing(sweeps, restarts).respond(clauses, problem.preferences)
            if annealed.value > clauses.value(best):
                best = annealed.record
        if bound - clauses.value(best) > allowed and self.node_limit:
            best, bound, _ = _climbed(problem, best, bound, deltas, _FURTHER_STEPS, allowed)
        if bound - clauses.value(best) > allowed and self.node_limit:
            tolerance = allowed / float(np.abs(clauses.weights).sum())
            proved = Highs(self.node_limit, tolerance).respond_from(clauses, problem.preferences, best)
            best, bound = proved.record, min(bound, proved.bound)
        return np.flatnonzero(best[: len(core.columns)]), bound - clauses.value(best)


@dataclass(frozen=True, eq=False)
class _Problem:
    """A core as every oracle understands it; a record's first columns are the core's options, the others always 1."""

    core: Core
    clauses: SignedClauses
    blocks: Blocks
    preferences: NDArray[np.float64]

    @classmethod
    def of(cls, core: Core, preferences: NDArray[np.float64]) -> _Problem:
        clauses = core.as_clauses()
        liked = np.append(preferences, np.zeros(clauses.view.columns - len(core.columns)))
        return cls(core, clauses, blocks_of(clauses, liked), liked)

    def improved(self, picks: NDArray[np.int64]) -> NDArray[np.bool_]:
        """A record from picks that no change of one block improves."""
        padding = np.arange(len(self.core.columns), self.clauses.view.columns)
        return settled(self.clauses, self.blocks, np.append(picks, padding), self.preferences)[0]


def _climbed(
    problem: _Problem,
    best: NDArray[np.bool_] | None,
    bound: int | None,
    deltas: NDArray[np.float64],
    steps: int,
    allowed: float,
) -> tuple[NDArray[np.bool_], int, NDArray[np.float64]]:
    """The best record and bound after steps of the dual ascent, no worse than those before, and the deltas."""
    for _ in range(steps):
        found, picks, deltas = ascended(problem.core, deltas, _DUAL_SWEEPS)
        bound = found if bound is None else min(bound, found)
        used = problem.improved(picks)
        if best is None or problem.clauses.value(used) > problem.clauses.value(best):
            best = used
        if bound - problem.clauses.value(best) <= allowed:
            break
    assert best is not None
    assert bound is not None
    return best, bound, deltas


def _options(core: Core, blocks: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The options of some blocks, in the order in which ``Core.part`` numbers them."""
    return np.flatnonzero(np.repeat(blocks, np.diff(core.bounds)))
