"""The oracle of the dual family: exact where an objective reduces to little, annealing and bounds where it does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.oracles.anneal import Annealing
from dpcore.oracles.clauses import SignedClauses
from dpcore.oracles.components import UNSOLVED, components, enumerated
from dpcore.oracles.core import Core
from dpcore.oracles.dual_ascent import ascended, started
from dpcore.oracles.min_cut import min_cut
from dpcore.oracles.mip import Highs
from dpcore.oracles.persistency import reduced
from dpcore.oracles.protocol import BestResponse
from dpcore.oracles.ties import Blocks, blocks_of, settled

_DUAL_STEPS = 4  # Between them the picks are looked at, and the gap.
_DUAL_SWEEPS = 5
_ANNEALING_WORK = 20_000_000  # Most sweeps times literals, however large a core is.


@final
@dataclass(frozen=True)
class BestResponseOracle:
    """Reductions, components, and for each what is cheapest there; ties by the preferences at the end.

    1. Dominance to a fixpoint (``persistency``): with about as many samples as columns that decides nearly everything.
    2. Components of what is left: tried one by one where there are few picks, a minimum cut where the signs allow it.
    3. On the rest a dual bound with picks read off it, until the gap is within the tolerance; then annealing; then,
       where nodes are allowed, the linear relaxation (accepted when integral) and branch and bound from the best record.

    tolerance: Gap that is left alone, as a fraction of the sampled weight that merging leaves, so a smaller one of the
        samples. Theorem 4.6 of DualQuery asks for alpha / 4: with nodes enough, ``bound`` proves it.
    node_limit: Most nodes of branch and bound; 0 for neither these nor the simplex. Work is counted, never timed.
    sweeps: Of annealing.
    picks: Most picks of a component that are tried one by one.
    """

    tolerance: float = 0.0
    node_limit: int = 1000
    sweeps: int = 60
    picks: int = 1 << 12

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

    def _solved(
        self, core: Core, preferences: NDArray[np.float64], allowed: float
    ) -> tuple[NDArray[np.int64], int]:
        """Picks, and how much more any others can have."""
        if core.blocks == 0:
            return np.empty(0, dtype=np.int64), 0
        labels = components(core)
        picks = enumerated(core, labels, self.picks)
        for label in np.unique(labels[picks == UNSOLVED]):
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

    def _searched(
        self, core: Core, preferences: NDArray[np.float64], allowed: float
    ) -> tuple[NDArray[np.int64], int]:
        """Picks and their gap, where nothing but search is left."""
        clauses = core.as_clauses()
        options = len(core.columns)
        liked = np.append(preferences, np.zeros(clauses.view.columns - options))
        blocks = blocks_of(clauses, liked)
        best, value, bound = np.empty(0, dtype=np.bool_), 0, 0
        deltas = started(core)
        for step in range(_DUAL_STEPS):
            bound, picks, deltas = ascended(core, deltas, _DUAL_SWEEPS)
            used = _improved(clauses, blocks, np.append(picks, np.arange(options, clauses.view.columns)), liked)
            if step == 0 or clauses.value(used) > value:
                best, value = used, clauses.value(used)
            if bound - value <= allowed:
                break
        if bound - value > allowed:
            sweeps = max(1, min(self.sweeps, _ANNEALING_WORK // len(core.literals)))
            other = Annealing(sweeps).respond(clauses, liked)
            if other.value > value:
                best, value = other.record, other.value
        if bound - value > allowed and self.node_limit:
            proved = Highs(self.node_limit, allowed / float(np.abs(clauses.weights).sum())).respond_from(
                clauses, liked, best
            )
            best, value, bound = proved.record, proved.value, min(bound, proved.bound)
        return np.flatnonzero(best[:options]), bound - value


def _options(core: Core, blocks: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The options of some blocks, in the order in which ``Core.part`` numbers them."""
    return np.flatnonzero(np.repeat(blocks, np.diff(core.bounds)))


def _improved(
    clauses: SignedClauses, blocks: Blocks, chosen: NDArray[np.int64], preferences: NDArray[np.float64]
) -> NDArray[np.bool_]:
    return settled(clauses, blocks, chosen, preferences)[0]
