"""A model of public data, and the noisy comparison that decides whether a release starts from it.

The public table is fixed: it is the same for neighbouring datasets, so that its model is a public estimate like any
other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.errors import ScaleError
from dpcore.estimation.graphical.fitting.fit import FitSettings, GraphicalFit, fit_model
from dpcore.estimation.graphical.fitting.work import WorkMeter
from dpcore.estimation.graphical.structure.triangulation import Triangulation
from dpcore.estimation.public_table import PublicTable
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, Noise
from dpcore.mechanisms.shared.marginal_selection import Design, selection_error
from dpcore.mechanisms.shared.pgm_common import CELLS_IN_MB, clique_weights
from dpcore.queries import Marginals
from dpcore.strategies.clique_selection import NoisyDependence, ShareToNoise, choose_cliques

_SETTINGS: Final = FitSettings(prior_scale=5.0, tolerance=1e-2, iterations=500)
_CHANCE: Final = sqrt(2 / np.pi)  # Mean absolute value of a standard normal.


@dataclass(frozen=True)
class Comparison:
    """How a public model is compared with the private data.

    noise: Wanted noise of the mean error of a model over all pairs, as a part of the rows.
    min_share, max_share: Limits of the share of the budget that the errors of each of the two models take.
    max_noise: Nothing is compared if the mean errors of the two models would differ by more noise than this part of the
        rows. A mean error is at most 2.
    decisive_noise: Up to this noise of that difference, as a part of the rows, the expected errors of releases decide.
    margin: Largest expected error of a release from public data that is accepted, as a part of that from independent
        attributes. It is below 1, because independent attributes gain more from measured pairs than is expected (these
        imply others), and because pairs say nothing about the errors of public triples.
    doubt: With more noise the mean errors decide: a public model that looks worse by less than this is accepted, in
        standard deviations of the difference.
    """

    noise: float = 0.02
    min_share: float = 0.01
    max_share: float = 0.05
    max_noise: float = 1.0
    decisive_noise: float = 0.05
    margin: float = 0.75
    doubt: float = 1.0


def public_model(
    design: Design, table: PublicTable, max_model_mb: float, meter: WorkMeter | None = None
) -> GraphicalFit:
    """Fits a model to the marginals of a public table that tell most about the workload.

    design: One-way marginals and candidates.
    table: The public table, with the domain of the design.
    max_model_mb: Maximum size of the junction tree, in MiB.
    meter: Counts the work. By default there is no limit.

    The marginals are chosen as those of a release are, with the errors that the chance of sampling leaves in place of
    noise: a table of few rows has a small model.

    Raises: ValueError for a table of another domain.
    """
    domain = design.queries.domain
    if table.domain != domain:
        raise ValueError(f"a public table of {table.domain.names}; want the domain of the workload")
    independent = fit_model(domain, [_counted(design, table, clique) for clique in design.one_way], table.rows)
    cliques = [*design.one_way, *design.candidates]
    errors, chances = np.zeros(len(cliques)), np.zeros(len(cliques))
    for index, clique in enumerate(cliques):
        expected = table.rows * independent.calibrated.vector([clique])
        if len(clique) > 1:
            errors[index] = np.abs(table.counts(clique) - expected).sum()
        chances[index] = _CHANCE * np.minimum(np.sqrt(expected), 2 * expected).sum()
    stddevs = np.where(np.array([len(clique) for clique in cliques]) > 1, chances, 0.0)
    weights = clique_weights(design.workload, design.queries)
    errors[: len(design.one_way)] = chances[: len(design.one_way)]
    dependence = NoisyDependence(cliques, errors, stddevs, design.queries.cliques, weights)
    sizes = design.sizes(cliques)
    known = ShareToNoise(1.0, 0.5, sizes, sizes / table.rows, _constant(chances))
    selected = choose_cliques(dependence, known, Triangulation.of(domain, []), max_model_mb * CELLS_IN_MB)
    chosen = dict.fromkeys([*design.one_way, *(cliques[clique.candidate_index] for clique in selected)])
    return fit_model(domain, [_counted(design, table, clique) for clique in chosen], table.rows, _SETTINGS, meter=meter)


def is_accepted(
    private: PrivateStatistics,
    design: Design,
    measured: Sequence[Measurement],
    models: tuple[GraphicalFit, GraphicalFit],
    public: GraphicalFit,
    max_model_mb: float,
    settings: Comparison,
) -> bool:
    """Whether a release should start from public data, by noisy errors of two models on all pairs.

    measured: Measurements of the one-way marginals.
    models: The public model with these marginals, and independent attributes.
    public: The public model itself.
    max_model_mb: Maximum size of the model of the release, in MiB.

    The public model is accepted if a release from it is expected to have a much smaller error (``selection_error``); if
    noise hides that, if its mean error is the smaller one. It is also accepted where there are no pairs, because public
    one-way marginals are never trusted beyond what is measured; and never where the comparison would be noise alone.
    """
    if not design.by_order[0]:
        return True
    pairs, rows = design.queries.only(design.by_order[0]), models[1].total
    share = _share(private.terms, pairs, rows, settings)
    if share is None:
        return False
    errors = [
        private.measure_errors(pairs, model.total * model.calibrated.vector(pairs.cliques), share)  # MEASURE
        for model in models
    ]
    stddev = errors[0].stddev * sqrt(2 / len(pairs.cliques))
    if stddev > settings.decisive_noise * rows:
        return bool(errors[0].values.mean() < errors[1].values.mean() + settings.doubt * stddev)
    budget = private.remaining_share
    expected = [
        selection_error(private.terms, design, measured, model, [noisy], budget, max_model_mb, nodes)
        for model, noisy, nodes in zip(models, errors, (public.tree.nodes, ()), strict=True)
    ]
    return expected[0] <= settings.margin * expected[1]


def _share(terms: PrivacyTerms, pairs: Marginals, rows: float, settings: Comparison) -> Fraction | None:
    """The share of the errors of each model; None if their noise could not be drawn, or would be all that they say."""
    power = 1 if terms.noise is Noise.LAPLACE else 2
    try:
        scale = terms.errors_scale(pairs, Fraction(1)) / sqrt(len(pairs.cliques))
        share = min(settings.max_share, max(settings.min_share, (scale / (settings.noise * rows)) ** power))
        stddev = terms.errors_scale(pairs, Fraction(share)) * sqrt(2 / len(pairs.cliques))
    except ScaleError:
        return None
    return Fraction(share) if stddev <= settings.max_noise * rows else None


def _counted(design: Design, table: PublicTable, clique: Clique) -> Measurement:
    """The counts of a public marginal, with the chance of sampling as noise: its mean variance is rows / cells."""
    counts = table.counts(clique)
    return Measurement(design.marginal(clique), counts, Noise.ROUNDED_GAUSSIAN, sqrt(table.rows / counts.size))


def _constant(errors: NDArray[np.float64]) -> Callable[[int, NDArray[np.float64]], NDArray[np.float64]]:
    """The function ``remaining_errors`` of ``ShareToNoise`` for tables that no share makes more precise."""

    def remaining_errors(index: int, stddevs: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.full(len(stddevs), errors[index])

    return remaining_errors
