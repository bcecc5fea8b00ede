"""Bounds on the L1 distance of a model's marginals from the exact ones, from the public record of an adaptive run.

The bounds rest on three events, each with a part of the tail:

* *Rounds.* ``errors_before`` of a round bounds the errors of the model before the round. Given everything before the
  round, the probability that it fails for some candidate is at most the round's part of the tail. The parts are fixed
  in advance, and their sum is at most the part of this event. So with that probability the bounds of all rounds and all
  candidates hold at once, and the smallest one over rounds is valid. (The thesis takes the last round in which a
  marginal is a candidate. Which round that is depends on later noise, so the choice alone proves nothing.) The error of
  the final model is at most that of the model before the round plus the distance of the two models, which is public. A
  marginal of some attributes of a candidate has at most the error of the candidate.
* *Noise.* |values - M_r(D)|_1 <= x for the unbiased estimates of a supported marginal (``unbiased``).
* *Total.* low <= rows <= high, from the unbiased estimates of the empty marginal, or known.

Measurements of a marginal bound the final model by the last two events only, because the model was fitted to their
noise z. A signed sum of noise bounds the error of the model *before* a measurement, but says nothing about a model
whose errors have the signs of the noise: a model equal to the noisy marginal errs by all of |z|_1. By the two events
the exact table is one of the tables t >= 0 with |t - values|_1 <= x and low <= sum t <= high, and ``largest_distance``
is the largest distance of the model from any of these. It is never above the triangle inequality of Corollary 1, and
about half of it for sparse tables, whose negative noisy counts show how much of |z|_1 lies in empty cells.

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
    """One round of a run: bounds on the errors of a model by noise that was drawn after the model was fixed; public.

    Implemented by ``selection_rounds.SelectionRound`` and ``error_round.ErrorRound``.

    before: The model.
    candidates: Marginals whose errors the round bounds.
    """

    @property
    def before(self) -> GraphicalModel: ...

    @property
    def candidates(self) -> Marginals: ...

    def errors_before(self, tail: float) -> NDArray[np.float64]:
        """Upper bounds on |M_r(D) - M_r(before)|_1, float64 [cliques]; with probability 1 - tail all of them hold."""
        ...


@final
@dataclass(frozen=True)
class Bound:
    """|M_r(D) - M_r(model)|_1 <= l1 with the requested confidence.

    clique: Attributes of the marginal r.
    l1: The bound in counts; infinite if nothing is known.
    supported: Whether a measured clique that contains r, or residuals, give an unbiased estimate of r.
    round: The round on which the bound rests; None if it rests on measurements of r, or of the total.
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
    """A bound for each clique, whether it was a candidate, measured, or neither.

    model: The final model.
    measurements: All measurements, including those of the rounds, in the order in which they were drawn.
    rounds: Rounds of selections by weighted L1 scores, or of noisy errors. With a horizon, some may be omitted.
    cliques: The marginals to bound.
    confidence: Probability that a bound holds, in (0, 1).
    horizon: The largest number of rounds that the run could have made, a public number fixed before it: each round gets
        an equal part of the tail. Without a horizon, ``rounds`` must be all rounds, and the t-th gets the part
        1 / (t (t + 1)).
    rows: The exact number of rows if it is public, else None.
    batch: The measurements whose cliques and scales were fixed together, as in ``unbiased.Estimates``. For a mechanism
        that does not adapt, these are all measurements.

    Formal guarantee: for each clique that is chosen without regard to the release, the bound holds with probability
    ``confidence`` over the noise of the run, for the dataset after bounding to its declared contribution. Bounds that
    rest on rounds hold simultaneously. For m cliques simultaneously, use the confidence 1 - (1 - confidence) / m.

    Raises: ValueError for more rounds than the horizon, or a confidence outside (0, 1).
    """
    return Evidence(model, measurements, rounds, 1 - confidence, horizon, rows, batch).bounds(cliques)


