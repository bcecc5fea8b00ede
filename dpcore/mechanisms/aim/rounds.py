"""The public record of AIM's rounds, and the intervals of its answers that this record proves."""

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
from dpcore.mechanisms.aim.candidates import Candidates
from dpcore.mechanisms.api import Release
from dpcore.mechanisms.shared.totals import public_total
from dpcore.queries import Marginals
from dpcore.uncertainty import CONFIDENCE, of_model
from dpcore.workload import Workload

KEPT_CELLS: Final = 1 << 21  # Of the models of all kept rounds: 16 MiB.
_MAX_ERROR_ROUNDS: Final = 2  # Noisy errors of pairs, and of triples, before the first round.


@final
@dataclass(frozen=True, eq=False)
class _Kept:
    """A round that is kept.

    round: The round.
    errors: Its bounds on the errors of the model before it, float64 [candidates of the run], in counts.
    """

    round: SelectionRound
    errors: NDArray[np.float64]

    @property
    def cells(self) -> int:
        """Cells of the model before the round."""
        return self.round.before.tree.cells


@final
class Rounds:
    """The rounds of one run on a workload of marginals, for ``dpcore.estimation.graphical.confidence.bounds``.

    Each round holds the model before it. Where the models take more than KEPT_CELLS, the rounds that improve the bounds
    least are dropped. Bounds then rest on fewer rounds and still hold, because every round has its part of the tail
    probability whether it is kept or not. Rounds on products are not recorded.

    terms: The public terms of the run.
    candidates: All candidates of the run.
    together: Measurements before the first round that were fixed at once, as (first, one after the last) index.
    error_rounds: What noisy errors before the first round prove.
    horizon: Largest number of rounds that the run may make, fixed before it starts.
    """

    def __init__(
        self,
        terms: PrivacyTerms,
        candidates: Candidates,
        together: tuple[int, int],
        error_rounds: Sequence[ErrorRound],
        horizon: int,
    ) -> None:
        self._terms = terms
        self._indices = {clique: index for index, clique in enumerate(candidates.cliques)}
        self._max_rounds = horizon
        self._error_rounds = tuple(error_rounds)
        self._horizon = horizon + _MAX_ERROR_ROUNDS
        self._done = 0
        self._kept: list[_Kept] = []
        self._batch = together

    @property
    def are_over(self) -> bool:
        """Whether the run has made as many rounds as it may."""
        return self._done >= self._max_rounds

    def add(
        self,
        allowed: Candidates,
        score: L1Error | LinearL1Error,
        share: Fraction,
        chosen: int,
        measurement: Measurement,
        before: GraphicalFit,
    ) -> None:
        """Records one round.

        allowed: The candidates of its selection.
        score: Their scores.
        share: Share of the budget that the selection spent.
        chosen: Index of the selected candidate.
        measurement: Its measurement.
        before: The model before the round.
        """
        self._done += 1
        queries = allowed.queries
        if not (isinstance(queries, Marginals) and isinstance(score, L1Error)) or before.tree.cells > KEPT_CELLS:
            return
        scale = self._terms.select_scale(queries, score, share) * score.step(queries)
        weights = score.public_parts()[1] * (score.weights.max() / GRID)
        selection = SelectionRound(queries, chosen, weights, score.penalties, before.model, scale, measurement)
        self._kept.append(_Kept(_bare(selection), self._errors(selection, before.total)))
        while sum(kept.cells for kept in self._kept) > KEPT_CELLS:
            del self._kept[int(np.argmin(_gains([kept.errors for kept in self._kept], 2 * before.total)))]

    def release(self, workload: Workload, model: GraphicalModel, measured: Sequence[Measurement]) -> Release:
        """The release: the model's answers, with intervals where the workload asks for marginals."""
        queries = workload.queries
        if not isinstance(queries, Marginals):
            return Release(workload, of_model(model.answer(queries)), model, tuple(measured))
        rounds: tuple[Round, ...] = (*self._error_rounds, *(kept.round for kept in self._kept))
        rows = public_total(self._terms)
        exact = None if rows is None else round(rows)
        values = replace(model).answer(queries)  # The tables that a model keeps for answers are freed with this copy.
        answers = answers_with_intervals(
            model, measured, rounds, queries, CONFIDENCE,
            horizon=self._horizon, rows=exact, batch=self._batch, values=values,
        )  # fmt: skip
        rounds = (*self._error_rounds, *(_bare(kept.round) for kept in self._kept))
        return Release(workload, answers, model, tuple(measured), rounds, self._horizon, self._batch)

    def _errors(self, selection: SelectionRound, rows: float) -> NDArray[np.float64]:
        """About the error bounds that the intervals will use; twice the rows where nothing is known."""
        errors = np.full(len(self._indices), 2 * rows)
        indices = [self._indices[clique] for clique in selection.candidates.cliques]
        errors[indices] = np.minimum(errors[indices], selection.errors_before((1 - CONFIDENCE) / (2 * self._horizon)))
        return errors


def _bare(selection: SelectionRound) -> SelectionRound:
    """The same round, without the tables that its model keeps for answers."""
    return replace(selection, before=replace(selection.before))


def _gains(errors: Sequence[NDArray[np.float64]], max_error: float) -> NDArray[np.float64]:
    """By how much all bounds together would grow without each round, float64 [rounds], in counts.

    errors: The bounds of each round, float64 [candidates].
    max_error: The bound where no other round gives one.
    """
    bounds = np.stack(errors)
    trivial = np.full((2, bounds.shape[1]), max_error)
    smallest, second = np.sort(np.concatenate([bounds, trivial]), axis=0)[:2]
    return np.asarray(np.where(bounds == smallest, second - smallest, 0.0).sum(axis=1))
