"""Measures many candidates at once: those of one attribute before the first round, or the whole workload."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpcore.estimation.graphical.fitting.fit import GraphicalFit
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.mechanisms.aim.candidates import RoundCandidates
from dpcore.mechanisms.aim.expected import mean_error, shares_by_size
from dpcore.mechanisms.aim.profile import AimProfile
from dpcore.mechanisms.shared.measured_residuals import MeasuredResiduals
from dpcore.queries import Marginals, Products
from dpcore.workload import Workload, added_weights


def measure_each(private: PrivateStatistics, candidates: RoundCandidates, share: Fraction) -> list[Measurement]:
    """Measures each of the candidates once."""
    shares = shares_by_size(candidates, share)
    return [private.measure(candidates.strategy(index), part) for index, part in enumerate(shares)]


def measure_all(
    private: PrivateStatistics, workload: Workload, whole: RoundCandidates, share: Fraction
) -> list[Measurement]:
    """Measures the whole workload at once, marginals by residuals if possible (``MeasuredResiduals.of``)."""
    if isinstance(workload.queries, Marginals) and isinstance(whole.queries, Marginals):
        weights = added_weights(workload, 1)
        measurable = Workload(whole.queries, np.array([weights[clique] for clique in whole.queries.cliques]))
        residuals = MeasuredResiduals.of(private.terms, measurable, error="absolute")
        if residuals is not None:
            return [private.measure(residuals.queries, share)]
    return measure_each(private, whole, share)


def can_hold_all(whole: RoundCandidates, max_cells: float) -> bool:
    """Whether a model of at most so many cells can hold all of these candidates, of which there is at least one."""
    if not whole.cliques:  # Every query of the workload is too large to be a candidate.
        return False
    return JunctionTree.of(whole.domain, whole.cliques).cells <= max_cells


def can_measure_all(
    profile: AimProfile,
    max_cells: float,
    terms: PrivacyTerms,
    whole: RoundCandidates,
    fit: GraphicalFit,
    share: Fraction,
) -> bool:
    """Whether a model can hold the whole workload, and this share measures it with little noise for its rows.

    max_cells: The largest model.
    whole: The candidates that are queries of the workload.
    fit: The fit of the one-way marginals.
    """
    if share <= 0 or not can_hold_all(whole, max_cells):
        return False
    max_error = profile.products_error if isinstance(whole.queries, Products) else profile.workload_error
    return mean_error(terms, whole, fit, share, "noise") <= max_error
