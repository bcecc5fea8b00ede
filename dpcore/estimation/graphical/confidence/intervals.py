"""Intervals for the cells of a model's marginals, from the public record of an adaptive run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.confidence.bounds import Evidence, Round
from dpcore.measurement import Measurement
from dpcore.queries import Marginals
from dpcore.uncertainty import CONFIDENCE, Answers

# Parts of the tail of a cell. They add up to 1, because noise may decide whether a marginal is supported.
_SUPPORTED_PART, _DISTANCE_PART, _SUMS_PART = 0.7, 0.15, 0.15

_Ends = tuple[NDArray[np.float64], NDArray[np.float64]]  # Lower and upper ends.


def answers_with_intervals(
    model: GraphicalModel,
    measurements: Sequence[Measurement],
    rounds: Sequence[Round],
    queries: Marginals,
    confidence: float = CONFIDENCE,
    *,
    horizon: int | None = None,
    rows: int | None = None,
    batch: tuple[int, int] | None = None,
    values: NDArray[np.float64] | None = None,
) -> Answers:
    """The model's answers, each with an interval for the exact answer.

    model, measurements, rounds, confidence, horizon, rows, batch: As in ``bounds.bounds``.
    queries: The marginals to answer.
    values: The model's answers, float64 [queries.size], if known; by default they are computed.

    Formal guarantee: for each cell that is chosen without regard to the release, lower <= exact count <= upper with
    probability ``confidence``. An interval that does not contain the model's answer is extended to it. No end is below
    0. An upper end is NaN if nothing bounds the cell, because no marginal was measured.

    * Supported marginals: the unbiased estimate -+ the half-width of its noise in a cell.
    * Others: with |M_r(D) - M_r(model)|_1 <= B and low <= rows <= high, a cell is at most (B + rows - model's rows) / 2
      above the model and (B + model's rows - rows) / 2 below it, because an excess in one cell is a deficit in others.
      Nor does a cell exceed the number of rows, or the upper end of any supported marginal's cell that contains it.

    Standard deviations are NaN, because the deviation of an unbiased estimate is not that of the model's answer.
    """
    evidence = Evidence(model, measurements, rounds, _DISTANCE_PART * (1 - confidence), horizon, rows, batch)
    values = model.answer(queries) if values is None else values
    tables = [np.asarray(table, dtype=np.float64) for table in queries.split(values)]
    unsupported = [k for k, clique in enumerate(queries.cliques) if not evidence.estimates.supports(clique)]
    distance_bounds = evidence.bounds(
        [queries.cliques[k] for k in unsupported], [tables[k].ravel() for k in unsupported]
    )
    distances = {k: bound.l1 for k, bound in zip(unsupported, distance_bounds, strict=True)}
    lower, upper = np.empty(values.size), np.empty(values.size)
    end = 0
    for k, (clique, table) in enumerate(zip(queries.cliques, tables, strict=True)):
        start, end = end, end + table.size
        lower[start:end], upper[start:end] = _ends(evidence, clique, table, distances.get(k), 1 - confidence)
    np.minimum(lower, values, out=lower)
    np.maximum(upper, values, out=upper)
    upper[np.isinf(upper)] = np.nan
    return Answers(values, np.broadcast_to(np.nan, values.shape), lower, upper, measured=False)


def _ends(evidence: Evidence, clique: Clique, table: NDArray[np.float64], distance: float | None, tail: float) -> _Ends:
    """Lower and upper ends, float64 [cells] each.

    distance: Bound on the L1 error of the model's marginal; None for a supported marginal.
    tail: Probability that the interval of a cell fails.
    """
    if distance is None:
        estimate = evidence.estimates.sharpest(clique, _SUPPORTED_PART * tail)
        assert estimate is not None
        width = estimate.half_width(_SUPPORTED_PART * tail)
        return np.maximum(0.0, estimate.values - width), np.maximum(0.0, estimate.values + width)
    total = float(table.sum())
    above, below = (distance + evidence.high - total) / 2, (distance - evidence.low + total) / 2
    upper = np.minimum(table + max(0.0, above), evidence.high)
    for sums in _upper_ends_of_parts(evidence, clique, _SUMS_PART * tail):
        upper = np.minimum(upper, sums)
    return np.maximum(0.0, table - max(0.0, below)).ravel(), upper.ravel()


def _upper_ends_of_parts(evidence: Evidence, clique: Clique, tail: float) -> Iterator[NDArray[np.float64]]:
    """Upper ends of the supported marginals of subsets of a clique, in shapes that broadcast to its table.

    Noise may decide which subsets are supported, so all of them get equal shares of the tail.
    """
    parts = [part for size in range(1, len(clique)) for part in combinations(clique, size)]
    for part in parts:
        share = tail / len(parts)
        estimate = evidence.estimates.sharpest(part, share)
        if estimate is not None:
            shape = [
                size if name in part else 1 for name, size in zip(clique, evidence.domain.shape(clique), strict=True)
            ]
            yield np.maximum(0.0, estimate.values + estimate.half_width(share)).reshape(shape)
