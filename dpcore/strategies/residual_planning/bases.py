"""Integer queries that measure the residuals of a plan exactly as precisely as an orthonormal basis would."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from dpcore.domain import Clique, Domain
from dpcore.queries import Product, Products
from dpcore.queries.residual_matrices import residual_matrix, residual_scale
from dpcore.strategies.residual_planning.planning import ResidualPlan

_MIN_WEIGHT: Final = 1 << 7  # Rounding a weight of at least 128 changes its share by a factor of at most 1 + 2^-7.
# Largest product of a weight and the entries of a residual's matrices: with 2^32 rows, answers stay below 2^62.
_MAX_ENTRY: Final = 1 << 30


def _largest_entry(size: int) -> int:
    """The largest absolute entry of ``residual_matrix(size)``."""
    return 1 if size & (size - 1) == 0 else size - 1


def joint_queries(plan: ResidualPlan) -> Products:
    """All residuals of a plan as one stack of products, one term per residual, to be measured with one noise scale.

    plan: The plan, whose shares become the weights of the terms.

    The weights are proportional to C_a^-1 s_a^(-1/2), with C_a the product of ``residual_scale`` over the attributes
    of a. They are scaled so that the smallest is 128 and then rounded. Each residual gets its share up to a relative
    error of 2^-7, and the total error is that of the plan up to a relative 2^-14. All columns of the stack have the
    same norm, so the sensitivity is the same for every cell.

    Raises ValueError as ``residual_matrix`` does, and if the shares differ by too much for integer weights.
    """
    scales = [math.prod(map(residual_scale, plan.domain.shape(clique))) for clique in plan.residuals]
    ideal_weights = 1 / (np.array(scales) * np.sqrt(plan.noise))
    weights = np.rint(ideal_weights * (_MIN_WEIGHT / ideal_weights.min()))
    entries = [math.prod(map(_largest_entry, plan.domain.shape(clique))) for clique in plan.residuals]
    if (weights * np.array(entries, dtype=np.float64)).max() > _MAX_ENTRY:  # Answers above 2^62 would be clipped.
        raise ValueError("the precisions of a plan's residuals differ by too much; want weights that differ less")
    # A common factor of all weights would only lengthen the integers.
    common = int(np.gcd.reduce(weights.astype(np.int64)))
    pairs = zip(plan.residuals, (weights.astype(np.int64) // common).tolist(), strict=True)
    return Products(plan.domain, tuple(_term(plan.domain, clique, weight) for clique, weight in pairs))


def joint_noise(plan: ResidualPlan, queries: Products) -> float:
    """The standard deviation of the noise in one integer answer that corresponds to unit noise in the plan.

    plan: The plan.
    queries: ``joint_queries(plan)``.

    Noise of k times this standard deviation gives the cells of each marginal the variance k^2 plan.variances, up to the
    rounding of the weights.
    """
    scales = [math.prod(map(residual_scale, plan.domain.shape(clique))) for clique in plan.residuals]
    weights = np.array([term.weight for term in queries.terms]) * np.array(scales)
    return float(np.sqrt(plan.shares @ (weights**2 * plan.noise)))


def _term(domain: Domain, clique: Clique, weight: int) -> Product:
    return Product(clique, tuple(map(residual_matrix, domain.shape(clique))), weight)
