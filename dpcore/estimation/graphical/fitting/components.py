"""Whole marginals as measurements of their orthogonal components: what overlapping cliques share is measured once.

A marginal on r is the sum over subsets s of r of its components w_s, each in a subspace of its own (``consistency``),
and iid noise is iid in each of them:

    sum_r tau_r |mu_r - y_r|^2 = sum_s p_s |w_s - v_s|^2 + constant,    p_s = sum over r above s of tau_r / n_(r - s),

with v_s the precision-weighted mean of what the measured marginals say about w_s. Potentials on the components have no
redundant directions, where those on overlapping marginals have as many as there are overlaps.

A measured residual tells one component alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.consistency import component_estimates
from dpcore.estimation.graphical.fitting.linear_terms import LinearTerm

Vector = NDArray[np.float64]


def component_terms(domain: Domain, terms: Sequence[LinearTerm]) -> list[LinearTerm]:
    """The same squared loss but for a constant, for models of one total: components of whole marginals and of measured
    residuals; other terms are kept.

    The total, which is the same for all models, is left out unless nothing else was measured.
    """
    precisions: dict[Clique, float] = {}
    sums: dict[Clique, Vector] = {}
    others: list[LinearTerm] = []
    for term in terms:
        found = component_estimates(domain, term)
        if found is None:
            others.append(term)
            continue
        for subset, component, precision in found:
            precisions[subset] = precisions.get(subset, 0.0) + precision
            sums[subset] = sums.get(subset, 0.0) + precision * component.ravel()
    components = [
        LinearTerm(subset, sums[subset] / precision, precision, centred=True)
        for subset, precision in precisions.items()
        if subset or len(precisions) == 1
    ]
    return components + others
