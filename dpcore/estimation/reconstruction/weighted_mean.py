"""A weighted mean of estimates of the same marginals: shrunken residuals, nearest non-negative answers, and models.

All read the same noisy values and err in different ways. Shrinking (``shrunken``) looks at one marginal and those below
it; the nearest non-negative answers (``nonnegative``) are good where many cells are 0; a graphical model joins what all
marginals say; latent-class models (``latent_classes``) explain them by a few causes, and a forest by the strongest
pairs. The last two are corrected for the sampling variation of the rows (``sample_posterior``). Which is better depends
on the data, so the weights are learnt: the estimates are made once more from values with added noise, and that mean of
them is chosen which is nearest to other noisy values of the same answers (``thinning``). The
dispersion of the rows is chosen in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, zip_longest
from operator import itemgetter
from typing import Final, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.estimation.graphical.fitting.fit import FitSettings, fit_model
from dpcore.estimation.graphical.fitting.work import WorkMeter
from dpcore.estimation.reconstruction.bounded_model import bounded_nodes, forest_nodes
from dpcore.estimation.reconstruction.latent_classes import LatentClassModel
from dpcore.estimation.reconstruction.nonnegative import nonnegative_consistent
from dpcore.estimation.reconstruction.residuals import Residuals, residuals_of_answers
from dpcore.estimation.reconstruction.sample_posterior import corrected_answers
from dpcore.estimation.reconstruction.shrunken import shrunken_answers
from dpcore.estimation.reconstruction.thinning import thinned
from dpcore.measurement import Measurement
from dpcore.queries import Marginals, Products

Real = NDArray[np.float64]
# The prior is learnt, as is sound for marginals that no answer selected.
_SETTINGS: Final = FitSettings(prior_scale=None, tolerance=1e-2, iterations=500, empirical_bayes=True)
_NEAREST: Final = 1e-2  # Tolerance of the nearest answers, in standard deviations.
# Of each weight but the first, before anything is known. Of more than three estimates, each has the mean 1 / estimates.
_PRIOR_MEAN, _PRIOR_STDDEV = 1 / 3, 0.5
_MAX_SPLITS: Final = 4
_MAX_STDDEV: Final = 0.1  # Weights with a larger standard deviation are learnt again, from another split.
_FEW_ANSWERS: Final = 10_000
_RIDGE: Final = 1e-9  # Part of the covariance that is added to its diagonal.


def weighted_mean(
    values: Real,
    measured: Sequence[Measurement],
    queries: Marginals,
    weights: Mapping[Clique, float],
    *,
    total: float | None,
    max_cells: float,
    classes: Sequence[int],
    dispersions: Sequence[float],
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
        ``bounded_nodes``, and the residuals inside its nodes. Infinite for a tree that holds all marginals, and 0 for
        a mean without a graphical model.
    classes: The numbers of classes of latent-class models (``latent_classes``), one for each model.
    dispersions: Among which that of each correction (``corrected_answers``) is chosen, of latent-class models and of a
        forest; empty for no corrections, and no forest.
    generator: Splits the measurements, and draws where the fits of classes start.
    meter: Counts the work of all fits. Those of all values, and those of each of up to ``max_splits`` splits, may take
        an equal part of what remains.
    """
    seeds = generator.integers(1 << 62, size=len(classes)).tolist()
    estimators = _Estimators(queries, weights, max_cells, classes, seeds, bool(classes and dispersions))
    learnt: list[Real] = []
    models: list[LatentClassModel] = []
    choices = [_DispersionChoice(queries, weights, dispersions) for _ in range(estimators.corrected)]
    stddev, limit = _PRIOR_STDDEV, meter.remaining / (1 + max_splits(queries))
    while stddev > _MAX_STDDEV and len(learnt) < max_splits(queries):
        training, added = thinned(measured, generator, _added_noise(queries, dispersions))
        held_out, shrunken = Residuals(added), shrunken_answers(Residuals(training), queries, total)
        every = [dispersions for _ in choices]
        others, corrected, models = estimators.estimates(shrunken, training, WorkMeter(limit, meter), every)
        best = [choice.best(answers, held_out) for choice, answers in zip(choices, corrected, strict=True)]
        of_split, stddev = mean_weights([shrunken, *others, *best], held_out, queries, weights)
        learnt.append(of_split)
    chosen = [choice.chosen for choice in choices]
    others, corrected, _ = estimators.estimates(values, measured, WorkMeter(limit, meter), chosen, models)
    mean = np.mean(learnt, axis=0) @ np.stack([values, *others, *(answers for (answers,) in corrected)])
    return _without_negative(np.asarray(mean), Residuals(measured), queries)


