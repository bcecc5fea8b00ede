"""Rewrites measured marginals as measurements of orthogonal components, so that overlaps are counted once.

A marginal on r is the sum over subsets s of r of its components w_s, each in a subspace of its own (``consistency``),
and iid noise is iid in each of them:

    sum_r tau_r |mu_r - y_r|^2 = sum_s p_s |w_s - v_s|^2 + constant,    p_s = sum over r above s of tau_r / n_(r - s),

with v_s the precision-weighted mean of the estimates of w_s from the measured marginals. Potentials on overlapping
marginals have redundant directions, one for each overlap; potentials on components have none.

A measured residual determines exactly one component.

Source: derived above; the subspaces are those of ``consistency``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.consistency import component_estimates
from dpcore.estimation.graphical.fitting.linear_measurements import LinearMeasurement

Vector = NDArray[np.float64]


def component_measurements(domain: Domain, measurements: Sequence[LinearMeasurement]) -> list[LinearMeasurement]:
    """Replaces whole marginals and measured residuals by measurements of their components; others are kept.

    For models of one total the squared loss is the same up to a constant. The total, which is the same for all such
    models, is omitted unless nothing else was measured.
    """
    precisions: dict[Clique, float] = {}
    weighted_sums: dict[Clique, Vector] = {}
    others: list[LinearMeasurement] = []
    for measurement in measurements:
        estimates = component_estimates(domain, measurement)
        if estimates is None:
            others.append(measurement)
            continue
        for subset, component, precision in estimates:
            precisions[subset] = precisions.get(subset, 0.0) + precision
            weighted_sums[subset] = weighted_sums.get(subset, 0.0) + precision * component.ravel()
    components = [
        LinearMeasurement(subset, weighted_sums[subset] / precision, precision, centred=True)
        for subset, precision in precisions.items()
        if subset or len(precisions) == 1
    ]
    return components + others
