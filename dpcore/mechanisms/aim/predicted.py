"""The CPU seconds that a run of AIM will take, predicted from public facts."""

from __future__ import annotations

from typing import Final

from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.mechanisms.aim.candidates import RoundCandidates
from dpcore.mechanisms.shared.pgm_common import CELLS_IN_MB
from dpcore.mechanisms.shared.predicted_seconds import (
    FROM_NOTHING,
    IN_A_ROUND,
    OF_PRODUCTS,
    ROUGH,
    FitShape,
    answer_seconds,
    choice_seconds,
    limit_notes,
    reads_of,
    run_seconds,
    scoring_reads,
    small_tree,
)
from dpcore.queries import Products

_ROUNDS_AFTER_BATCH: Final = 7  # Rounds end when they no longer change the model: 1 to 40, more for more rows.
_ROUNDS_PER_ATTRIBUTE: Final = 2  # Without a batch, where the share of a round grows.
# Seconds of the intervals of marginals that were not measured: per marginal and cell of the model, growing with the
# number of attributes, and per cell of a candidate.
_INTERVALS: Final = 1e-9
_ATTRIBUTES: Final = 17
_WIDE: Final = 1.5e-7
_USED: Final = 0.65  # Part of ``max_model_mb`` that a model takes which could be larger.


def scoring_work(candidates: RoundCandidates, tree: JunctionTree, marginals: int) -> float:
    """The work of scoring all candidates of a round by a model, in reads.

    tree: The junction tree of the model.
    marginals: Number of marginals that were measured.
    """
    model_reads = reads_of(tree.cells, len(tree.nodes), marginals)
    return scoring_reads(len(candidates.cliques), candidates.cells, model_reads)


def predicted_seconds(
    candidates: RoundCandidates, max_model_mb: float, max_work: float, has_batch: bool, max_rounds: int
) -> tuple[float, tuple[str, ...]]:
    """CPU seconds of a run, and notes about its limit.

    candidates: All candidates of the run.
    max_model_mb, max_work: The settings of the mechanism.
    has_batch: Whether a batch of marginals is chosen before the rounds.
    max_rounds: The largest number of rounds.
    """
    cliques, attributes = candidates.cliques, len(candidates.domain.names)
    max_cells = max_model_mb * CELLS_IN_MB
    tree = small_tree(candidates.domain, cliques, max_cells)
    if tree is not None:
        asked = [clique for clique, is_asked in zip(cliques, candidates.requested.tolist(), strict=True) if is_asked]
        shape = FitShape.of_cliques(candidates.domain, asked, tree.cells, len(tree.nodes))
    else:
        shape = FitShape.of_selection(candidates.domain, cliques, _USED * max_cells)
    model_reads = reads_of(shape.cells, shape.nodes, shape.marginals)
    rounds = min(max_rounds, _ROUNDS_AFTER_BATCH if has_batch else _ROUNDS_PER_ATTRIBUTE * attributes)
    scoring = rounds * scoring_reads(len(cliques), candidates.cells, model_reads)
    fits = shape.reads(ROUGH) + shape.reads(FROM_NOTHING) + rounds * shape.reads(IN_A_ROUND) + scoring
    if tree is not None and isinstance(candidates.queries, Products):  # Mostly measured at once.
        rounds, fits = 0, shape.reads(OF_PRODUCTS)
    other = (rounds + 2) * shape.setup_seconds
    answered = int(candidates.requested.sum())
    other += 2 * answer_seconds(answered, candidates.cells, shape.cells)
    other += (
        0.0 if tree else _INTERVALS * answered * shape.cells * (1 + attributes / _ATTRIBUTES) + _WIDE * candidates.cells
    )
    if has_batch:
        other += choice_seconds(len(cliques), attributes, candidates.cells)
    return run_seconds(fits, other, max_work), limit_notes(fits, other, max_work)
