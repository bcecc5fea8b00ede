"""Sums and products over merged axes against numpy over all axes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from dpcore.estimation.graphical.inference.axis_runs import multiply, summed

SHAPE = (2, 3, 1, 4, 2)


@pytest.mark.parametrize("kept", list(product((False, True), repeat=len(SHAPE))))
def test_equal_those_over_all_axes(kept: tuple[bool, ...]) -> None:
    values = np.random.default_rng(0).random(SHAPE)
    dropped = tuple(axis for axis, is_kept in enumerate(kept) if not is_kept)
    table = summed(values, kept)
    np.testing.assert_allclose(table, values.sum(axis=dropped), rtol=1e-14)
    assert table.shape == tuple(size for size, is_kept in zip(SHAPE, kept, strict=True) if is_kept)
    scaled = values.copy()
    multiply(scaled, table, kept)
    np.testing.assert_array_equal(scaled, values * np.expand_dims(table, dropped))
