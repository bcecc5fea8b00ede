"""What a run of adaptive residuals costs, predicted from public facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from dpcore.errors import DomainTooLargeError
from dpcore.estimation.reconstruction.latent_classes import bytes_of_fit, reads_of_fit
from dpcore.estimation.reconstruction.sample_posterior import bytes_of_posterior, reads_of_posterior
from dpcore.estimation.reconstruction.shrunken import LARGEST_CLOSURE
from dpcore.estimation.reconstruction.weighted_mean import max_splits
from dpcore.mechanisms.shared.pgm_common import CELLS_IN_MB, COPIES, modelled_domain, uniform_note
from dpcore.mechanisms.shared.predicted_seconds import (
    FROM_NOTHING,
    LEARNING,
    ROUGH,
    FitShape,
    answer_seconds,
    limit_notes,
    run_seconds,
    small_tree,
)
from dpcore.queries import Marginals
from dpcore.workload import downward_closure

_MAX_CELLS: Final = 20_000_000  # Cells of all subsets of the marginals; each takes a few microseconds.
# Of the estimates and what they come from: for each cell, and for each subset of a marginal's attributes. Measured.
_BYTES_PER_CELL, _BYTES_PER_SUBSET = 160, 5_000
_SECONDS: Final = (0.1, 1.5e-3, 3e-6)  # CPU seconds of the estimates: in any case, per subset, and per cell.
_NEAREST: Final = 0.5  # CPU seconds of the nearest non-negative answers, as a part of those of the estimates.
_CHOICE: Final = 6e-4  # CPU seconds per subset, to choose what a model of bounded size holds.


class Cost(NamedTuple):
    """What estimates and models cost.

    reads: Work of all fits, in reads.
    seconds: CPU seconds of everything else.
    cells: Of the largest graphical model.
    notes: What a plan says of the models.
    class_bytes: Memory of the fit of a latent-class model.
    """

    reads: float
    seconds: float
    cells: float
    notes: tuple[str, ...] = ()
    class_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Memory of the models."""
        return int(COPIES * 8 * self.cells) + self.class_bytes

    def of_run(self, max_work: float) -> float:
        """Predicted CPU seconds; max_work limits the fits, in units."""
        return run_seconds(self.reads, self.seconds, max_work) if self.reads else self.seconds

    def limit_notes(self, max_work: float) -> tuple[str, ...]:
        """Notes of a plan whose fits the limit probably ends."""
        return limit_notes(self.reads, self.seconds, max_work) if self.reads else ()


def bytes_of_estimates(queries: Marginals) -> int:
    """Memory of the estimates. Raises ConfigError for too many subsets of the cliques, and DomainTooLargeError."""
    subsets = downward_closure(queries.cliques, LARGEST_CLOSURE)
    cells = sum(map(queries.domain.size, subsets))
    if cells > _MAX_CELLS:
        advice = "choose fewer or smaller marginals, or mechanism aim or clique_tree"
        raise DomainTooLargeError("the marginals of mechanism adaptive_residuals", cells, _MAX_CELLS, advice)
    return _BYTES_PER_CELL * cells + _BYTES_PER_SUBSET * len(subsets)


def cost_of_estimates(queries: Marginals) -> Cost:
    """The cost of shrunken estimates."""
    always, per_subset, per_cell = _SECONDS
    subsets = len(downward_closure(queries.cliques, LARGEST_CLOSURE))
    return Cost(0.0, always + per_subset * subsets + per_cell * queries.size, 0.0)


def with_rows(cost: Cost, queries: Marginals, max_model_mb: float) -> Cost:
    """The cost with that of the model of the rows."""
    shape, choice = _bounded_fit(queries, max_model_mb * CELLS_IN_MB)
    note = "synthetic rows come from a model that is fitted to the estimates, within mechanism.max_model_mb"
    return Cost(
        cost.reads + shape.reads(FROM_NOTHING),
        cost.seconds + choice + shape.setup_seconds,
        max(cost.cells, shape.cells),
        (*cost.notes, note, *uniform_note(queries)),
    )


