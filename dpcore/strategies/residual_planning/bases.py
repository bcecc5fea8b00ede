"""Integer queries that measure residuals of marginals, exactly as well as an orthonormal basis would."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from dpcore.domain import Clique, Domain
from dpcore.queries import Product, Products
from dpcore.queries.residual_matrices import residual_matrix, residual_scale
from dpcore.strategies.residual_planning.planning import ResidualPlan

_LEAST_WEIGHT: Final = 1 << 7  # Rounding then moves shares by 2^-7 at most, errors by the variance of that.
_LARGEST_WEIGHT: Final = 1 << 30  # Times entries of a residual's matrices: answers about 2^32 rows stay below 2^62.


def _largest_entry(size: int) -> int:
    return 1 if size & (size - 1) == 0 else size - 1


def joint_queries(plan: ResidualPlan) -> Products:
    """All residuals of a plan in one stack of products, a term each: one noise for all of them, shared by weights.

    Weights are proportional to C_a^-1 s_a^(-1/2), rounded where the smallest is 128: each residual gets its share up to
    a relative 2^-7, and the error is the plan's up to 2^-14. All columns of the stack have one norm, so that one bound
    for all cells loses nothing.

    Raises ValueError as ``residual_matrix`` does, and where the shares are too far apart for integer weights.
    """
    scales = [math.prod(map(residual_scale, plan.domain.shape(clique))) for clique in plan.residuals]
    wanted = 1 / (np.array(scales) * np.sqrt(plan.noise))
    weights = np.rint(wanted * (_LEAST_WEIGHT / wanted.min()))
    entries = [math.prod(map(_largest_entry, plan.domain.shape(clique))) for clique in plan.residuals]
    if (weights * np.array(entries, dtype=np.float64)).max() > _LARGEST_WEIGHT:  # Larger answers would be cut off.
        raise ValueError("the residuals of a plan want precisions too far apart; want weights that differ less")
    # A factor that all weights share would only make longer integers.
    common = int(np.gcd.reduce(weights.astype(np.int64)))
    pairs = zip(plan.residuals, (weights.astype(np.int64) // common).tolist(), strict=True)
    return Products(plan.domain, tuple(_term(plan.domain, clique, weight) for clique, weight in pairs))


def joint_noise(plan: ResidualPlan, queries: Products) -> float:
    """Standard deviation of the noise in one integer answer of ``joint_queries`` for one unit of noise in the plan.

    With noise of k times it a marginal's cells have the variance k^2 plan.variances, up to the rounding of weights.
    """
    scales = [math.prod(map(residual_scale, plan.domain.shape(clique))) for clique in plan.residuals]
    weights = np.array([term.weight for term in queries.terms]) * np.array(scales)
    return float(np.sqrt(plan.shares @ (weights**2 * plan.noise)))


def _term(domain: Domain, clique: Clique, weight: int) -> Product:
    return Product(clique, tuple(map(residual_matrix, domain.shape(clique))), weight)
