"""Intervals of single cells over simulated adaptive runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcore.estimation.graphical.confidence.intervals import answers_with_intervals
from dpcore.measurement import Noise
from dpcore.uncertainty import half_width
from tests.support.adaptive_runs import ASKED, DOMAIN, JOINT, PAIRS, adaptive_run, exact

QUERIES = PAIRS.only(ASKED)
TAIL = 0.2


@pytest.mark.parametrize(
    ("noise", "scale"),
    [(Noise.LAPLACE, 20.0), (Noise.GAUSSIAN, 2.0), (Noise.ROUNDED_GAUSSIAN, 2.0), (Noise.ROUNDED_GAUSSIAN, 60.0)],
)
def test_intervals_cover_as_often_as_asked(noise: Noise, scale: float) -> None:
    generator, draws = np.random.default_rng(2), 60
    truth, missed = exact(QUERIES), np.zeros(QUERIES.size)
    for _ in range(draws):
        found = answers_with_intervals(*adaptive_run(noise, scale, generator), QUERIES, 1 - TAIL, horizon=2)
        missed += (found.lower > truth + 1e-9) | (found.upper < truth - 1e-9)
        assert (found.lower <= found.values).all()
        assert (found.values <= found.upper).all()
        assert (found.lower >= 0).all()
    assert (missed <= draws * (TAIL + 4 * math.sqrt(TAIL / draws))).all()


def test_measured_cells_have_intervals_about_as_wide_as_their_noise() -> None:
    model, measurements, rounds = adaptive_run(Noise.ROUNDED_GAUSSIAN, 2.0, np.random.default_rng(3))
    found = answers_with_intervals(model, measurements, rounds, PAIRS.only([rounds[0].clique]))
    widths = (found.upper - found.lower) / 2
    assert np.median(widths) <= 1.3 * half_width(Noise.ROUNDED_GAUSSIAN, 2.0)
    assert not found.measured
    assert np.isnan(found.stddev).all()


def test_a_cell_that_was_not_measured_stays_below_the_sums_that_were() -> None:
    model, measurements, rounds = adaptive_run(Noise.ROUNDED_GAUSSIAN, 2.0, np.random.default_rng(3))
    found = answers_with_intervals(model, measurements, rounds, PAIRS.only([DOMAIN.names]))
    sums = JOINT.sum(axis=(1, 2))
    assert (found.upper.reshape(DOMAIN.sizes).max(axis=(1, 2)) <= sums + 40).all()
    assert (found.upper >= JOINT.ravel()).all()


def test_an_end_is_missing_where_nothing_is_known() -> None:
    model, _, _ = adaptive_run(Noise.GAUSSIAN, 2.0, np.random.default_rng(3))
    found = answers_with_intervals(model, [], [], PAIRS)
    assert np.isnan(found.upper).all()
    assert (found.lower == 0).all()
    np.testing.assert_array_equal(found.values, model.answer(PAIRS))
