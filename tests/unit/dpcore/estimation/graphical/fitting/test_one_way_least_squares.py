"""One attribute's marginal from products, against dense least squares."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from dpcore.estimation.graphical.fitting.linear_measurements import LinearMeasurement
from dpcore.estimation.graphical.fitting.one_way_least_squares import one_way_marginal

RANDOM = np.random.default_rng(0)
MATRICES = (RANDOM.normal(size=(6, 4)), np.tri(3), np.eye(2))
TABLE = RANDOM.random((4, 3, 2)) * 100
EXACT = reduce(np.kron, MATRICES) @ TABLE.ravel()


@pytest.mark.parametrize(("name", "axis"), [("a", 0), ("b", 1), ("c", 2)])
def test_exact_values_give_the_marginal_and_noise_its_precision(name: str, axis: int) -> None:
    measurement_part = LinearMeasurement(("a", "b", "c"), EXACT, 0.25, MATRICES)
    found = one_way_marginal(measurement_part, name)
    assert found is not None
    sums = np.zeros((TABLE.shape[axis], TABLE.size))
    sums[np.indices(TABLE.shape)[axis].ravel(), np.arange(TABLE.size)] = 1
    assert np.allclose(found[0], sums @ TABLE.ravel())
    estimator = sums @ np.linalg.pinv(reduce(np.kron, MATRICES))
    assert 1 / found[1] == pytest.approx((estimator**2).sum(axis=1).mean() / 0.25)


def test_what_the_values_do_not_determine_is_none() -> None:
    """Two of three values, or a sum that leaves one out, tell no marginal; a total of the other axis suffices."""
    part, total = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), np.ones((1, 3))
    assert one_way_marginal(LinearMeasurement(("b",), np.ones(2), 1.0, (part,)), "b") is None
    assert one_way_marginal(LinearMeasurement(("a", "b"), np.ones(8), 1.0, (np.eye(4), part)), "a") is None
    found = one_way_marginal(LinearMeasurement(("a", "b"), np.arange(4.0), 1.0, (np.eye(4), total)), "a")
    assert found is not None
    assert np.allclose(found[0], np.arange(4))
    assert one_way_marginal(LinearMeasurement(("a", "b"), np.arange(4.0), 1.0, (np.eye(4), total)), "b") is None
    assert one_way_marginal(LinearMeasurement(("a",), np.arange(4.0), 1.0), "a") is None
    assert one_way_marginal(LinearMeasurement(("a",), np.arange(4.0), 1.0, (np.eye(4),)), "c") is None
