"""Integer strategies for one attribute against dense formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.measurement import Noise
from dpcore.queries.ranges import all_ranges, identity, prefix
from dpcore.strategies.one_attribute.best_strategy import LARGEST_SIZE, AttributeStrategy, attribute_strategy

WIDTH_8 = np.array([[start <= cell < start + 8 for cell in range(20)] for start in range(13)], dtype=np.int64)
WORKLOADS = {
    "identity": identity(6),
    "total": np.ones((1, 5), dtype=np.int64),
    "identity and total": np.vstack([identity(7), np.ones((1, 7), dtype=np.int64)]),
    "prefix": prefix(40),
    "prefix with a null": prefix(9, 8),
    "ranges": all_ranges(10),
    "ranges of one width": WIDTH_8,
    "unread values": np.array([[1, 0, 1, 0, 0], [0, 0, 1, 1, 0]]),
    "the same again": np.array([[1, 1, 1], [1, 1, 1], [0, 1, 1]]),
    "one value": np.ones((1, 1), dtype=np.int64),
}
every = pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
noises = pytest.mark.parametrize("noise", [Noise.LAPLACE, Noise.GAUSSIAN, Noise.ROUNDED_GAUSSIAN])


def squared_norm(strategy: AttributeStrategy, noise: Noise) -> float:
    real = strategy.matrix / strategy.denominator
    columns = np.abs(real).sum(axis=0) ** 2 if noise is Noise.LAPLACE else (real**2).sum(axis=0)
    return float(columns.max())


@every
@noises
@pytest.mark.parametrize("bits", [0, 2, 6, 12])
def test_answers_come_out_of_it_without_bias_and_with_the_error_it_states(
    workload: NDArray[np.int64], noise: Noise, bits: int
) -> None:
    """However coarse the grid: integers that lose a query are never chosen."""
    result = attribute_strategy(workload, noise, bits)
    real = result.matrix / result.denominator
    assert result.matrix.dtype == np.int64
    assert result.matrix.any(axis=1).all()
    assert np.allclose(result.reconstruction @ real, workload, atol=1e-9)
    inverse = np.linalg.pinv(real)
    assert np.allclose(result.reconstruction, workload @ inverse, atol=1e-9)
    assert result.error == pytest.approx(squared_norm(result, noise) * np.sum((workload @ inverse) ** 2))
    assert result.error >= result.bound * (1 - 1e-6)


@every
def test_under_the_gaussians_it_is_the_optimum_up_to_the_grid(workload: NDArray[np.int64]) -> None:
    for noise in (Noise.GAUSSIAN, Noise.ROUNDED_GAUSSIAN):
        result = attribute_strategy(workload, noise, 12)
        assert result.error <= result.bound * 1.002


@every
@noises
def test_it_is_never_worse_than_the_values_one_by_one_or_the_workload(
    workload: NDArray[np.int64], noise: Noise
) -> None:
    result = attribute_strategy(workload, noise, 6)
    rank = np.linalg.matrix_rank(workload)
    norms = workload.sum(axis=0).max() ** 2 if noise is Noise.LAPLACE else (workload**2).sum(axis=0).max()
    assert result.error <= min(float((workload**2).sum()), float(norms * rank)) * (1 + 1e-6)


def test_what_is_best_as_it_stands_stays_as_it_is() -> None:
    for noise in (Noise.LAPLACE, Noise.GAUSSIAN):
        for plain in ("identity", "total", "one value"):
            result = attribute_strategy(WORKLOADS[plain], noise, 12)
            assert np.array_equal(result.matrix, WORKLOADS[plain])
            assert result.denominator == 1
            assert result.error == pytest.approx(result.bound)
    values = attribute_strategy(prefix(8), Noise.LAPLACE, 12)
    assert np.array_equal(values.matrix, identity(8))
    assert np.array_equal(values.reconstruction, prefix(8))


def test_a_large_attribute_is_no_work_where_its_values_are_asked_one_by_one() -> None:
    result = attribute_strategy(identity(LARGEST_SIZE + 1), Noise.GAUSSIAN, 12)
    assert result.error == LARGEST_SIZE + 1
    with pytest.raises(ValueError, match=r"queries of several values of an attribute of 1,025 values; want at most"):
        attribute_strategy(np.ones((1, LARGEST_SIZE + 1), dtype=np.int64), Noise.GAUSSIAN, 12)


@pytest.mark.parametrize("others", [0, 2])
def test_many_prefixes_have_the_square_root_strategy(others: int) -> None:
    size = LARGEST_SIZE + 50
    workload = prefix(size, size - others)
    result = attribute_strategy(workload, Noise.GAUSSIAN, 12)
    real = result.matrix / result.denominator
    assert result.matrix.dtype == np.int64
    assert np.allclose(result.reconstruction @ real, workload, atol=1e-9)
    assert result.error == pytest.approx(squared_norm(result, Noise.GAUSSIAN) * (result.reconstruction**2).sum())
    assert result.bound < result.error < 1.15 * result.bound


def test_many_prefixes_are_recognised_by_every_entry() -> None:
    """A range in their place, or Laplace noise, is refused as before."""
    workload = prefix(LARGEST_SIZE + 1).copy()
    with pytest.raises(ValueError, match="want at most"):
        attribute_strategy(workload, Noise.LAPLACE, 12)
    workload[700, 3] = 0
    with pytest.raises(ValueError, match="want at most"):
        attribute_strategy(workload, Noise.GAUSSIAN, 12)


def test_prefixes_are_far_from_their_values_one_by_one() -> None:
    """Thesis, Tables 3.2 and 3.3: 16.03 against 7.35, 47.89 against 10.66, for 256 values; here of 100."""
    values = math.sqrt(attribute_strategy(identity(100), Noise.LAPLACE, 12).error * 101 / 2)
    laplace, gaussian = (attribute_strategy(prefix(100), noise, 12) for noise in (Noise.LAPLACE, Noise.GAUSSIAN))
    assert math.sqrt(laplace.error) < 0.6 * values
    assert math.sqrt(gaussian.error) < 0.32 * values


@noises
def test_the_same_workload_has_the_same_strategy(noise: Noise) -> None:
    one, other = (attribute_strategy(workload, noise, 7) for workload in (prefix(30), prefix(30).copy()))
    assert np.array_equal(one.matrix, other.matrix)
    assert np.array_equal(one.reconstruction, other.reconstruction)
    with pytest.raises(ValueError, match="read-only"):
        one.reconstruction[0, 0] = 5.0
