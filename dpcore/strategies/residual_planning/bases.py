"""Integer queries that measure the residuals of a plan with the same precision as an orthonormal basis would."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from dpcore.domain import Clique, Domain
from dpcore.queries import Product, Products
from dpcore.queries.residual_matrices import residual_matrix, residual_scale
from dpcore.strategies.residual_planning.planning import ResidualPlan

_MIN_WEIGHT: Final = 1 << 7  # Rounding weights of at least this moves shares by at most 2^-7 of themselves.
_MAX_ENTRY: Final = 1 << 30  # Weight times entries of a residual's matrices: 2^32 rows have answers below 2^62.


def _largest_entry(size: int) -> int:
    return 1 if size & (size - 1) == 0 else size - 1


def joint_queries(plan: ResidualPlan) -> Products:
    """All residuals of a plan as one stack of products, one term per residual, to be measured with one noise.

    plan: The plan, whose shares become the weights of the terms.

    Weights are proportional to C_a^-1 s_a^(-1/2), rounded where the smallest is 128: each residual gets its share up to
    a relative 2^-7, and the error is the plan's up to 2^-14. All columns of the stack have the same norm, so that one
    sensitivity for all cells is exact.

    Raises ValueError as ``residual_matrix`` does, and where the shares are too far apart for integer weights.
    """
    scales = [math.prod(map(residual_scale, plan.domain.shape(clique))) for clique in plan.residuals]
    ideal_weights = 1 / (np.array(scales) * np.sqrt(plan.noise))
    weights = np.rint(ideal_weights * (_MIN_WEIGHT / ideal_weights.min()))
    entries = [math.prod(map(_largest_entry, plan.domain.shape(clique))) for clique in plan.residuals]
    if (weights * np.array(entries, dtype=np.float64)).max() > _MAX_ENTRY:  # Larger answers would be cut off.
        raise ValueError("the residuals of a plan want precisions too far apart; want weights that differ less")
    # A factor that all weights share would only make longer integers.
    common = int(np.gcd.reduce(weights.astype(np.int64)))
    pairs = zip(plan.residuals, (weights.astype(np.int64) // common).tolist(), strict=True)
    return Products(plan.domain, tuple(_term(plan.domain, clique, weight) for clique, weight in pairs))


def joint_noise(plan: ResidualPlan, queries: Products) -> float:
    """The standard deviation of the noise in one integer answer that corresponds to unit noise in the plan.

    plan: The plan.
    queries: ``joint_queries(plan)``.

    With noise of k times the returned value a marginal's cells have the variance k^2 plan.variances, up to the rounding
    of weights.
    """
    scales = [math.prod(map(residual_scale, plan.domain.shape(clique))) for clique in plan.residuals]
    weights = np.array([term.weight for term in queries.terms]) * np.array(scales)
    return float(np.sqrt(plan.shares @ (weights**2 * plan.noise)))


def _term(domain: Domain, clique: Clique, weight: int) -> Product:
    return Product(clique, tuple(map(residual_matrix, domain.shape(clique))), weight)
