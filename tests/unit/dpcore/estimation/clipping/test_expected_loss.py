"""What clipping takes from answers, and how much of it the expectation gives back."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.estimation.clipping.expected_loss import expected_loss


def test_nothing_is_expected_where_no_unit_loses() -> None:
    answers = np.array([5.0, 0.0, 2.0])
    assert not expected_loss(answers, np.array([1.0, 2.0]), np.array([4.0, 4.0]), np.zeros(2)).any()
    assert not expected_loss(np.array([-1.0, 0.0]), np.array([1.0]), np.array([4.0]), np.array([0.5])).any()


def test_the_losses_sum_to_what_the_units_lose() -> None:
    """Each of u units that satisfies k queries loses a part of k answers."""
    answers = np.random.default_rng(0).pareto(1.5, 400) * 50
    satisfied, units, lost = np.array([3.0, 40.0, 200.0]), np.array([100.0, 20.0, 5.0]), np.array([0.0, 0.25, 0.5])
    result = expected_loss(answers, satisfied, units, lost)
    assert result.sum() == pytest.approx(units @ (satisfied * lost), rel=0.02)
    assert (result >= 0).all()


def test_no_query_loses_more_than_all_units_together() -> None:
    """However popular it is: a factor for all answers would pass that by far."""
    answers = np.concatenate([[1e6], np.ones(99)])
    result = expected_loss(answers, np.array([50.0]), np.array([10.0]), np.array([0.5]))
    assert result[0] == pytest.approx(5.0)
    assert result[1:] == pytest.approx(np.full(99, 5.0 * 49 / 99), rel=0.01)


def test_units_that_satisfy_every_query_lose_the_same_of_each() -> None:
    answers = np.random.default_rng(1).random(50) + 0.1
    assert expected_loss(answers, np.array([50.0]), np.array([8.0]), np.array([0.75])) == pytest.approx(
        np.full(50, 6.0)
    )


@pytest.mark.parametrize("seed", range(3))
def test_most_of_the_loss_of_a_made_dataset_is_given_back(seed: int) -> None:
    """Units of log-normal activity hold queries of skewed popularity: 4 in 5 of the largest and mean loss return."""
    generator = np.random.default_rng(seed)
    popularity = generator.pareto(1.0, 300) + 0.05
    activity = np.exp(generator.normal(-5.0, 1.5, 4000))
    held = generator.random((4000, 300)) < -np.expm1(-np.outer(activity, popularity))
    k = held.sum(axis=1)
    weights = np.minimum(1.0, 4.0 / np.sqrt(np.maximum(k, 1)))
    exact, clipped = held.sum(axis=0).astype(float), weights @ held
    satisfied, units = np.unique(k[k > 0], return_counts=True)
    lost = 1 - np.minimum(1.0, 4.0 / np.sqrt(satisfied))
    completed = clipped + expected_loss(clipped, satisfied.astype(float), units.astype(float), lost)
    before, after = exact - clipped, np.abs(exact - completed)
    assert before.max() > 50
    assert after.max() < 0.2 * before.max()
    assert after.mean() < 0.2 * before.mean()
