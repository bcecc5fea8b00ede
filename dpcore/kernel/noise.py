"""Exact additive noise on integers, without a seed: one sampler for each guarantee. TRUSTED.

``certified_rejection`` draws it, on all cores; the error of its law is exactly 0. Tests hold opendp's discrete Laplace
and Gaussian against the same laws. ``noisy_maximum`` draws selections.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.kernel.blocks import Progress, in_blocks, silent
from dpcore.kernel.certified_rejection import fill
from dpcore.kernel.envelope import SMALLEST_SCALE, Law, envelope
from dpcore.measurement import GRID_BITS, Noise


def representable_scale(noise: Noise, scale: float) -> float:
    """Smallest scale >= ``scale``, in counts, that ``add_noise`` draws: the double itself from 2^-20 to 2^40.

    Raises ScaleError above 2^40 counts.
    """
    return Law(noise, max(scale, SMALLEST_SCALE)).scale


def add_noise(
    exact: NDArray[np.int64], noise: Noise, scale: float, progress: Progress = silent, workers: int = 0
) -> NDArray[np.int64]:
    """Independent exact noise on each integer, int64 [n]; what passes the int64 bounds is cut off there.

    exact: int64 [n], in counts; SENSITIVE.
    noise: Discrete Laplace and Gaussian give counts. The rounded Gaussian gives steps of 2^-GRID_BITS counts.
    scale: In counts, from 2^-20 to 2^40: b of the Laplace, sigma of the Gaussians.
    progress: Called with the values done and n.
    workers: Threads; 0 for one on each core.

    Formal guarantee: each value is exact + z with z drawn from exactly the law of ``envelope``; cutting off is
    post-processing. Memory: the result, and a few megabytes a thread.

    Raises ScaleError for a scale out of range, ValueError for ``exact`` of another shape or type.
    """
    if exact.ndim != 1 or exact.dtype != np.int64:
        raise ValueError(f"exact answers are {exact.dtype} of {exact.ndim} dimensions; want int64 of 1")
    made = envelope(Law(noise, scale))
    shift = GRID_BITS if made.law.is_real else 0
    noisy = np.empty(exact.size, dtype=np.int64)

    def work(block: slice) -> None:
        fill(made, noisy[block])
        _add_saturating(noisy[block], exact[block], shift)

    in_blocks(work, exact.size, progress, workers)
    return noisy


@compiled
def _add_saturating(noisy: NDArray[np.int64], exact: NDArray[np.int64], shift: int) -> None:
    """noisy += exact * 2^shift, both the product and the sum cut off at the int64 bounds."""
    largest, smallest = np.int64(9223372036854775807), np.int64(-9223372036854775808)
    for cell in range(noisy.size):
        value = min(max(exact[cell], smallest >> shift), largest >> shift) << shift
        more = noisy[cell]
        if more > 0 and value > largest - more:
            noisy[cell] = largest
        elif more < 0 and value < smallest - more:
            noisy[cell] = smallest
        else:
            noisy[cell] = value + more
