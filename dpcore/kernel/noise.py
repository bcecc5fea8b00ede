"""Exact additive noise on integers, without a seed. TRUSTED.

``certified_rejection`` draws the noise on all cores, and the law of the noise has no error. The tests compare opendp's
discrete Laplace and discrete Gaussian samplers with the same laws.
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
    """The smallest scale at or above ``scale`` that ``add_noise`` can draw, in counts.

    Every double from 2^-20 to 2^40 can be drawn, so only smaller scales are raised.

    Raises ScaleError above 2^40 counts.
    """
    return Law(noise, max(scale, SMALLEST_SCALE)).scale


def add_noise(
    exact: NDArray[np.int64], noise: Noise, scale: float, progress: Progress = silent, workers: int = 0
) -> NDArray[np.int64]:
    """Adds independent exact noise to each integer.

    exact: The exact answers in counts, int64 [n]. SENSITIVE.
    noise: The law of the noise.
    scale: b of the Laplace law or sigma of the Gaussian laws, in counts, from 2^-20 to 2^40.
    progress: Called with (values done, n).
    workers: Number of threads; 0 stands for one thread per core.

    Formal guarantee: each value is exact + z, where z has exactly the law that ``envelope`` defines. Values beyond the
        bounds of int64 are clipped, which is post-processing.

    Returns: int64 [n], in counts for the discrete laws and in steps of 2^-GRID_BITS counts for the rounded Gaussian.
        Memory: the result and a few megabytes per thread.

    Raises: ScaleError for a scale out of range, and ValueError when ``exact`` is not a vector of int64.
    """
    if exact.ndim != 1 or exact.dtype != np.int64:
        raise ValueError(f"exact answers are {exact.dtype} of {exact.ndim} dimensions; want int64 of 1")
    noise_envelope = envelope(Law(noise, scale))
    shift = GRID_BITS if noise_envelope.law.is_real else 0
    noisy = np.empty(exact.size, dtype=np.int64)

    def work(block: slice) -> None:
        fill(noise_envelope, noisy[block])
        _add_saturating(noisy[block], exact[block], shift)

    in_blocks(work, exact.size, progress, workers)
    return noisy


@compiled
def _add_saturating(noisy: NDArray[np.int64], exact: NDArray[np.int64], shift: int) -> None:
    """noisy += exact * 2^shift, where both the product and the sum are clipped to the bounds of int64."""
    largest, smallest = np.int64(9223372036854775807), np.int64(-9223372036854775808)
    for cell in range(noisy.size):
        value = min(max(exact[cell], smallest >> shift), largest >> shift) << shift
        drawn = noisy[cell]
        if drawn > 0 and value > largest - drawn:
            noisy[cell] = largest
        elif drawn < 0 and value < smallest - drawn:
            noisy[cell] = smallest
        else:
            noisy[cell] = value + drawn