def max_splits(queries: Marginals) -> int:
    """The largest number of splits from which the weights are learnt: one, or more for few answers."""
    return _MAX_SPLITS if queries.size <= _FEW_ANSWERS else 1


def _added_noise(queries: Marginals, dispersions: Sequence[float]) -> float:
    """How much noise a split adds, in standard deviations: less for many answers with little noise."""
    return 0.5 if dispersions and max_splits(queries) == 1 else 1.0


@final
@dataclass(frozen=True, eq=False)
class _Estimators:
    """What makes the estimates beside the shrunken ones, from any values; ``weighted_mean`` says what each field is.

    seeds: From which the starts of the latent-class models are drawn, the same for all splits.
    has_forest: Whether there is a forest.
    """

    queries: Marginals
    weights: Mapping[Clique, float]
    max_cells: float
    classes: Sequence[int]
    seeds: Sequence[int]
    has_forest: bool

    @property
    def corrected(self) -> int:
        """How many estimates may be corrected."""
        return len(self.classes) + self.has_forest

    def estimates(
        self,
        shrunken: Real,
        measured: Sequence[Measurement],
        meter: WorkMeter,
        dispersions: Sequence[Sequence[float]],
        starts: Sequence[LatentClassModel] = (),
    ) -> tuple[list[Real], list[list[Real]], list[LatentClassModel]]:
        """The nearest non-negative answers, and those of the models. All have as many rows as the shrunken ones.

        dispersions: Of each latent-class model, then of the forest.
        starts: The latent-class models from which the fits of others start, so that both are near the same minima:
            weights that are learnt from one then suit the other. Empty for a split, whose estimates may not know its
            held-out part.

        Returns the latent-class models as well, and apart from the other estimates, for each of these models and for
        the forest, its answers as ``corrected_answers`` returns them. Rows of the forest are
        given the covariance of the last model, which has the most classes.
        """
        queries, residuals = self.queries, Residuals(measured)
        rows = max(1.0, float(shrunken[: queries.sizes[0]].sum()))
        estimates = [_nearest(residuals, queries, rows)]
        if self.max_cells:
            nodes = bounded_nodes(queries, shrunken, self.weights, self.max_cells) if self.max_cells < math.inf else ()
            estimates.append(_modelled(nodes, measured, queries, rows, meter))
        models = [
            LatentClassModel.fitted(residuals, queries, rows, number, np.random.default_rng(seed), meter, start)
            for number, seed, start in zip_longest(self.classes, self.seeds, starts)
        ]
        corrected = [
            corrected_answers(model, residuals, queries, rows, of_model, meter)
            for model, of_model in zip(models, dispersions[: len(models)], strict=True)
        ]
        if self.has_forest:
            nodes = forest_nodes(queries, shrunken, self.weights)
            forest = _modelled(nodes, measured, queries, rows, meter)
            corrected.append(corrected_answers(models[-1], residuals, queries, rows, dispersions[-1], meter, forest))
        return estimates, corrected, models


@final
@dataclass(eq=False)
class _DispersionChoice:
    """Which dispersion of a correction is nearest to the held-out values of all splits.

    distances: Sums over the splits, float64 [dispersions].
    """

    queries: Marginals
    weights: Mapping[Clique, float]
    dispersions: Sequence[float]
    distances: Real = field(init=False)

    def __post_init__(self) -> None:
        self.distances = np.zeros(len(self.dispersions))

    @property
    def chosen(self) -> Sequence[float]:
        """The best dispersion; empty where no split had corrected answers, so that the last fit has none either."""
        return [self.dispersions[int(self.distances.argmin())]] if self.distances.any() else []

    def best(self, corrected: Sequence[Real], held_out: Residuals) -> Real:
        """The answers with the best dispersion until now; the only ones where none were corrected."""
        if len(corrected) == 1:  # No work remained, or there is no choice.
            return corrected[0]
        self.distances += [squared_distance(answers, held_out, self.queries, self.weights) for answers in corrected]
        return corrected[int(self.distances.argmin())]


def squared_distance(estimate: Real, held_out: Residuals, queries: Marginals, weights: Mapping[Clique, float]) -> float:
    """The squared distance of an estimate from held-out residuals, as ``mean_weights`` measures it."""
    own, influence = _residuals(queries, estimate), _influence(queries, weights)
    return float(
        sum(
            of_part * ((held_out.residual(part)[0].ravel() - own[part]) ** 2).sum()
            for part, of_part in influence.items()
        )
    )


