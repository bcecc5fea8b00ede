"""Predicted CPU seconds of mechanisms that fit a model, from public facts alone.

The seconds of a kind of step follow from the constants of ``fitting.work`` and from those below. How many steps a run
takes depends on noisy values: the numbers here are the geometric middle of what was seen on generated and real tables
(``dpcore/decisions/work.md``), so that a run on another table takes half to twice the predicted time in most cases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, final

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.work import SECONDS_PER_UNIT, UNIT, FitCosts
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree

# Cells that an oracle call reads, in cells of the tree: twice each, and more for nodes that hold many marginals.
_READS: Final = (2.0, 1.65, 15.0)
_SWEPT_CELLS: Final = 1 << 18  # From this size on, fits sweep.
# Selected marginals: per attribute at least, as a part of the candidates, and per attribute at most.
_SELECTED: Final = (2.5, 1 / 8, 6.0)
_LARGE: Final = 1e4  # Cells of a selected marginal on average, at most: large ones are rarely selected.
_SETUP: Final = (4e-4, 1.7e-7)  # Seconds per measured component, and per pair of a component and a marginal.
_CHOICE: Final = (0.3, 9e-6, 1.1e-7)  # Of a choice: in any case, per candidate and selected one, and per cell.
# Of a round's scores: in any case, per candidate, per cell of the candidates, and per cell that the model reads.
_SCORING: Final = (0.02, 1.5e-4, 6e-8, 6e-9)
_ANSWERS: Final = (6e-4, 5e-8, 5e-8)  # Of answers: per marginal, per cell of an answer, and per cell of the model.
_MAX_ATTRIBUTES: Final = 200  # With more, a tree of all marginals takes long, and hardly ever fits.
_START: Final = 0.4  # Seconds of any run: first calls of the kernel, and the model of the one-way marginals.
_LONG: Final = 600.0  # Seconds of choices and answers that a plan warns of.


@final
@dataclass(frozen=True)
class Effort:
    """The steps of one fit: calls of the marginal oracle without sweeps, or with some sweeps."""

    calls: int
    sweeps: int
    calls_beside_sweeps: int


LEARNING: Final = Effort(30, 0, 30)
"""The fits from which the scales of a prior are learnt."""
FROM_NOTHING: Final = Effort(120, 20, 6)
"""A fit that starts from independent attributes, close to the optimum."""
OF_PRODUCTS: Final = Effort(300, 0, 300)
"""The same fit of products, such as ranges, which must come closer to the optimum and has no sweeps."""
ROUGH: Final = Effort(45, 8, 2)
"""A fit that starts from independent attributes, less close."""
IN_A_ROUND: Final = Effort(8, 2, 2)
"""A fit that starts from that of the last round."""


@final
@dataclass(frozen=True)
class FitShape:
    """The size of a fit.

    cells: Cells of the junction tree.
    nodes: Its nodes.
    marginals: Number of marginals, without those inside another.
    components: Number of measured components of marginals.
    rows: Cells of those components together.
    """

    cells: float
    nodes: int
    marginals: float
    components: float
    rows: float

    @classmethod
    def of_cliques(cls, domain: Domain, cliques: Sequence[Clique], cells: float, nodes: int) -> FitShape:
        """The fit of given marginals. cells, nodes: Of their junction tree."""
        subsets = {
            part for clique in cliques for size in range(1, len(clique) + 1) for part in combinations(clique, size)
        }
        return cls(cells, nodes, len(cliques), len(subsets), sum(map(domain.size, subsets)))

    @classmethod
    def of_selection(cls, domain: Domain, candidates: Sequence[Clique], cells: float) -> FitShape:
        """The fit of marginals that will be selected. cells: Of the largest junction tree that they may have."""
        attributes = len({name for clique in candidates for name in clique})
        marginals = selected_of(len(candidates), attributes)
        mean_cells = sum(map(domain.size, candidates)) / max(1, len(candidates))
        return cls(cells, attributes, marginals, attributes + 1.5 * marginals, marginals * min(mean_cells, _LARGE))

    @property
    def costs(self) -> FitCosts:
        """The costs of the steps of the fit."""
        reads = reads_of(self.cells, self.nodes, self.marginals)
        sweeps = self.cells >= _SWEPT_CELLS
        parts = self.components * 2 + 3 * self.marginals if sweeps else 0
        return FitCosts.of(
            int(reads), int(self.rows), int(self.components), int(parts), int(self.rows if sweeps else 0)
        )

    def reads(self, effort: Effort) -> float:
        """The work of a fit, in reads."""
        costs = self.costs
        if self.cells < _SWEPT_CELLS or not effort.sweeps:
            return effort.calls * costs.call
        return effort.sweeps * costs.sweep + effort.calls_beside_sweeps * costs.call

    @property
    def setup_seconds(self) -> float:
        """Seconds to prepare the fit."""
        each, pair = _SETUP
        return each * self.components + pair * self.components * self.marginals


def small_tree(domain: Domain, cliques: Sequence[Clique], max_cells: float) -> JunctionTree | None:
    """The junction tree of all cliques; None if it would have more than ``max_cells`` cells, or many attributes."""
    if len({name for clique in cliques for name in clique}) > _MAX_ATTRIBUTES:
        return None
    tree = JunctionTree.of(domain, cliques)
    return tree if tree.cells <= max_cells else None


def selected_of(candidates: int, attributes: int) -> float:
    """About how many marginals a choice selects."""
    least, part, most = _SELECTED
    return min(candidates, most * attributes, max(least * attributes, part * candidates))


def choice_seconds(candidates: int, attributes: int, cells: int) -> float:
    """Seconds to choose a batch. cells: Cells of all candidates."""
    always, per_pair, per_cell = _CHOICE
    return always + per_pair * candidates * selected_of(candidates, attributes) + per_cell * cells


def scoring_reads(candidates: int, cells: int, model_reads: float) -> float:
    """The work of scoring all candidates of a round once, in reads.

    cells: Of all candidates.
    model_reads: Cells that a call of the marginal oracle of the model reads (``reads_of``).
    """
    always, each, per_cell, per_read = _SCORING
    return (always + each * candidates + per_cell * cells + per_read * model_reads) * UNIT / SECONDS_PER_UNIT


def reads_of(cells: float, nodes: int, marginals: float) -> float:
    """About how many cells a call of the marginal oracle reads, for a tree of some cells and nodes."""
    twice, more, most = _READS
    return cells * (twice + min(most, more * math.sqrt(marginals / max(1, nodes))))


def answer_seconds(marginals: int, cells: int, model_cells: float) -> float:
    """Seconds to answer a workload. cells: Cells of all answers."""
    each, per_cell, per_model_cell = _ANSWERS
    return each * marginals + per_cell * cells + per_model_cell * model_cells


def run_seconds(fits: float, other: float, max_work: float) -> float:
    """Predicted CPU seconds of a run.

    fits: Work of all fits, in reads, as far as no limit ends them.
    other: Seconds of everything else, which no limit ends.
    max_work: The limit of the fits, in units.
    """
    return _START + other + SECONDS_PER_UNIT * min(fits / UNIT, max_work)


def limit_notes(fits: float, other: float, max_work: float) -> tuple[str, ...]:
    """Notes of a plan whose limit probably ends a fit, or whose choices and answers take long without one.

    fits, other, max_work: As in ``run_seconds``.
    """
    notes: list[str] = []
    if fits / UNIT > max_work:
        notes.append(
            f"the fits would do about {fits / UNIT:,.0f} units of work, and mechanism.max_work ends them at "
            f"{max_work:g}: answers may have more error than with a larger limit"
        )
    if other > _LONG:
        notes.append(
            f"choices and answers take about {other:,.0f} CPU seconds, which no limit ends; a smaller workload takes "
            "less"
        )
    return tuple(notes)