def with_mean(
    cost: Cost,
    queries: Marginals,
    max_cells: float | None,
    classes: Sequence[int],
    dispersions: Sequence[float],
    condition: str = "",
) -> Cost:
    """The cost with that of other estimates, and of all from thinned values, by which they are weighted.

    max_cells: Of the graphical models; infinite if they hold all marginals, 0 for no models, None for no other
        estimates.
    classes: The numbers of classes of the latent-class models.
    dispersions: Of their corrections; empty for none.
    condition: On what it depends whether there are such models; empty if it is known.
    """
    if max_cells is None:
        return cost
    splits, shrunken = max_splits(queries), cost_of_estimates(queries).seconds
    reads, cells, estimates = 0.0, 0.0, ["these estimates", "the nearest non-negative ones"]
    reads_of_corrections, note_of_corrections = 0.0, ""
    seconds = splits * shrunken + (1 + splits) * _NEAREST * shrunken
    class_bytes = max((bytes_of_fit(queries, number) for number in classes), default=0)
    if classes:
        reads += sum(reads_of_fit(queries, number) for number in classes)
        estimates.append("latent-class models")
    if classes and dispersions:
        for number in (*classes, classes[-1]):  # The last fits have one dispersion each.
            of_split = reads_of_posterior(queries, number, len(dispersions))
            reads_of_corrections += splits * of_split + reads_of_posterior(queries, number, 1)
        estimates.append("a forest of pairs")
        note_of_corrections = (
            "; latent-class models and the forest are corrected for the sampling variation of the rows"
        )
        shape = _fit_of_forest(queries)
        reads += shape.reads(FROM_NOTHING)
        answers = answer_seconds(len(queries.cliques), queries.size, shape.cells)  # More than the choice takes as well.
        seconds += (1 + splits) * (shape.setup_seconds + answers)
        class_bytes = max(class_bytes, bytes_of_posterior(queries, max(classes)))
    if max_cells:
        shape, choice = _fit_of_mean(queries, max_cells)
        held = "all marginals" if math.isinf(max_cells) else f"at most {max_cells:,.0f} cells"
        estimates.append(f"graphical models of {held}")
        effort = FROM_NOTHING if math.isinf(max_cells) else ROUGH
        cells, reads = shape.cells, reads + shape.reads(LEARNING) + shape.reads(effort)
        answers = answer_seconds(len(queries.cliques), queries.size, shape.cells)
        seconds += (1 + splits) * (shape.setup_seconds + choice + answers)
    *others, last = estimates
    note = f"{condition}answers are a weighted mean of {', '.join(others)} and {last}{note_of_corrections}"
    return Cost(
        cost.reads + (1 + splits) * reads + reads_of_corrections,
        cost.seconds + seconds,
        max(cost.cells, cells),
        (note, *cost.notes),
        class_bytes,
    )


def _fit_of_mean(queries: Marginals, max_cells: float) -> tuple[FitShape, float]:
    """A fit of a graphical model in the mean, and the CPU seconds to choose what it holds."""
    if not math.isinf(max_cells):
        return _bounded_fit(queries, max_cells)
    tree = small_tree(modelled_domain(queries), queries.cliques, max_cells)
    assert tree is not None
    return FitShape.of_cliques(queries.domain, queries.cliques, tree.cells, len(tree.nodes)), 0.0


def _fit_of_forest(queries: Marginals) -> FitShape:
    """A fit of a forest of pairs, as if they were neighbours."""
    domain = modelled_domain(queries)
    pairs = list(pairwise(domain.names))
    return FitShape.of_cliques(domain, pairs, sum(map(domain.size, pairs)), len(domain.names))


def _bounded_fit(queries: Marginals, max_cells: float) -> tuple[FitShape, float]:
    """A fit of a model of bounded size, and the CPU seconds to choose what it holds."""
    domain = modelled_domain(queries)
    tree = small_tree(domain, queries.cliques, max_cells)
    cells = max(max_cells, sum(domain.sizes)) if tree is None else tree.cells
    choice = _CHOICE * len(downward_closure(queries.cliques, LARGEST_CLOSURE))
    return FitShape.of_cliques(domain, queries.cliques, cells, len(domain.names)), choice