@final
class Evidence:
    """The record of a run, and the division of a tail probability between its events.

    Half of the tail is for the rounds. Of the rest, 3/4 is for the noise and 1/4 for the total.

    model, measurements, rounds, horizon, rows, batch: As in ``bounds``.
    tail: Probability that a bound fails, in (0, 1).

    domain: Attributes of the model.
    estimates: Unbiased estimates of marginals.
    low: Lower bound on the number of rows, with the total's part of the tail.
    high: Upper bound on the number of rows.

    Raises: ValueError for more rounds than the horizon, or a tail outside (0, 1).
    """

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
            raise ValueError(f"{len(rounds)} rounds in a horizon of {horizon}; want no more than the horizon")
        self.model = model
        self.domain = model.domain
        self.estimates = Estimates(model.domain, measurements, batch)
        # The rounds get their part even if the run made none, because that may have depended on noise.
        rounds_tail = tail / 2 if rounds or horizon else 0.0
        self._noise_tail = 0.75 * (tail - rounds_tail)
        self.low, self.high = _total(self.estimates, 0.25 * (tail - rounds_tail), rows)
        self._rounds = [
            _RoundBounds(
                model, number, record, rounds_tail * (1 / horizon if horizon else 1 / ((number + 1) * (number + 2)))
            )
            for number, record in enumerate(rounds)
        ]

    def bounds(self, cliques: Iterable[Clique], tables: Sequence[NDArray[np.float64]] | None = None) -> list[Bound]:
        """The bound of each clique; the models answer all of them at once.

        tables: The model's tables, flat and in counts, if known; by default they are computed.
        """
        cliques = [self.domain.canonical(clique) for clique in cliques]
        tables = _tables(self.model, cliques) if tables is None else tables
        best = [self._without_rounds(clique, table) for clique, table in zip(cliques, tables, strict=True)]
        for round_bounds in reversed(
            self._rounds
        ):  # Late rounds mostly have the smallest errors: others answer little.
            errors = [round_bounds.error_before(clique) for clique in cliques]
            useful = [k for k, bound in enumerate(best) if errors[k] < bound.l1]
            distances = round_bounds.distances([cliques[k] for k in useful], [tables[k] for k in useful])
            for k, distance in zip(useful, distances, strict=True):
                if errors[k] + distance < best[k].l1:
                    best[k] = replace(best[k], l1=errors[k] + distance, round=round_bounds.number)
        return best

    def _without_rounds(self, clique: Clique, table: NDArray[np.float64]) -> Bound:
        """The bound from measurements of the marginal, and from the total."""
        smallest = float(table.sum()) + self.high
        estimates = self.estimates.of(clique)
        for estimate in estimates:
            radius = estimate.l1_of_noise(self._noise_tail)
            smallest = min(smallest, largest_distance(table, estimate.values, radius, self.low, self.high))
        return Bound(clique, smallest, bool(estimates), None)


@final
class _RoundBounds:
    """The bounds that one round gives for any marginal."""

    def __init__(self, model: GraphicalModel, number: int, record: Round, tail: float) -> None:
        self.number = number
        self._before = record.before
        self._domain = model.domain
        self._errors = record.errors_before(tail)
        self._contains = np.zeros((len(record.candidates.cliques), len(model.domain.names)), dtype=np.bool_)
        for index, clique in enumerate(record.candidates.cliques):
            self._contains[index, list(model.domain.axes(clique))] = True

    def error_before(self, clique: Clique) -> float:
        """An upper bound on |M_r(D) - M_r(before)|_1: the smallest bound of a candidate that contains r."""
        containing = self._contains[:, list(self._domain.axes(clique))].all(axis=1)
        return float(self._errors[containing].min(initial=math.inf))

    def distances(self, cliques: Sequence[Clique], tables: Sequence[NDArray[np.float64]]) -> list[float]:
        """|M_r(before) - M_r(model)|_1 for each clique; a copy of the model answers, so that its cache is freed."""
        pairs = zip(_tables(replace(self._before), cliques), tables, strict=True)
        return [float(np.abs(before - table).sum()) for before, table in pairs]


def _tables(model: GraphicalModel, cliques: Sequence[Clique]) -> list[NDArray[np.float64]]:
    """One flat table in counts for each clique."""
    if not cliques:
        return []
    sizes = [model.domain.size(clique) for clique in cliques]
    return np.split(model.answer(Marginals(model.domain, tuple(cliques))), np.cumsum(sizes)[:-1])


def _total(estimates: Estimates, tail: float, rows: int | None) -> tuple[float, float]:
    """Lower and upper bound on the number of rows, which hold with probability 1 - tail."""
    if rows is not None:
        return float(rows), float(rows)
    estimate = estimates.sharpest((), tail)
    if estimate is None:
        return 0.0, math.inf
    value, width = float(estimate.values[0]), estimate.half_width(tail)
    return max(0.0, value - width), max(0.0, value + width)
