"""The mean of shrunken residuals and one model: exact without noise, consistent, and nearer to the truth than both."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.graphical.fitting.work import WorkMeter
from dpcore.estimation.reconstruction.model_mean import mean_with_model
from dpcore.estimation.reconstruction.residuals import Residuals
from dpcore.estimation.reconstruction.shrunken import shrunken_answers
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals
from tests.unit.dpcore.estimation.reconstruction.test_nonnegative import disagreement
from tests.unit.dpcore.estimation.reconstruction.test_shrunken import (
    BITS,
    MIXED,
    ROWS,
    chained,
    error,
    exact,
    independent,
    queries_of,
)


def both(
    codes: NDArray[np.int64], asked: Marginals, queries: Marginals, stddev: float, seed: int = 1
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The shrunken answers, and their mean with the model.

    asked: The marginals that are measured, each with Gaussian noise.
    """
    noise = np.random.default_rng(seed).normal(0, stddev, asked.size)
    measured = [Measurement(asked, exact(codes, asked) + noise, Noise.GAUSSIAN, stddev)]
    shrunken = shrunken_answers(Residuals.of_marginals(measured), queries)
    return shrunken, mean_with_model(shrunken, measured, queries, WorkMeter())


@pytest.mark.parametrize(("domain", "order"), [(BITS, 1), (BITS, 2), (BITS, 3), (MIXED, 2), (MIXED, 3)])
def test_with_little_noise_it_has_the_tables(domain: Domain, order: int) -> None:
    codes, queries = chained(domain), queries_of(domain, order)
    _, mean = both(codes, queries, queries, 1.0)
    assert error(mean, exact(codes, queries)) < 2.0


def test_marginals_of_any_order_and_the_number_of_rows_are_consistent_and_not_negative() -> None:
    queries = Marginals(MIXED, ((), ("a",), ("c", "a"), ("d", "a", "b"), ("d", "c"), ("a",)))
    shrunken, mean = both(chained(MIXED), queries_of(MIXED, 4), queries, 80.0)
    assert mean.min() >= 0
    assert disagreement(queries, mean) < 1e-6 * ROWS
    assert mean[0] == pytest.approx(shrunken[0])
    assert not np.allclose(mean, shrunken)


@pytest.mark.parametrize("make", [independent, chained])
def test_much_noise_leaves_it_nearer_to_the_truth_than_shrinking_alone(
    make: Callable[[Domain], NDArray[np.int64]],
) -> None:
    codes, queries = make(BITS), queries_of(BITS, 3)
    truth = exact(codes, queries)
    pairs = [both(codes, queries, queries, 500.0, seed) for seed in range(6)]
    shrunken, mean = (np.mean([error(values, truth) for values in of_kind]) for of_kind in zip(*pairs, strict=True))
    assert mean < 0.97 * shrunken
