"""What the rounds of AIM tell about its errors: their public record, and answers with the intervals that it proves."""

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
_MOST_TOLD: Final = 2  # Before the first round: the errors of pairs, and of triples.


@final
@dataclass(frozen=True, eq=False)
class _Kept:
    """A round with its bounds on the errors of the model before it, float64 [candidates of the run]."""

    round: SelectionRound
    errors: NDArray[np.float64]

    @property
    def cells(self) -> int:
        return self.round.before.tree.cells


@final
class Rounds:
    """The rounds of one run on a workload of marginals, for ``dpcore.estimation.graphical.confidence.bounds``.

    Each round holds the model before it. Where those take more than KEPT_CELLS, the rounds go that tell least beside
    the others: bounds then rest on fewer rounds, and hold all the same, since every round has its part of the tail
    whether it is kept or not. Of products nothing is recorded.

    candidates: Of the whole run.
    together: Places of measurements before the first round that were settled together: (first, after the last).
    told: What noisy errors before the first round prove.
    horizon: Most rounds that the run may make, settled before it.
    """

    def __init__(
        self,
        terms: PrivacyTerms,
        candidates: Candidates,
        together: tuple[int, int],
        told: Sequence[ErrorRound],
        horizon: int,
    ) -> None:
        self._terms = terms
        self._places = {clique: place for place, clique in enumerate(candidates.cliques)}
        self._most = horizon
        self._told = tuple(told)
        self._horizon = horizon + _MOST_TOLD
        self._done = 0
        self._kept: list[_Kept] = []
        self._batch = together

    @property
    def are_over(self) -> bool:
        return self._done >= self._most

    def add(
        self,
        allowed: Candidates,
        score: L1Error | LinearL1Error,
        share: Fraction,
        chosen: int,
        measurement: Measurement,
        before: GraphicalFit,
    ) -> None:
        """One round: ``score`` chose among ``allowed`` for ``share`` of the budget, then came the measurement."""
        self._done += 1
        queries = allowed.queries
        if not (isinstance(queries, Marginals) and isinstance(score, L1Error)) or before.tree.cells > KEPT_CELLS:
            return
        scale = self._terms.select_scale(queries, score, share) * score.step(queries)
        weights = score.public_parts()[1] * (score.weights.max() / GRID)
        one = SelectionRound(queries, chosen, weights, score.penalties, before.model, scale, measurement)
        self._kept.append(_Kept(_bare(one), self._errors(one, before.total)))
        while sum(kept.cells for kept in self._kept) > KEPT_CELLS:
            del self._kept[int(np.argmin(_gains([kept.errors for kept in self._kept], 2 * before.total)))]

    def release(self, workload: Workload, model: GraphicalModel, measured: Sequence[Measurement]) -> Release:
        queries = workload.queries
        if not isinstance(queries, Marginals):
            return Release(workload, of_model(model.answer(queries)), model, tuple(measured))
        rounds: tuple[Round, ...] = (*self._told, *(kept.round for kept in self._kept))
        rows = public_total(self._terms)
        exact = None if rows is None else round(rows)
        values = replace(model).answer(queries)  # What a model keeps for answers goes with the copy that gave them.
        answers = answers_with_intervals(
            model, measured, rounds, queries, CONFIDENCE,
            horizon=self._horizon, rows=exact, batch=self._batch, values=values,
        )  # fmt: skip
        rounds = (*self._told, *(_bare(kept.round) for kept in self._kept))
        return Release(workload, answers, model, tuple(measured), rounds, self._horizon, self._batch)

    def _errors(self, one: SelectionRound, rows: float) -> NDArray[np.float64]:
        """Those that the intervals will use, about; twice the rows where nothing is known."""
        errors = np.full(len(self._places), 2 * rows)
        places = [self._places[clique] for clique in one.candidates.cliques]
        errors[places] = np.minimum(errors[places], one.errors_before((1 - CONFIDENCE) / (2 * self._horizon)))
        return errors


def _bare(one: SelectionRound) -> SelectionRound:
    """The same without what its model keeps for answers."""
    return replace(one, before=replace(one.before))


def _gains(errors: Sequence[NDArray[np.float64]], most: float) -> NDArray[np.float64]:
    """By how much bounds would grow, all together, without each round; ``most`` where no other one is left."""
    known = np.stack(errors)
    beside = np.full((2, known.shape[1]), most)
    least, second = np.sort(np.concatenate([known, beside]), axis=0)[:2]
    return np.asarray(np.where(known == least, second - least, 0.0).sum(axis=1))
