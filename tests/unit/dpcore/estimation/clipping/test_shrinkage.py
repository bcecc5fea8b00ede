from __future__ import annotations

import numpy as np
import pytest

from dpcore.estimation.clipping.shrinkage import shrunk

DRAW = np.random.default_rng(0)
ALIKE = np.zeros(1000)


def test_noise_around_a_right_prediction_goes() -> None:
    values = DRAW.normal(5.0, 1.0, 1000)
    moved = shrunk(values, 1.0, [np.full(1000, 5.0)], np.inf)
    assert np.abs(moved - 5.0).mean() < 0.2 * np.abs(values - 5.0).mean()


def test_a_shift_of_all_predictions_is_learnt() -> None:
    values = DRAW.normal(5.0, 1.0, 1000)
    assert np.allclose(shrunk(values, 1.0, [ALIKE], np.inf), shrunk(values, 1.0, [np.full(1000, 5.0)], np.inf))


def test_answers_far_apart_stay_where_they_are() -> None:
    values = DRAW.normal(0.0, 100.0, 1000)
    assert np.abs(shrunk(values, 1.0, [ALIKE], np.inf) - values).max() < 0.1


def test_none_moves_farther_than_the_limit() -> None:
    values = DRAW.normal(0.0, 1.0, 1000)
    values[7] = 50.0
    moved = shrunk(values, 1.0, [ALIKE], 2.0)
    assert np.abs(moved - values).max() <= 2.0 + 1e-12
    assert moved[7] >= 48.0


def test_the_mean_of_a_bin_stays() -> None:
    values = DRAW.normal(3.0, 2.0, 100)
    assert np.isclose(shrunk(values, 1.0, [np.zeros(100)], np.inf).mean(), values.mean())


def test_the_better_of_two_predictions_is_used_in_every_bin() -> None:
    """Its weight is learnt from 100 noisy values or more per bin, which leaves a twentieth to a ninth of the noise."""
    generator = np.random.default_rng(1)
    truth = generator.uniform(0, 1000, 3000)
    values = truth + generator.normal(0, 10, 3000)
    wrong = generator.permutation(truth)
    for predictions in ([wrong, truth], [truth, wrong]):
        both = shrunk(values, 10.0, predictions, 100.0)
        assert np.abs(both - truth).mean() < 0.12 * np.abs(values - truth).mean()


@pytest.mark.parametrize(("count", "stddev"), [(99, 5.0), (500, 0.0)])
def test_few_answers_and_answers_without_noise_stay(count: int, stddev: float) -> None:
    values = DRAW.normal(0, 10, count)
    assert shrunk(values, stddev, [np.zeros(count)], 9.0).tolist() == values.tolist()
