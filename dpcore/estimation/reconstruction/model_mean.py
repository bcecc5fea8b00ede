"""A weighted mean of two estimates of the same marginals: shrunken residuals, and one graphical model.

Both read the same noisy values and err in different ways. Shrinking (``shrunken``) looks at one marginal and those
below it; the model joins what all of them say. Which is better depends on the data, so the weight is learnt: both
estimates are made once more from values with added noise, and that mean of them is chosen which is nearest to other
noisy values of the same answers (``thinning``).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.estimation.graphical.fitting.fit import FitSettings, fit_model
from dpcore.estimation.graphical.fitting.work import WorkMeter
from dpcore.estimation.reconstruction.bounded_model import bounded_nodes
from dpcore.estimation.reconstruction.residuals import Residuals, residuals_of_table
from dpcore.estimation.reconstruction.shrunken import shrunken_answers
from dpcore.estimation.reconstruction.thinning import thinned
from dpcore.measurement import Measurement
from dpcore.queries import Marginals, Products

Real = NDArray[np.float64]
# The prior is learnt, as is sound for marginals that no answer selected.
_SETTINGS: Final = FitSettings(prior_scale=None, tolerance=1e-2, iterations=500)
_PRIOR_MEAN, _PRIOR_STDDEV = 0.5, 0.5  # Of the weight of the model, before anything is known.
_MAX_SPLITS: Final = 4
_MAX_STDDEV: Final = 0.1  # A weight with a larger standard deviation is learnt again, from another split.
_FEW_ANSWERS: Final = 10_000


def mean_with_model(
    values: Real,
    measured: Sequence[Measurement],
    queries: Marginals,
    weights: Mapping[Clique, float],
    *,
    total: float | None,
    max_cells: float | None,
    generator: Generator,
    meter: WorkMeter,
) -> Real:
    """Non-negative, consistent estimates of the answers of marginals, float64 [queries.size], in counts.

    values: float64 [queries.size], the shrunken answers from the same measurements.
    measured: Residuals of all subsets of the cliques, each in one measurement or more, on the domain of the queries.
    queries: At least one marginal.
    weights: The weight of each marginal in the error, >= 0.
    total: Number of rows where it is public; by default it is measured as well.
    max_cells: Largest number of cells of the model's junction tree. The model then has the structure of
        ``bounded_nodes``, and the residuals inside its nodes. By default its tree holds all marginals.
    generator: Splits the measurements.
    meter: Counts the work of all fits: one, and one for each of up to ``max_splits`` splits.
    """
    modelled = _modelled(values, measured, queries, weights, max_cells, meter)
    learnt: list[float] = []
    stddev = _PRIOR_STDDEV
    while stddev > _MAX_STDDEV and len(learnt) < max_splits(queries):
        training, held_out = thinned(measured, generator)
        ours = shrunken_answers(Residuals(training), queries, total)
        theirs = _modelled(ours, training, queries, weights, max_cells, meter)
        weight, stddev = model_weight(ours, theirs, Residuals(held_out), queries, weights)
        learnt.append(weight)
    weight = float(np.mean(learnt))
    return (1 - weight) * values + weight * modelled


def max_splits(queries: Marginals) -> int:
    """The largest number of splits from which the weight is learnt: one, or more for few answers."""
    return _MAX_SPLITS if queries.size <= _FEW_ANSWERS else 1


def _modelled(
    values: Real,
    measured: Sequence[Measurement],
    queries: Marginals,
    weights: Mapping[Clique, float],
    max_cells: float | None,
    meter: WorkMeter,
) -> Real:
    """The answers of the model, which has as many rows as the values."""
    rows = max(1.0, float(values[: queries.sizes[0]].sum()))
    cliques: Sequence[Clique] = queries.cliques
    if max_cells is not None:
        cliques = bounded_nodes(queries, values, weights, max_cells)
        measured = [_within(measurement, cliques) for measurement in measured]
    return fit_model(queries.domain, measured, rows, _SETTINGS, cliques=cliques, meter=meter).model.answer(queries)


def _within(measurement: Measurement, nodes: Sequence[Collection[str]]) -> Measurement:
    """The measured residuals whose attributes lie inside one node."""
    queries, holders = measurement.queries, [frozenset(node) for node in nodes]
    assert isinstance(queries, Products)
    parts = np.split(measurement.values, np.cumsum([term.size for term in queries.terms])[:-1])
    kept = [
        (term, part)
        for term, part in zip(queries.terms, parts, strict=True)
        if any(holder.issuperset(term.clique) for holder in holders)
    ]
    terms = Products(queries.domain, tuple(term for term, _ in kept), queries.denominator)
    return Measurement(terms, np.concatenate([part for _, part in kept]), measurement.noise, measurement.scale)


def model_weight(
    ours: Real, theirs: Real, held_out: Residuals, queries: Marginals, weights: Mapping[Clique, float]
) -> tuple[float, float]:
    """The weight of ``theirs`` with which the mean of two estimates is nearest to held-out residuals.

    ours, theirs: Consistent estimates of the answers with the same number of rows, float64 [queries.size], in counts.
    held_out: Residuals of all subsets of the cliques, with noise that is independent of both estimates.
    queries: The marginals.
    weights: The weight of each marginal in the error, >= 0.

    Returns the weight, in [0, 1], and its standard deviation.

    Distances are squared, and summed over the answers with these weights. With the residuals d of theirs - ours and e
    of the held-out values - ours, and with the part c that a residual has in the distances, the best weight is
    sum c <d, e> / sum c |d|^2. Its variance sum c^2 v |d|^2 / (sum c |d|^2)^2 is known, because the variances v of the
    noise are. It is combined with a prior by Bayes' rule, so that few marginals give a weight near the prior mean.
    """
    residuals, differences = _residuals(queries, ours), _residuals(queries, theirs - ours)
    gain = squared_distance = noise_variance = 0.0
    for part, influence in _influence(queries, weights).items():
        measured, variance = held_out.residual(part)
        difference = differences[part]
        squares = float((difference**2).sum())
        gain += influence * float(((measured.ravel() - residuals[part]) * difference).sum())
        squared_distance += influence * squares
        noise_variance += influence**2 * variance * squares
    if squared_distance == 0:
        return 0.0, 0.0
    nearest, variance, prior_variance = gain / squared_distance, noise_variance / squared_distance**2, _PRIOR_STDDEV**2
    weight = (nearest * prior_variance + _PRIOR_MEAN * variance) / (prior_variance + variance)
    stddev = math.sqrt(prior_variance * variance / (prior_variance + variance))
    return min(1.0, max(0.0, weight)), stddev


def _residuals(queries: Marginals, values: Real) -> dict[Clique, Real]:
    """The residual of each non-empty subset of the cliques, raveled, from consistent answers."""
    residuals: dict[Clique, Real] = {}
    for clique, table in zip(queries.cliques, queries.split(values), strict=True):
        for part, residual in residuals_of_table(queries.domain, clique, np.asarray(table, dtype=np.float64)).items():
            residuals.setdefault(part, residual.ravel())
    return residuals


def _influence(queries: Marginals, weights: Mapping[Clique, float]) -> dict[Clique, float]:
    """By how much a residual's squared norm counts in the weighted sum of squares of the answers.

    In a larger marginal it is spread evenly over the other attributes, so its squared norm is divided by their cells.
    """
    influence: dict[Clique, float] = {}
    for clique in queries.cliques:
        names = [name for name in queries.domain.canonical(clique) if queries.domain.size((name,)) > 1]
        for order in range(1, len(names) + 1):
            for part in combinations(names, order):
                share = queries.domain.size(part) / queries.domain.size(clique)
                influence[part] = influence.get(part, 0.0) + weights[clique] * share
    return influence
