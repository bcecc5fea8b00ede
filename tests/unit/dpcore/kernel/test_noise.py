"""Noise at its edges: sizes, scales, the ends of int64, progress, processes; and selection far apart."""

from __future__ import annotations

import math
import multiprocessing
import os

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.errors import ScaleError
from dpcore.kernel.blocks import BLOCK
from dpcore.kernel.budget import Currency
from dpcore.kernel.envelope import LARGEST_SCALE, SMALLEST_SCALE
from dpcore.kernel.noise import add_noise, representable_scale
from dpcore.kernel.noisy_maximum import noisy_argmax
from dpcore.measurement import GRID_BITS, Noise
from tests.support.recorded_randomness import drawn_from_the_system

ENDS = np.iinfo(np.int64)
STEPS = {Noise.LAPLACE: 1, Noise.GAUSSIAN: 1, Noise.ROUNDED_GAUSSIAN: 1 << GRID_BITS}


def zeros(size: int) -> NDArray[np.int64]:
    return np.zeros(size, dtype=np.int64)


@pytest.mark.parametrize("noise", list(Noise))
@pytest.mark.parametrize("size", [0, 1, BLOCK, BLOCK + 1])
def test_any_size_and_progress_to_its_end(noise: Noise, size: int) -> None:
    reports: list[tuple[int, int]] = []
    noisy = add_noise(zeros(size), noise, 5.0, progress=lambda done, total: reports.append((done, total)))
    assert noisy.dtype == np.int64
    assert noisy.shape == (size,)
    assert len(reports) == -(-size // BLOCK)
    assert not reports or reports[-1] == (size, size)


@pytest.mark.parametrize("noise", list(Noise))
def test_the_smallest_scale_adds_nothing(noise: Noise) -> None:
    """Mass outside 0 is below exp(-2^16)."""
    exact = np.array([-7, 0, 123456789] * 1000)
    assert np.array_equal(add_noise(exact, noise, SMALLEST_SCALE), exact * STEPS[noise])


@pytest.mark.parametrize("noise", list(Noise))
def test_the_largest_scale_reaches_far(noise: Noise) -> None:
    """The root mean square of 10,000 values is within 5 standard deviations, at most 7 %, of the law's."""
    noisy = add_noise(zeros(10_000), noise, LARGEST_SCALE) / STEPS[noise]
    stddev = LARGEST_SCALE * (math.sqrt(2) if noise is Noise.LAPLACE else 1.0)
    assert math.sqrt(np.square(noisy).mean()) == pytest.approx(stddev, rel=0.07)


@pytest.mark.parametrize("noise", list(Noise))
def test_sums_are_cut_off_at_the_ends_of_int64(noise: Noise) -> None:
    exact = np.repeat(np.array([ENDS.min, ENDS.max]), 200)
    noisy = add_noise(exact, noise, 1000.0)
    reach = 100_000 * STEPS[noise]  # 100 scales.
    assert (noisy[:200] < ENDS.min + reach).all()
    assert (noisy[200:] > ENDS.max - reach).all()
    assert (noisy[:200] == ENDS.min).sum() > 20
    assert noise is Noise.ROUNDED_GAUSSIAN or (noisy[200:] == ENDS.max).sum() > 20


def test_an_answer_that_has_no_steps_is_cut_off_first() -> None:
    exact = np.array([2**53 - 1, -(2**53), 2**53, 2**60, -(2**53) - 1, -(2**60)])
    wanted = [(2**53 - 1) << 10, -(2**63), (2**53 - 1) << 10, (2**53 - 1) << 10, -(2**63), -(2**63)]
    assert add_noise(exact, Noise.ROUNDED_GAUSSIAN, SMALLEST_SCALE).tolist() == wanted


@pytest.mark.parametrize("noise", list(Noise))
def test_the_exact_answers_are_left_alone_and_read_through_any_stride(noise: Noise) -> None:
    exact = np.arange(1000)
    exact.setflags(write=False)
    noisy = add_noise(exact[::-2], noise, SMALLEST_SCALE)
    assert np.array_equal(noisy, exact[::-2] * STEPS[noise])


@pytest.mark.parametrize("exact", [np.zeros(3), np.zeros((2, 2), dtype=np.int64), np.zeros(3, dtype=np.int32)])
def test_other_arrays_are_refused(exact: NDArray[np.int64]) -> None:
    with pytest.raises(ValueError, match=r"exact answers are .* dimensions; want int64 of 1"):
        add_noise(exact, Noise.LAPLACE, 1.0)


@pytest.mark.parametrize("noise", list(Noise))
def test_scales_out_of_range_are_refused_and_small_ones_can_be_raised(noise: Noise) -> None:
    for scale in (0.0, SMALLEST_SCALE / 2, 2 * LARGEST_SCALE, math.nan):
        with pytest.raises(ScaleError, match=r"want 2\^-20 <= scale <= 2\^40"):
            add_noise(zeros(1), noise, scale)
    assert representable_scale(noise, 1e-9) == SMALLEST_SCALE
    assert representable_scale(noise, 0.1) == 0.1
    with pytest.raises(ScaleError, match=r"want 2\^-20 <= scale <= 2\^40"):
        representable_scale(noise, 2 * LARGEST_SCALE)


@pytest.mark.parametrize("noise", list(Noise))
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_no_block_and_no_call_repeats_another(noise: Noise, workers: int) -> None:
    """Two equal runs of 1000 values at scale 10^6 have a chance below 10^-5000."""
    noisy = add_noise(zeros(3 * BLOCK), noise, 1e6, workers=workers)
    parts = [*noisy.reshape(3, BLOCK), add_noise(zeros(BLOCK), noise, 1e6, workers=workers)]
    for i, one in enumerate(parts):
        assert not any(np.array_equal(one[:1000], other[:1000]) for other in parts[:i])


def _drawn_in_a_child(queue: multiprocessing.Queue[tuple[int, list[int]]]) -> None:
    queue.put((os.getpid(), add_noise(zeros(100), Noise.GAUSSIAN, 1e6).tolist()))


def test_forked_processes_never_repeat_each_other() -> None:
    """A generator that lives in the process would give both children, and the parent, the same values."""
    context = multiprocessing.get_context("fork")
    queue: multiprocessing.Queue[tuple[int, list[int]]] = context.Queue()
    children = [context.Process(target=_drawn_in_a_child, args=(queue,)) for _ in range(2)]
    with drawn_from_the_system():
        add_noise(zeros(100), Noise.GAUSSIAN, 1e6)
        for child in children:
            child.start()
        drawn = [queue.get(timeout=120) for _ in children]
        for child in children:
            child.join()
        own = add_noise(zeros(100), Noise.GAUSSIAN, 1e6).tolist()
    assert len({pid for pid, _ in drawn}) == 2
    values = [*(draws for _, draws in drawn), own]
    assert len({tuple(draws) for draws in values}) == 3


@pytest.mark.parametrize("currency", list(Currency))
def test_a_score_far_above_the_rest_wins_at_any_size(currency: Currency) -> None:
    """A lead of 100 scales loses with a chance below 1e-40."""
    for size in (10**3, 2**60):
        assert noisy_argmax(np.array([-size, 0, size]), currency, size / 100) == 2
