"""One step of the alternating fit: the most probable point of a simplex, by the conditions of its optimum."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.estimation.reconstruction.alternating_fit import most_probable


@pytest.mark.parametrize("quadratic", [1e-200, 1e-9, 1.0, 1e9])
def test_the_gradient_is_the_same_along_every_axis(quadratic: float) -> None:
    generator = np.random.default_rng(4)
    for count in (1, 2, 7, 300):
        for spread in (0.01, 1.0, 100.0):
            linear = quadratic * spread * generator.normal(size=count)
            pseudo_rows = generator.dirichlet(np.full(count, 0.5)) + 1e-6
            x = np.empty(count)
            most_probable(linear, quadratic, pseudo_rows, x)
            assert x.min() > 0
            assert x.sum() == pytest.approx(1.0)
            terms = np.stack([quadratic * x, -linear, -pseudo_rows / x])
            gradient = terms.sum(axis=0)
            assert np.ptp(gradient) <= 1e-6 * np.abs(terms).max()


def test_without_data_the_pseudo_rows_decide_and_without_pseudo_rows_the_data() -> None:
    x = np.empty(3)
    most_probable(np.zeros(3), 1e-200, np.array([0.5, 0.3, 0.2]), x)
    np.testing.assert_allclose(x, [0.5, 0.3, 0.2])
    most_probable(1e12 * np.array([0.7, 0.6, -0.4]), 1e12, np.full(3, 1e-3), x)  # The nearest point of the simplex.
    np.testing.assert_allclose(x, [0.55, 0.45, 0.0], atol=1e-4)
