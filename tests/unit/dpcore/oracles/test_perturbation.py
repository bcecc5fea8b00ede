"""The laws of perturbations on their grid, and what they decide without queries."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpcore.domain import BinaryView, Domain
from dpcore.oracles.perturbation import GRID, exponential, exponential_offsets, laplace, laplace_offsets

TABLE, ITEMS = BinaryView.one_hot(Domain.of({"a": 4, "b": 2})), BinaryView(5)
CHANCES = np.array([0.1, 0.6, 0.05, 0.25, 0.7, 0.3])
DRAWS = 40_000
REJECT_BELOW = 1e-6  # Chance that a right law fails one case.


def winners(view: BinaryView, perturbations: NDArray[np.int64]) -> NDArray[np.float64]:
    """How often each column wins."""
    if not view.groups:
        return (perturbations > 0).mean(axis=0)
    won = np.zeros_like(perturbations, dtype=np.bool_)
    for start, stop in view.groups:
        np.put_along_axis(won, start + perturbations[:, start:stop].argmax(axis=1)[:, None], True, axis=1)
    return won.mean(axis=0)


@pytest.mark.parametrize(
    ("perturb", "law"), [(exponential, lambda b: stats.expon(scale=b)), (laplace, lambda b: stats.laplace(scale=b))]
)
def test_noise_has_its_law_and_its_scale(perturb, law) -> None:
    offsets, scale = np.array([0.0, 2.0, -3.0]), 1.7
    drawn = perturb(offsets, scale, DRAWS, np.random.default_rng(0))
    assert drawn.dtype == np.int64
    noise = scale * offsets - drawn / GRID  # Of the Laplace as likely as its negative.
    uniform = np.random.default_rng(1).random(noise.shape) - 0.5
    for column in range(3):
        smoothed = noise[:, column] + uniform[:, column] / GRID
        assert stats.kstest(smoothed, law(scale).cdf).pvalue > REJECT_BELOW
        assert stats.kstest(smoothed, law(0.93 * scale).cdf).pvalue < REJECT_BELOW


def test_exponential_noise_alone_gives_the_chances_exactly() -> None:
    for view, chances in ((TABLE, CHANCES), (ITEMS, np.array([0.0, 0.02, 0.5, 0.97, 1.0]))):
        drawn = exponential(exponential_offsets(view, chances), 2.5, DRAWS, np.random.default_rng(2))
        result = winners(view, drawn)
        assert np.abs(result - chances).max() < 5 * np.sqrt(0.25 / DRAWS) + 2 / GRID
    ties = np.array([0.25, 0.25, 0.25, 0.25, 0.5, 0.5])
    assert np.allclose(exponential_offsets(TABLE, ties), 0)
    assert exponential_offsets(ITEMS, np.zeros(5)).tolist() == [0.0] * 5


def test_laplace_noise_alone_gives_nearly_the_chances() -> None:
    drawn = laplace(
        laplace_offsets(ITEMS, np.array([0.001, 0.02, 0.5, 0.7, 0.97])), 2.5, DRAWS, np.random.default_rng(3)
    )
    assert np.abs(winners(ITEMS, drawn) - [0.001, 0.02, 0.5, 0.7, 0.97]).max() < 5 * np.sqrt(0.25 / DRAWS) + 2 / GRID
    drawn = laplace(laplace_offsets(TABLE, CHANCES), 2.5, DRAWS, np.random.default_rng(3))
    assert np.abs(winners(TABLE, drawn) - CHANCES).max() < 0.12


def test_a_column_without_chance_stays_possible_in_a_group() -> None:
    chances = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    for offsets in (exponential_offsets(TABLE, chances), laplace_offsets(TABLE, chances)):
        assert np.isfinite(offsets).all()
        assert offsets[0] > offsets[1]
        assert offsets[5] > offsets[4]
