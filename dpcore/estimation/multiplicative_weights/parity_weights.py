"""Multiplicative weights on a dense distribution over binary attributes, for all measured parities at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain

_STEP_GROWTH, _STEP_DECAY = 1.5, 0.5  # Factors on the step after an update that lowered the loss, or did not.
_MIN_STEP: Final = 1e-12  # The updates stop at smaller steps, which would change nothing.
_MIN_PROBABILITY: Final = 1e-100  # Lower bound on a cell, because a cell of 0 could never grow again.


def walsh_hadamard(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Walsh-Hadamard transform: entry k is the sum over x of (-1)^(number of common bits of x and k) table[x].

    table: float64 [2^d].

    Returns float64 [2^d]. The transform is 2^d times its own inverse.

    Raises ValueError for a length that is not a power of two.
    """
    size = table.size
    if table.ndim != 1 or size & (size - 1) or not size:
        raise ValueError(f"a table of shape {table.shape}; want a vector of 2^d cells")
    sums = np.array(table, dtype=np.float64)
    width = 1
    while width < size:
        halves = sums.reshape(-1, 2, width)
        sums = np.stack([halves[:, 0] + halves[:, 1], halves[:, 0] - halves[:, 1]], axis=1).ravel()
        width *= 2
    return sums


def parity_indices(domain: Domain, cliques: Sequence[Clique]) -> NDArray[np.int64]:
    """The index of each clique's parity in ``walsh_hadamard`` of a table in C order: int64 [cliques].

    domain: Binary attributes.
    cliques: The attributes of each parity.
    """
    last = len(domain.names) - 1
    return np.array([sum(1 << (last - axis) for axis in domain.axes(clique)) for clique in cliques], dtype=np.int64)


def follow_parities(
    start: NDArray[np.float64],
    indices: NDArray[np.int64],
    values: NDArray[np.float64],
    *,
    within: float,
    iterations: int,
) -> NDArray[np.float64]:
    """The distribution p after multiplicative updates towards measured parities: float64 [2^d], with sum 1.

    start: float64 [2^d], positive, of any sum.
    indices: int64 [m], distinct, from ``parity_indices``.
    values: float64 [m], the measured parities divided by the number of rows. Because of the noise, there may be no
        distribution with exactly these parities.
    within: Stop once the root mean square of values_T - chi_T(p) is at most this.
    iterations: Maximum number of updates.

    An update is p(x) <- p(x) exp(step * sum over T of chi_T(x) (values_T - chi_T(p))), scaled to sum 1. The step is
    chosen such that the sum of squares of values_T - chi_T(p) decreases. This is mirror descent on that sum, whose
    minimum is 0 if some distribution has these parities. From a uniform start, the unmeasured parities stay close to
    those of the maximum-entropy distribution.

    Source: Hardt, Ligett and McSherry (2012), Fig. 1, step 3, for all measured parities at once.
    """
    probabilities: NDArray[np.float64] = start / start.sum()
    residuals = values - walsh_hadamard(probabilities)[indices]
    loss, step = float(residuals @ residuals), 1.0 / max(1, values.size)
    target_loss = values.size * within**2
    for _ in range(iterations):
        if loss <= target_loss or step < _MIN_STEP:
            break
        spectrum = np.zeros_like(probabilities)
        spectrum[indices] = residuals
        direction = walsh_hadamard(spectrum)
        updated = _updated(probabilities, step * direction)
        new_residuals = values - walsh_hadamard(updated)[indices]
        new_loss = float(new_residuals @ new_residuals)
        if new_loss < loss:
            probabilities, residuals, loss, step = updated, new_residuals, new_loss, step * _STEP_GROWTH
        else:
            step *= _STEP_DECAY
    return probabilities


def _updated(probabilities: NDArray[np.float64], exponents: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities times exp(exponents), scaled to sum 1 and then bounded below."""
    updated: NDArray[np.float64] = probabilities * np.exp(exponents - exponents.max())
    updated /= updated.sum()
    return np.maximum(updated, _MIN_PROBABILITY, out=updated)
