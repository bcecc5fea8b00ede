"""Frames of residuals: what they satisfy, and what is no frame."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.queries.residual_frames import ResidualFrame


def leaning(size: int, rows: int, seed: int) -> NDArray[np.int64]:
    """Integer rows that are 0 on (1, 2, 3, ..., n)."""
    generator = np.random.default_rng(seed)
    first = generator.integers(-9, 10, size=(rows, size))
    first[:, 0] -= first @ np.arange(1, size + 1)
    return first


@pytest.mark.parametrize(("size", "rows"), [(2, 1), (5, 4), (5, 9), (12, 11)])
def test_total_and_residual_make_the_counts(size: int, rows: int) -> None:
    matrix = leaning(size, rows, size)
    frame = ResidualFrame.of(matrix)
    u = np.arange(1, size + 1) / (size * (size + 1) / 2)
    np.testing.assert_allclose(frame.mean, u)
    np.testing.assert_allclose(frame.inverse.sum(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(frame.inverse @ matrix + np.outer(u, np.ones(size)), np.eye(size), atol=1e-9)
    np.testing.assert_allclose(frame.inverse, (np.eye(size) - u[:, None]) @ np.linalg.pinv(matrix), atol=1e-9)
    assert frame.cost == max(int(column @ column) for column in matrix.T)


def test_an_attribute_of_one_value_has_no_residual() -> None:
    frame = ResidualFrame.of(np.zeros((0, 1), dtype=np.int64))
    assert frame.mean.tolist() == [1.0]
    assert frame.inverse.shape == (1, 0)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1, -1, 0]], "1 queries of the residual of 3 values; want 2 or more"),
        ([[1, -1, 0], [2, -2, 0]], "miss a part of the residual; want 2 independent rows"),
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], "queries that depend on the total"),
        ([[1, -1, 0], [1, 1, -2], [1, 0, 0]], "queries that depend on the total"),
        ([[0, 0, 0], [0, 0, 0]], "miss a part"),
        ([[1, -1, 0], [0, 1, -1], [1, 1, -2], [3, 0, -2]], "queries that depend on the total"),
    ],
)
def test_what_is_no_frame(rows: list[list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ResidualFrame.of(np.array(rows))
