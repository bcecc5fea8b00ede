"""Selects a batch of marginals from noisy errors, measured once, of all candidates or of a spanning forest of pairs.

Shared by clique_tree and AIM; AIM asks for no forest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.errors import ScaleError
from dpcore.estimation.graphical.fitting.expected_error import expected_errors, scale_of_distance
from dpcore.estimation.graphical.fitting.fit import GraphicalFit
from dpcore.estimation.graphical.fitting.linear_measurements import precision_of
from dpcore.estimation.graphical.fitting.work import WorkMeter
from dpcore.estimation.graphical.structure.triangulation import Triangulation
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, Noise, NoisyErrors
from dpcore.mechanisms.shared.pgm_common import CELLS_IN_MB, clique_weights, modelled
from dpcore.mechanisms.shared.predicted_seconds import scoring_reads
from dpcore.mechanisms.shared.spanning_forest import edges_of_forest, select_forest
from dpcore.queries import Marginals
from dpcore.strategies.allocation import split_by_size
from dpcore.strategies.clique_selection import (
    NoisyDependence,
    SelectedClique,
    ShareToNoise,
    choose_cliques,
    expected_error,
)
from dpcore.workload import Workload

_MAX_CELLS: Final = 1 << 26  # Cells of all candidates together: each vector over them then takes 512 MiB.
# Maximum noise in errors of pairs and of triples, as a fraction of the rows; above it the selection would be random.
_MAX_RELATIVE_NOISE: Final = (0.3, 0.05)
_MAX_NOISE_OF_FOREST: Final = 0.15  # The same for the errors of the pairs of a forest.


@final
@dataclass(frozen=True)
class Design:
    """The one-way marginals and the candidates that may be measured, from public facts alone.

    queries: The marginals of the workload, each once.
    workload: The workload itself, for its weights.
    order: Maximum number of attributes of a candidate.
    """

    queries: Marginals
    workload: Workload
    order: int

    @cached_property
    def one_way(self) -> tuple[Clique, ...]:
        return tuple((name,) for name in modelled(self.queries))

    @cached_property
    def by_order(self) -> tuple[tuple[Clique, ...], ...]:
        """Candidates with two attributes, then those with three, and so on.

        If all candidates together exceed the memory limit, the largest are left out.
        """
        orders = range(2, self.order + 1)
        subsets = [dict.fromkeys(c for clique in self.queries.cliques for c in combinations(clique, k)) for k in orders]
        cliques = [clique for group in subsets for clique in group]
        sizes = np.array([min(self.queries.domain.size(clique), 2 * _MAX_CELLS) for clique in cliques], dtype=np.int64)
        small_first = np.argsort(sizes, kind="stable")
        kept = {cliques[index] for index in small_first[np.cumsum(sizes[small_first]) <= _MAX_CELLS].tolist()}
        return tuple(tuple(clique for clique in group if clique in kept) for group in subsets)

    @property
    def pairs(self) -> tuple[Clique, ...]:
        return self.by_order[0] if self.by_order else ()

    @cached_property
    def candidates(self) -> tuple[Clique, ...]:
        return tuple(clique for group in self.by_order for clique in group)

    @property
    def cells(self) -> int:
        """Cells of all one-way marginals and candidates together."""
        return int(self.sizes([*self.one_way, *self.candidates]).sum())

    def one_way_shares(self, share: Fraction) -> list[tuple[Clique, Fraction]]:
        """The one-way marginals, each with its part of ``share``."""
        shares = split_by_size(self.sizes(self.one_way), np.ones(len(self.one_way)), share)
        return list(zip(self.one_way, shares, strict=True))

    def marginal(self, clique: Clique) -> Marginals:
        return self.queries.only([clique])

    def sizes(self, cliques: Sequence[Clique]) -> NDArray[np.int64]:
        return np.array([self.queries.domain.size(clique) for clique in cliques], dtype=np.int64)


def noisy_errors(private: PrivateStatistics, design: Design, fit: GraphicalFit, share: Fraction) -> list[NoisyErrors]:
    """Measures the noisy L1 errors of a model on all candidates, for at most ``share`` of the budget.

    Errors of pairs are requested only if their noise is at most 30 % of the number of rows, and then errors of triples
    only if theirs is at most 5 %.
    """
    groups = [design.queries.only(group) for group in design.by_order if group]
    group_share = share / max(1, len(groups))
    noisy: list[NoisyErrors] = []
    for queries, max_relative_noise in zip(groups, _MAX_RELATIVE_NOISE, strict=False):
        if not _is_noise_at_most(private.terms, queries, group_share, max_relative_noise * fit.total):
            break
        estimate = fit.total * fit.calibrated.vector(queries.cliques)
        noisy.append(private.measure_errors(queries, estimate, group_share))
    return noisy


def noisy_errors_of_forest(
    private: PrivateStatistics, design: Design, fit: GraphicalFit, share: Fraction, meter: WorkMeter
) -> list[NoisyErrors]:
    """Selects a spanning forest of pairs, and measures the noisy errors of these alone, for at most ``share``.

    For many attributes and few rows, where the noise in errors of all pairs would exceed 30 % of the rows: a forest has
    fewer pairs, so that there is less noise. Nothing is asked if it would still exceed 15 %, or if all pairs form one
    forest, or if the selections would take more work than there is. The errors are measured anew, so that the choice of
    the largest does not bias them.

    fit: The model of the one-way marginals.
    meter: Counts the work of the selections.
    """
    pairs, half = design.pairs, share / 2
    edges, work = edges_of_forest(pairs), work_of_forest(design)
    limit = _MAX_NOISE_OF_FOREST * fit.total
    if not work or work > meter.remaining:
        return []
    if not _is_noise_at_most(private.terms, design.queries.only(pairs[:edges]), half, limit):
        return []
    forest = select_forest(private, design.queries, pairs, fit, half / edges)  # SELECT
    meter.spend(work)
    queries = design.queries.only(sorted(forest, key=pairs.index))
    return [private.measure_errors(queries, fit.total * fit.calibrated.vector(queries.cliques), half)]  # MEASURE


def work_of_forest(design: Design) -> float:
    """The work of selecting a spanning forest of pairs, in reads; 0 if all pairs form one forest."""
    pairs, edges = design.pairs, edges_of_forest(design.pairs)
    return edges * scoring_reads(len(pairs), int(design.sizes(pairs).sum()), 0.0) if edges < len(pairs) else 0.0


def _is_noise_at_most(terms: PrivacyTerms, queries: Marginals, share: Fraction, max_scale: float) -> bool:
    """Whether the noise scale of errors, in counts, stays within a limit; False for a scale that cannot be drawn."""
    try:
        return terms.errors_scale(queries, share) <= max_scale
    except ScaleError:
        return False


def select_marginals(
    terms: PrivacyTerms,
    design: Design,
    measured: Sequence[Measurement],
    fit: GraphicalFit,
    errors: Sequence[NoisyErrors],
    budget: Fraction,
    max_model_mb: float,
    nodes: Sequence[Clique] = (),
) -> list[tuple[Marginals, Fraction]]:
    """Selects the marginals to measure together, each with its share of the whole budget.

    measured: Measurements of the one-way marginals.
    fit: The model of these measurements.
    errors: Noisy errors of that model.
    budget: Share of the whole budget that the selected marginals get together.
    max_model_mb: Maximum size of the junction tree of the selected cliques, in MiB.
    nodes: Nodes of a public model, which the junction tree holds, if ``fit`` starts from it. Its errors are
        then expected to be small and many (``_mean_square_errors``); those of independent attributes, few and large.

    Returns the one-way marginals if there are no noisy errors.
    """
    if not errors:
        return [(design.marginal(clique), share) for clique, share in design.one_way_shares(budget)]
    facts = _Facts.of(terms, design, measured, fit, errors, budget)
    selected = facts.chosen(nodes, max_model_mb)
    shares = [(facts.cliques[clique.candidate_index], budget * clique.share) for clique in selected]
    return [(design.marginal(clique), share) for clique, share in shares]


def selection_error(
    terms: PrivacyTerms,
    design: Design,
    measured: Sequence[Measurement],
    fit: GraphicalFit,
    errors: Sequence[NoisyErrors],
    budget: Fraction,
    max_model_mb: float,
    nodes: Sequence[Clique] = (),
) -> float:
    """The error that is expected of the workload after ``select_marginals``: the weighted sum, in counts.

    Whatever chose the marginals, the expected error follows from ``_mean_square_errors``. The arguments are those of
    ``select_marginals``.
    """
    facts = _Facts.of(terms, design, measured, fit, errors, budget)
    return expected_error(facts.likely, facts.share_to_noise(facts.likely), facts.chosen(nodes, max_model_mb))


@final
@dataclass(frozen=True)
class _Facts:
    """What a selection follows from. The arguments of ``of`` are those of ``select_marginals``.

    cliques: The one-way marginals and the candidates with noisy errors.
    precisions: Of earlier measurements of each clique, float64 [cliques], in 1 / counts^2.
    one_way_errors: Expected errors of the one-way marginals, in counts.
    """

    terms: PrivacyTerms
    design: Design
    fit: GraphicalFit
    errors: Sequence[NoisyErrors]
    budget: Fraction
    cliques: Sequence[Clique]
    precisions: NDArray[np.float64]
    one_way_errors: Sequence[float]

    @classmethod
    def of(
        cls,
        terms: PrivacyTerms,
        design: Design,
        measured: Sequence[Measurement],
        fit: GraphicalFit,
        errors: Sequence[NoisyErrors],
        budget: Fraction,
    ) -> _Facts:
        cliques = [*design.one_way, *(clique for noisy in errors for clique in noisy.queries.cliques)]
        precisions = _precisions(cliques, measured)
        one_way_errors = [
            expected_l1_error(fit, clique, precision**-0.5)
            for clique, precision in zip(design.one_way, precisions[: len(design.one_way)].tolist(), strict=True)
        ]
        return cls(terms, design, fit, errors, budget, cliques, precisions, one_way_errors)

    @cached_property
    def likely(self) -> NoisyDependence:
        """Errors that are small and many."""
        return self._dependence([(_mean_square_errors(noisy), 0.0) for noisy in self.errors])

    @cached_property
    def certain(self) -> NoisyDependence:
        """Errors that are few and large, as they were measured."""
        return self._dependence([(noisy.values, noisy.stddev) for noisy in self.errors])

    def chosen(self, nodes: Sequence[Clique], max_model_mb: float) -> tuple[SelectedClique, ...]:
        structure = Triangulation.of(self.fit.tree.domain, nodes)
        dependence = self.likely if nodes else self.certain
        return choose_cliques(dependence, self.share_to_noise(dependence), structure, max_model_mb * CELLS_IN_MB)

    def share_to_noise(self, dependence: NoisyDependence) -> ShareToNoise:
        """The noise of each clique at each share of the budget."""
        power = 1.0 if self.terms.noise is Noise.LAPLACE else 0.5
        unit = self.terms.measure_scale(self.design.marginal(self.cliques[0]), self.budget)
        remaining_errors = _remaining_errors(self.fit, self.cliques, dependence.distances)
        return ShareToNoise(unit, power, self.design.sizes(self.cliques), self.precisions, remaining_errors)

    def _dependence(self, deviations: Sequence[tuple[NDArray[np.float64], float]]) -> NoisyDependence:
        """The candidates with their errors: those of one-way marginals, then given ones, each with the noise in it."""
        exact = np.zeros(len(self.one_way_errors))
        return NoisyDependence(
            self.cliques,
            np.concatenate([self.one_way_errors, *(values for values, _ in deviations)]),
            np.concatenate([exact, *(np.full(len(values), stddev) for values, stddev in deviations)]),
            self.design.queries.cliques,
            clique_weights(self.design.workload, self.design.queries),
        )


def _mean_square_errors(noisy: NoisyErrors) -> NDArray[np.float64]:
    """Root mean squares of the errors given their noisy values, float64 [cliques].

    The errors of a model that is nearly right are small, and many: noise hides each of them, but not their mean square
    t^2. With the prior N(0, t^2) and noise of variance s^2, the posterior mean of the square of an error with the noisy
    value y is k^2 y^2 + k s^2 for k = t^2 / (t^2 + s^2).
    """
    square = max(0.0, float((noisy.values**2).mean()) - noisy.stddev**2)
    if square == 0.0:
        return np.zeros(len(noisy.values))
    kept = square / (square + noisy.stddev**2)
    return np.sqrt(kept**2 * noisy.values**2 + kept * noisy.stddev**2)


def _precisions(cliques: Sequence[Clique], measured: Sequence[Measurement]) -> NDArray[np.float64]:
    """Sum of 1 / sigma^2 over the measurements of each clique, in 1 / counts^2; float64 [cliques]."""
    index_of = {clique: index for index, clique in enumerate(cliques)}
    precisions = np.zeros(len(cliques))
    for measurement in measured:
        assert isinstance(measurement.queries, Marginals)
        precisions[index_of[measurement.queries.cliques[0]]] += precision_of(measurement)
    return precisions


def expected_l1_error(fit: GraphicalFit, clique: Clique, stddev: float) -> float:
    """Expected L1 error of a marginal that is measured with noise of this standard deviation, in counts."""
    return float(expected_errors(fit.total * fit.calibrated.vector([clique]), stddev).sum())


def _remaining_errors(
    fit: GraphicalFit, cliques: Sequence[Clique], distances: NDArray[np.float64]
) -> Callable[[int, NDArray[np.float64]], NDArray[np.float64]]:
    """The function ``remaining_errors`` of ``ShareToNoise``, with the fit's counts as the expected ones.

    distances: float64 [cliques], the L1 distance of each from the fit, in counts. A measurement that is nearly all
        noise leaves a marginal of several attributes as far from the data. Those of single attributes are not used,
        because the fit has seen a measurement of each.
    """

    def remaining_errors(index: int, stddevs: NDArray[np.float64]) -> NDArray[np.float64]:
        counts = fit.total * fit.calibrated.vector([cliques[index]])
        scale = scale_of_distance(counts, float(distances[index])) if len(cliques[index]) > 1 else 1.0
        return np.array([expected_errors(counts, stddev, scale).sum() for stddev in stddevs.tolist()])

    return remaining_errors
