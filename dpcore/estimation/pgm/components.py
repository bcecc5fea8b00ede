"""Whole marginals as measurements of their orthogonal components: what overlapping cliques share is measured once.

A marginal on r is the sum over subsets s of r of its components w_s, each in a subspace of its own (``consistency``),
and iid noise is iid in each of them:

    sum_r tau_r |mu_r - y_r|^2 = sum_s p_s |w_s - v_s|^2 + constant,    p_s = sum over r above s of tau_r / n_(r - s),

with v_s the precision-weighted mean of what the measured marginals say about w_s. Potentials on the components have no
redundant directions, where those on overlapping marginals have as many as there are overlaps.

A measured residual, M_1 x ... x M_k with M_i'M_i = c_i^2 (I - 11' / n_i), tells one component alone: M'y / c^2 with the
precision c^2 / sigma^2, c the product of the c_i (``residual_matrix``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.least_squares import kronecker_times
from dpcore.estimation.pgm.consistency import split
from dpcore.estimation.pgm.linear_terms import LinearTerm

Vector = NDArray[np.float64]
_CLOSE: Final = 1e-9


def component_terms(domain: Domain, terms: Sequence[LinearTerm]) -> list[LinearTerm]:
    """The same squared loss but for a constant, for models of one total: components of whole marginals and of measured
    residuals; other terms are kept.

    The total, which is the same for all models, is left out unless nothing else was measured.
    """
    precisions: dict[Clique, float] = {}
    sums: dict[Clique, Vector] = {}
    others: list[LinearTerm] = []
    for term in terms:
        told = _told(domain, term)
        if told is None:
            others.append(term)
        for subset, component, precision in told or ():
            precisions[subset] = precisions.get(subset, 0.0) + precision
            sums[subset] = sums.get(subset, 0.0) + precision * component.ravel()
    found = [
        LinearTerm(subset, sums[subset] / precision, precision, centred=True)
        for subset, precision in precisions.items()
        if subset or len(precisions) == 1
    ]
    return found + others


def _told(domain: Domain, term: LinearTerm) -> list[tuple[Clique, Vector, float]] | None:
    """Components that a term tells, with precisions; None for a function that mixes them, or tells a part of one."""
    if term.matrices is None:
        tables = split(term.clique, term.values.reshape(domain.shape(term.clique)))
        return [(part, table, term.precision * table.size / term.values.size) for part, table in tables]
    scales = [_residual_scale(matrix.tobytes(), matrix.shape) for matrix in term.matrices]
    if not term.clique:
        scales = [float(term.matrices[0][0, 0] ** 2)]
    if 0.0 in scales:
        return None
    squared = math.prod(scales)
    values = kronecker_times([matrix.T for matrix in term.matrices], term.values) / squared
    return [(term.clique, values, term.precision * squared)]


@lru_cache(maxsize=256)
def _residual_scale(content: bytes, shape: tuple[int, int]) -> float:
    """c^2 where M'M = c^2 (I - 11' / n), n at least 2; else 0."""
    matrix, size = np.frombuffer(content).reshape(shape), shape[1]
    found = float((matrix**2).sum()) / max(1, size - 1)
    centred = np.eye(size) - 1 / size
    alike = size > 1 and found > 0 and np.abs(matrix.T @ matrix / found - centred).max() <= _CLOSE
    return found if alike else 0.0
