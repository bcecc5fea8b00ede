"""Offsets in two parts: those of every cell, in few entries."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.estimation.graphical.sampling.cell_offsets import cell_offsets

SHAPES: dict[tuple[int, ...], int] = {
    (): 1,
    (7,): 7,
    (3, 4): 4,
    (4, 3): 3,
    (20, 30, 2): 60,
    (2, 2, 2, 2, 2, 2): 8,
    (1, 9, 1): 9,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("positions", [0, 1, 5])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_cell_has_the_sum_of_its_codes_times_the_strides(shape: tuple[int, ...], positions: int, dtype: type) -> None:
    strides = np.random.default_rng(1).integers(-5, 1000, (len(shape), positions))
    high, low = cell_offsets(shape, strides, dtype)
    codes = np.indices(shape).reshape(len(shape), int(np.prod(shape))).T
    assert (high.dtype, low.dtype, len(low)) == (dtype, dtype, SHAPES[shape])
    assert (high[:, None] + low[None]).reshape(len(codes), positions).tolist() == (codes @ strides).tolist()
