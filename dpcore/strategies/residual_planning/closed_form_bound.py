"""A lower bound on the error of every strategy for products of queries of single attributes, in closed form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from dpcore.strategies.residual_planning.attribute_residuals import AttributeResidual, Split
from dpcore.strategies.residual_planning.clique_parts import CliqueParts

_ROUNDS: Final = 6  # Maximum number of rounds over the attributes.
_MIN_GAIN: Final = 1e-5  # The rounds stop after one whose relative gain is smaller than this.


def closed_form_bound(
    parts: CliqueParts, attributes: Sequence[AttributeResidual], splits: Sequence[Split | None]
) -> float:
    """A lower bound on the error of every strategy.

    parts: The parts of the workload's cliques.
    attributes: One per attribute of ``parts``.
    splits: The split of each attribute, whose multipliers are used; None if u = 1 / n.

    Let W be the stacked queries over all cells, D a diagonal matrix of trace 1, and Z = Q D^(1/2) for a contraction Q.
    Every X whose diagonal entries are at most 1 then has tr(W X^-1 W') >= <W, Z>^2 / tr(Z X Z') >= <W, Z>^2. Here D is
    the product over attributes of diag(v_i). On clique b, Q is the product of the attributes' Q_i, weighted on each
    part a of b such that the squared weights add up to 1 over b. The bound is then the closed form of the error, with
    (sigma_i^2, tau_i^2) in place of (s0_i, t_i). It takes no more time than the error itself.
    """
    means = np.array([attribute.mean for attribute in attributes])
    rests = np.array([attribute.rest for attribute in attributes])
    multipliers = {index: split.multipliers for index, split in enumerate(splits) if split is not None}
    kappas, best_bound = dict.fromkeys(multipliers, 1.0), 0.0
    for _ in range(_ROUNDS if multipliers else 1):
        for index, v in multipliers.items():
            means[index], rests[index] = attributes[index].lower_bound_terms(v, kappas[index])
        loss = parts.loss(means, rests)
        if loss.value <= best_bound * (1 + _MIN_GAIN):
            break
        best_bound = loss.value
        for index in multipliers:
            slope = loss.by_mean[index] * math.sqrt(means[index])
            kappas[index] = slope / (loss.by_rest[index] * math.sqrt(rests[index]))
    return best_bound**2
