"""How far a model's marginals may be from the exact ones, from the public record of an adaptive run.

Three events, each with a part of the tail:

* *Rounds.* ``errors_before`` of a selection, or of noisy errors, holds for all its candidates but for the round's part
  of the tail, given everything before the round; the parts are fixed in advance and sum to at most that of the event.
  So it holds for all rounds and all candidates at once, and whoever reads the bounds may take the smallest over rounds.
  The thesis takes the last round in which a marginal is a candidate; which one that is depends on later noise, and that
  alone proves nothing. From the model before the round to the final one the triangle inequality leads, with a distance
  that is public. The marginal of a part of a candidate errs no more than the candidate.
* *Noise.* |values - M_r(D)|_1 <= x for the unbiased estimates of a supported marginal (``unbiased``).
* *Total.* low <= rows <= high, from the unbiased estimates of the empty marginal, or known.

For the final model, which was fitted to the noise, only the last two help: a signed sum of noise, which bounds the
error of the model *before* a measurement, says nothing of one whose sign pattern follows the noise (a model equal to
the noisy marginal errs by all of |z|_1). They leave the tables t >= 0 with |t - values|_1 <= x and low <= sum t <=
high, and ``largest_distance`` is how far the model can be from any of these: never above the triangle inequality of
Corollary 1, about half of it for sparse tables, whose negative noisy counts tell how much of |z|_1 lies there.

Source: McKenna (2022), section 5.5, Theorems 14 to 16 and Corollaries 1 and 2, corrected and sharpened as proved here,
in ``selection_rounds`` and in ``unbiased``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.confidence.farthest_table import largest_distance
from dpcore.estimation.graphical.confidence.unbiased import Estimates
from dpcore.measurement import Measurement
from dpcore.queries import Marginals
from dpcore.uncertainty import CONFIDENCE


class Round(Protocol):
    """What noise that was drawn after a model was settled proves about it; public.

    before: The model. candidates: Marginals whose errors it bounds.
    """

    @property
    def before(self) -> GraphicalModel: ...

    @property
    def candidates(self) -> Marginals: ...

    def errors_before(self, tail: float) -> NDArray[np.float64]:
        """Upper bounds on |M_r(D) - M_r(before)|_1 for all candidates, float64 [cliques]: all hold with 1 - tail."""
        ...


@final
@dataclass(frozen=True)
class Bound:
    """|M_r(D) - M_r(model)|_1 <= l1, in counts, with the confidence asked for; infinite where nothing is known.

    supported: Whether what was measured gives an unbiased estimate of r: in a clique that contains it, or by residuals.
    round: The round that the bound rests on; None where it rests on measurements of r, or of the total.
    """

    clique: Clique
    l1: float
    supported: bool
    round: int | None


def bounds(
    model: GraphicalModel,
    measurements: Sequence[Measurement],
    rounds: Sequence[Round],
    cliques: Iterable[Clique],
    confidence: float = CONFIDENCE,
    *,
    horizon: int | None = None,
    rows: int | None = None,
    batch: tuple[int, int] | None = None,
) -> list[Bound]:
    """A bound for each clique, be it a candidate, measured or neither.

    measurements: All of them, in the order in which they were drawn, those of the rounds too.
    rounds: Of selections by a plain weighted L1 score, or of noisy errors. With a horizon some may be left out.
    horizon: Most rounds that the run could have made, a public number settled before it: each gets an equal part of the
        tail. None: ``rounds`` are all rounds, and the t-th gets 1 / (t (t + 1)).
    rows: The exact number of rows where it is public.
    batch: Places of measurements whose cliques and scales were settled together, as of ``unbiased.Estimates``: all of
        them for a mechanism that does not adapt.

    Formal guarantee: for each clique named without regard to the release, the bound holds with probability
    ``confidence`` over the noise of the run, for the dataset as it was bounded to its declared contribution. Those that
    rest on a round hold all at once. For m cliques at once ask with 1 - (1 - confidence) / m.

    Raises ValueError for more rounds than the horizon, or a confidence outside (0, 1).
    """
    return Evidence(model, measurements, rounds, 1 - confidence, horizon, rows, batch).bounds(cliques)


@final
class Evidence:
    """The record of a run with the parts of a tail: half for the rounds; of the rest 3/4 for noise, 1/4 for the
    total."""

    def __init__(
        self,
        model: GraphicalModel,
        measurements: Sequence[Measurement],
        rounds: Sequence[Round],
        tail: float,
        horizon: int | None = None,
        rows: int | None = None,
        batch: tuple[int, int] | None = None,
    ) -> None:
        if not 0 < tail < 1:
            raise ValueError(f"confidence is {1 - tail}; want 0 < confidence < 1")
        if horizon is not None and horizon < len(rounds):
            raise ValueError(f"{len(rounds)} rounds of a horizon of {horizon}; want no more than the horizon")
        self.model = model
        self.domain = model.domain
        self.estimates = Estimates(model.domain, measurements, batch)
        # Of a run that may make rounds whether it made any or not, since that may depend on noise.
        of_rounds = tail / 2 if rounds or horizon else 0.0
        self._noise_tail = 0.75 * (tail - of_rounds)
        self.low, self.high = _total(self.estimates, 0.25 * (tail - of_rounds), rows)
        self._rounds = [
            _Reach(model, number, one, of_rounds * (1 / horizon if horizon else 1 / ((number + 1) * (number + 2))))
            for number, one in enumerate(rounds)
        ]

    def bounds(self, cliques: Iterable[Clique], tables: Sequence[NDArray[np.float64]] | None = None) -> list[Bound]:
        """What holds for each clique; models answer all of them at once.

        tables: The model's, flat and in counts, where they are known already.
        """
        asked = [self.domain.canonical(clique) for clique in cliques]
        tables = _tables(self.model, asked) if tables is None else tables
        found = [self._without_rounds(clique, table) for clique, table in zip(asked, tables, strict=True)]
        for one in reversed(self._rounds):  # The last ones tell most: others then need not be answered.
            errors = [one.before(clique) for clique in asked]
            told = [place for place, bound in enumerate(found) if errors[place] < bound.l1]
            moved = one.moved([asked[place] for place in told], [tables[place] for place in told])
            for place, distance in zip(told, moved, strict=True):
                if errors[place] + distance < found[place].l1:
                    found[place] = replace(found[place], l1=errors[place] + distance, round=one.number)
        return found

    def _without_rounds(self, clique: Clique, table: NDArray[np.float64]) -> Bound:
        best = float(table.sum()) + self.high
        estimates = self.estimates.of(clique)
        for one in estimates:
            noise = one.l1_of_noise(self._noise_tail)
            best = min(best, largest_distance(table, one.values, noise, self.low, self.high))
        return Bound(clique, best, bool(estimates), None)


@final
class _Reach:
    """What one round says about any marginal."""

    def __init__(self, model: GraphicalModel, number: int, one: Round, tail: float) -> None:
        self.number = number
        self._before = one.before
        self._domain = model.domain
        self._errors = one.errors_before(tail)
        self._holds = np.zeros((len(one.candidates.cliques), len(model.domain.names)), dtype=np.bool_)
        for place, clique in enumerate(one.candidates.cliques):
            self._holds[place, list(model.domain.axes(clique))] = True

    def before(self, clique: Clique) -> float:
        """|M_r(D) - M_r(before)|_1 is at most this: the smallest bound of a candidate that contains r."""
        holding = self._holds[:, list(self._domain.axes(clique))].all(axis=1)
        return float(self._errors[holding].min(initial=math.inf))

    def moved(self, cliques: Sequence[Clique], tables: Sequence[NDArray[np.float64]]) -> list[float]:
        """|M_r(before) - M_r(model)|_1 for each; what the model before keeps for answers goes with a copy of it."""
        pairs = zip(_tables(replace(self._before), cliques), tables, strict=True)
        return [float(np.abs(before - table).sum()) for before, table in pairs]


def _tables(model: GraphicalModel, cliques: Sequence[Clique]) -> list[NDArray[np.float64]]:
    """One flat table a clique, in counts."""
    if not cliques:
        return []
    sizes = [model.domain.size(clique) for clique in cliques]
    return np.split(model.answer(Marginals(model.domain, tuple(cliques))), np.cumsum(sizes)[:-1])


def _total(estimates: Estimates, tail: float, rows: int | None) -> tuple[float, float]:
    """The number of rows lies between the two but for a chance of ``tail``."""
    if rows is not None:
        return float(rows), float(rows)
    found = estimates.sharpest((), tail)
    if found is None:
        return 0.0, math.inf
    value, width = float(found.values[0]), found.half_width(tail)
    return max(0.0, value - width), max(0.0, value + width)