def _without_negative(answers: Real, residuals: Residuals, queries: Marginals) -> Real:
    """The nearest non-negative answers with as many rows: a corrected model may expect less than no rows in a cell."""
    if answers.min() >= 0:
        return answers
    rows = max(1.0, float(answers[: queries.sizes[0]].sum()))
    return nonnegative_consistent(queries, answers, residuals.answers(queries).stddev, rows, _NEAREST)


def _nearest(residuals: Residuals, queries: Marginals, rows: float) -> Real:
    """The non-negative answers nearest to the least-squares ones."""
    unbiased = residuals.answers(queries)
    return nonnegative_consistent(queries, unbiased.values, unbiased.stddev, rows, _NEAREST)


def _modelled(
    nodes: Sequence[Clique], measured: Sequence[Measurement], queries: Marginals, rows: float, meter: WorkMeter
) -> Real:
    """The answers of a graphical model.

    nodes: Those of its junction tree, in which it has the measured residuals; empty for a tree of all marginals.
    """
    if nodes:
        measured = [_within(measurement, nodes) for measurement in measured]
    cliques = nodes or queries.cliques
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


def mean_weights(
    estimates: Sequence[Real], held_out: Residuals, queries: Marginals, weights: Mapping[Clique, float]
) -> tuple[Real, float]:
    """The weights with which the mean of estimates is nearest to held-out residuals.

    estimates: Consistent estimates of the answers with the same number of rows, each float64 [queries.size], in counts.
    held_out: Residuals of all subsets of the cliques, with noise that is independent of the estimates.
    queries: The marginals.
    weights: The weight of each marginal in the error, >= 0.

    Returns the weights, float64 [estimates], non-negative and of sum 1, and the largest standard deviation of one.

    Distances are squared, and summed over the answers with the weights of their marginals. With the residuals d_i of
    estimate i minus the first, those e of the held-out values minus the first, and the part c that a residual has in
    the distances, the best weights w of all estimates but the first solve A w = b, where A_ij = sum c <d_i, d_j> and
    b_i = sum c <d_i, e>. The covariance of b, V_ij = sum c^2 v <d_i, d_j>, is known, because the variances v of the
    noise are. A normal prior is combined with it by Bayes' rule, so that few marginals give weights near the prior
    mean, which is 1/3, or 1 / estimates if that is less. The most probable weights that are non-negative, the first one
    included, are returned.
    """
    first = _residuals(queries, estimates[0])
    differences = [_residuals(queries, estimate - estimates[0]) for estimate in estimates[1:]]
    count = len(differences)
    squares, covariance, gains = np.zeros((count, count)), np.zeros((count, count)), np.zeros(count)
    for part, influence in _influence(queries, weights).items():
        measured, variance = held_out.residual(part)
        difference = np.stack([residuals[part] for residuals in differences])
        products = difference @ difference.T
        squares += influence * products
        covariance += influence**2 * variance * products
        gains += influence * (difference @ (measured.ravel() - first[part]))
    if not np.trace(squares):
        return np.eye(1, len(estimates))[0], 0.0
    covariance += _RIDGE * np.trace(covariance) * np.eye(count)  # Estimates may be equal.
    precision = squares @ np.linalg.solve(covariance, squares) + np.eye(count) / _PRIOR_STDDEV**2
    linear = squares @ np.linalg.solve(covariance, gains) + min(_PRIOR_MEAN, 1 / len(estimates)) / _PRIOR_STDDEV**2
    stddev = math.sqrt(float(np.diag(np.linalg.inv(precision)).max()))
    return _least_on_simplex(np.pad(precision, (1, 0)), np.pad(linear, (1, 0))), stddev


def _least_on_simplex(precision: Real, linear: Real) -> Real:
    """The weights w >= 0 of sum 1 that minimise w' precision w / 2 - linear' w, by a search over their supports."""
    candidates: list[tuple[float, Real]] = []
    for size in range(1, len(linear) + 1):
        for support in map(list, combinations(range(len(linear)), size)):
            bordered = np.ones((size + 1, size + 1))
            bordered[-1, -1] = 0.0
            bordered[:size, :size] = precision[np.ix_(support, support)]
            weights = np.zeros(len(linear))
            weights[support] = np.linalg.solve(bordered, np.append(linear[support], 1.0))[:size]
            if weights.min() >= 0:
                candidates.append((float(weights @ precision @ weights / 2 - linear @ weights), weights))
    return min(candidates, key=itemgetter(0))[1]


def _residuals(queries: Marginals, values: Real) -> dict[Clique, Real]:
    """The residual of each subset of the cliques, raveled, from consistent answers."""
    return {part: residual.ravel() for part, residual in residuals_of_answers(queries, values).items()}


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
