"""Random linear terms of follow-the-perturbed-leader, on an integer grid, centred on known one-way marginals.

Without clauses the perturbation alone decides the record: it has the column of largest value in each one-hot group, and
outside the groups every column above 0. Offsets set the probability that each column wins, so that a game can start
from known one-way marginals instead of from uniform records. The noise keeps its law and its scale.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView

GRID: Final = 1 << 10  # Number of integer steps of a perturbation per weight of one query.
_MIN_PROBABILITY: Final = 1e-9


def exponential(
    offsets: NDArray[np.float64], scale: float, records: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Perturbations scale * (offset - Exponential(mean 1)) in steps of 1 / GRID: int64 [records, columns].

    offsets: float64 [columns], in units of the scale, as ``exponential_offsets`` computes them.
    scale: The scale of the noise, in weights of one query; positive.
    records: The number of records.
    generator: Draws the noise, which is public.

    Source: Vietri, Tian, Bun, Steinke and Wu (2020), Algorithm 2.
    """
    noise = generator.exponential(scale, size=(records, len(offsets)))
    return np.rint((scale * offsets - noise) * GRID).astype(np.int64)


def laplace(
    offsets: NDArray[np.float64], scale: float, records: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Perturbations scale * (offset + Laplace(scale 1)) in steps of 1 / GRID: int64 [records, columns].

    offsets: float64 [columns], in units of the scale, as ``laplace_offsets`` computes them.
    scale: The scale of the noise, in weights of one query; positive.
    records: The number of records.
    generator: Draws the noise, which is public.

    Source: Vietri, Tian, Bun, Steinke and Wu (2020), Algorithm 3.
    """
    noise = generator.laplace(0.0, scale, size=(records, len(offsets)))
    return np.rint((scale * offsets + noise) * GRID).astype(np.int64)


def exponential_offsets(view: BinaryView, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Offsets, in units of the scale, with which Exponential noise alone makes each column 1 with its probability.

    view: The columns of a record.
    probabilities: float64 [view.columns], the one-way marginals.

    Returns float64 [view.columns]. Outside the groups P(t > E) = 1 - exp(-t). In a group let p_1 >= p_2 >= ... have
    offsets t_1 >= t_2 >= ... While the largest value v lies between t_(j+1) and t_j, each of the first j columns
    reaches it with the same density exp(j v - t_1 - ... - t_j), and the others stay below. So p_j - p_(j+1) =
    (A_j - A_(j+1)) / j for A_j = exp(-sum over i < j of i (t_i - t_(i+1))), A_1 = 1: the gap t_j - t_(j+1) is
    log(A_j / A_(j+1)) / j with A_j = p_j + ... + p_last + (j - 1) p_j.
    """
    if not view.groups:
        return -np.log1p(-np.minimum(probabilities, 1 - _MIN_PROBABILITY))
    offsets = np.empty(view.columns)
    for start, stop in view.groups:
        order = np.argsort(-probabilities[start:stop], kind="stable")
        sorted_probabilities = np.maximum(probabilities[start:stop][order], _MIN_PROBABILITY)
        sorted_probabilities /= sorted_probabilities.sum()
        reached = np.cumsum(sorted_probabilities[::-1])[::-1] + np.arange(len(order)) * sorted_probabilities
        gaps = np.log(reached[:-1] / reached[1:]) / np.arange(1, len(order))
        offsets[start + order] = -np.append(0.0, np.cumsum(gaps))
    return offsets


def laplace_offsets(view: BinaryView, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Offsets, in units of the scale, with which Laplace noise alone makes each column 1 with about its probability.

    view: The columns of a record.
    probabilities: float64 [view.columns], the one-way marginals.

    Returns float64 [view.columns]. They are exact outside the groups. In a group they are log p: because the tail of
    the noise is exponential, this is right for rare columns and a little too uniform among frequent ones.
    """
    clipped = np.clip(probabilities, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
    if view.groups:
        return np.log(clipped)
    return np.where(clipped < 0.5, np.log(2 * clipped), -np.log(2 * (1 - clipped)))
