"""The public record of AIM's rounds, which proves intervals of its answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.confidence.bounds import Round
from dpcore.estimation.graphical.confidence.error_round import ErrorRound
from dpcore.estimation.graphical.confidence.intervals import answers_with_intervals
from dpcore.estimation.graphical.confidence.selection_rounds import SelectionRound
from dpcore.estimation.graphical.fitting.fit import GraphicalFit
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.scores import GRID, L1Error, LinearL1Error
from dpcore.measurement import Measurement
from dpcore.mechanisms.aim.candidates import RoundCandidates
from dpcore.mechanisms.api import Release
from dpcore.mechanisms.shared.totals import public_total
from dpcore.queries import Marginals
from dpcore.uncertainty import CONFIDENCE, of_model
from dpcore.workload import Workload

KEPT_CELLS: Final = 1 << 21  # Largest number of cells of the models of all kept rounds: 16 MiB.
_MAX_ERROR_ROUNDS: Final = 2  # The noisy errors of pairs, and of triples, count as a round each.


@final
@dataclass(frozen=True, eq=False)
class _KeptRound:
    """A recorded round.

    round: The round.
    errors: Its bounds on the L1 errors of the model before it, float64 [candidates of the run], in counts.
    """

    round: SelectionRound
    errors: NDArray[np.float64]

    @property
    def cells(self) -> int:
        """Number of cells of the model before the round."""
        return self.round.before.tree.cells


@final
class Rounds:
    """The rounds of one run, as ``dpcore.estimation.graphical.confidence.bounds`` reads them.

    Each recorded round holds the model before the round. If these models exceed KEPT_CELLS cells, the rounds that
    improve the bounds least are dropped. The bounds still hold, because each round has its own part of the tail
    probability whether it is kept or not. Only rounds on marginals are recorded.

    terms: The public terms of the run.
    candidates: All candidates of the run.
    batch_range: (first, one after the last) index of the measurements before the first round that were fixed together.
    error_rounds: What the noisy errors before the first round prove.
    max_rounds: Largest number of rounds that the run may make, fixed before it starts.

    done: Number of rounds so far.
    """

    def __init__(
        self,
        terms: PrivacyTerms,
        candidates: RoundCandidates,
        batch_range: tuple[int, int],
        error_rounds: Sequence[ErrorRound],
        max_rounds: int,
    ) -> None:
        self._terms = terms
        self._indices = {clique: index for index, clique in enumerate(candidates.cliques)}
        self._max_rounds = max_rounds
        self._error_rounds = tuple(error_rounds)
        self._horizon = max_rounds + _MAX_ERROR_ROUNDS
        self.done = 0
        self._kept: list[_KeptRound] = []
        self._batch_range = batch_range

    @property
    def are_over(self) -> bool:
        """Whether the run has made its largest number of rounds."""
        return self.done >= self._max_rounds

    def add(
        self,
        allowed: RoundCandidates,
        score: L1Error | LinearL1Error,
        share: Fraction,
        chosen: int,
        measurement: Measurement,
        before: GraphicalFit,
    ) -> None:
        """Counts one round, and records it unless it is on products or its model is too large.

        allowed: The candidates of the selection.
        score: The scores by which it selected.
        share: Share of the whole budget that the selection spent.
        chosen: Index of the selected candidate among ``allowed``.
        measurement: The measurement of that candidate.
        before: The fit before the round.
        """
        self.done += 1
        queries = allowed.queries
        if not (isinstance(queries, Marginals) and isinstance(score, L1Error)) or before.tree.cells > KEPT_CELLS:
            return
        scale = self._terms.select_scale(queries, score, share) * score.step(queries)
        weights = score.public_parts()[1] * (score.weights.max() / GRID)
        selection = SelectionRound(queries, chosen, weights, score.penalties, before.model, scale, measurement)
        self._kept.append(_KeptRound(_without_cached_answers(selection), self._errors(selection, before.total)))
        while sum(kept.cells for kept in self._kept) > KEPT_CELLS:
            del self._kept[int(np.argmin(_gains([kept.errors for kept in self._kept], 2 * before.total)))]

    def release(self, workload: Workload, model: GraphicalModel, measured: Sequence[Measurement]) -> Release:
        """The release: the answers of the final model, with intervals if the workload consists of marginals."""
        queries = workload.queries
        if not isinstance(queries, Marginals):
            return Release(workload, of_model(model.answer(queries)), model, tuple(measured))
        rounds: tuple[Round, ...] = (*self._error_rounds, *(kept.round for kept in self._kept))
        rows = public_total(self._terms)
        exact = None if rows is None else round(rows)
        values = replace(model).answer(queries)  # The tables that the copy caches are freed with it.
        answers = answers_with_intervals(
            model, measured, rounds, queries, CONFIDENCE,
            horizon=self._horizon, rows=exact, batch=self._batch_range, values=values,
        )  # fmt: skip
        rounds = (*self._error_rounds, *(_without_cached_answers(kept.round) for kept in self._kept))
        return Release(workload, answers, model, tuple(measured), rounds, self._horizon, self._batch_range)

    def _errors(self, selection: SelectionRound, rows: float) -> NDArray[np.float64]:
        """Approximate error bounds of all candidates from one round; twice the rows for those it says nothing about."""
        errors = np.full(len(self._indices), 2 * rows)
        indices = [self._indices[clique] for clique in selection.candidates.cliques]
        errors[indices] = np.minimum(errors[indices], selection.errors_before((1 - CONFIDENCE) / (2 * self._horizon)))
        return errors


def _without_cached_answers(selection: SelectionRound) -> SelectionRound:
    """The same round with a copy of its model that has cached no tables yet."""
    return replace(selection, before=replace(selection.before))


def _gains(errors: Sequence[NDArray[np.float64]], max_error: float) -> NDArray[np.float64]:
    """How much the sum of all bounds would grow without each round, float64 [rounds], in counts.

    errors: The bounds of each round, float64 [candidates].
    max_error: The bound that holds without any round.
    """
    bounds = np.stack(errors)
    trivial = np.full((2, bounds.shape[1]), max_error)
    smallest, second = np.sort(np.concatenate([bounds, trivial]), axis=0)[:2]
    return np.asarray(np.where(bounds == smallest, second - smallest, 0.0).sum(axis=1))
