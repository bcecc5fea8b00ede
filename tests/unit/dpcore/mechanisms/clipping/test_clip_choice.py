from __future__ import annotations

import math

import numpy as np
import pytest

from dpcore.domain import BinaryView
from dpcore.exact_statistics import QueryAnswers
from dpcore.measurement import Measurement, Noise
from dpcore.mechanisms.clipping.clip_choice import choose_clip, loss_bound, mean_satisfied, significant
from dpcore.queries import ClippedSums, Conjunctions, SatisfactionHistogram
from dpcore.queries.generation import random_conjunctions
from dpcore.testing.tiny_statistics import TinyBaskets

QUERIES = Conjunctions(BinaryView(64), np.arange(64, dtype=np.int32)[:, None], np.zeros((64, 1), dtype=np.bool_))


def cells(**units: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Units by cell, of 8: k is 0, 1, 2-3, 4-7, 8-15, 16-31, 32-63, 64."""
    found = np.zeros(8)
    for name, count in units.items():
        found[int(name[1:])] = count
    return found


@pytest.mark.parametrize("norm", [1, 2])
def test_light_units_alone_need_no_more_than_their_own_norm(norm: int) -> None:
    choice = choose_clip(cells(c0=1000, c1=1000), 64, 1.0, 3.0, 1.0, norm)
    assert choice.clip == 1.0
    assert choice.error == pytest.approx(3.0)


def test_heavy_units_are_clipped_where_they_are_few_and_kept_where_they_are_many() -> None:
    few, many = (choose_clip(cells(c1=1000, c7=heavy), 64, 1.0, 3.0, 1.0, 2) for heavy in (2, 1000))
    assert few.clip == 1.0
    assert many.clip == pytest.approx(8.0)


def test_more_noise_clips_more() -> None:
    found = [choose_clip(cells(c1=1000, c4=60, c7=9), 64, noise, 3.0, 1.0, 2).clip for noise in (0.1, 3.0, 100.0)]
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1]


def test_a_query_that_heavy_units_rarely_satisfy_loses_little() -> None:
    common, rare = (choose_clip(cells(c1=1000, c6=100), 64, 3.0, 3.0, part, 2) for part in (1.0, 1 / 640))
    assert rare.clip < common.clip
    assert rare.error < common.error


def test_an_empty_histogram_clips_to_one_query() -> None:
    assert choose_clip(np.zeros(8), 64, 1.0, 3.0, 1.0, 2).clip == 1.0


def test_cells_within_two_deviations_count_as_empty() -> None:
    assert significant(np.array([5.0, 1.9, 2.0, -7.0]), 1.0).tolist() == [5.0, 0.0, 2.0, 0.0]


def test_the_mean_answer_is_that_of_units_in_the_middle_of_their_cells() -> None:
    assert mean_satisfied(cells(c0=50, c1=64), 64) == pytest.approx(1.0)
    assert mean_satisfied(cells(c7=10), 64) == pytest.approx(10.0)  # Nobody satisfies more than all.


def test_without_noise_the_bound_is_the_weight_that_all_units_lose_at_upper_edges() -> None:
    sums = ClippedSums.of(QUERIES, [2.0])
    held = cells(c1=100, c3=10, c7=5)
    measured = Measurement(SatisfactionHistogram(QUERIES), held, Noise.GAUSSIAN, 1e-9)
    expected = 10 * (1 - 2 / math.sqrt(7)) + 5 * (1 - 2 / 8)
    assert loss_bound(measured, held, sums, 0.99) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("noise", list(Noise))
def test_the_bound_rises_with_the_noise_of_the_histogram_and_is_never_negative(noise: Noise) -> None:
    sums = ClippedSums.of(QUERIES, [2.0])
    held = cells(c1=100, c7=-50)
    small, large = (
        loss_bound(Measurement(SatisfactionHistogram(QUERIES), held, noise, scale), held, sums, 0.99)
        for scale in (0.5, 40.0)
    )
    assert small == 0.0
    assert large > 3.0


def test_where_nothing_is_clipped_nothing_is_lost() -> None:
    held = cells(c1=100, c7=100)
    measured = Measurement(SatisfactionHistogram(QUERIES), held, Noise.LAPLACE, 9.0)
    assert loss_bound(measured, held, ClippedSums.of(QUERIES, [8.0]), 0.99) == 0.0


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("seed", range(12))
def test_no_query_of_random_baskets_loses_more_than_the_bound(seed: int, norm: int) -> None:
    """Without noise, on baskets of which some hold everything; where all clipped units meet one query it is tight."""
    draw = np.random.default_rng(seed)
    bits = draw.random((60, 8)) < draw.choice([0.1, 0.5, 1.0], (60, 1))
    data = TinyBaskets(BinaryView(8), bits)
    queries = random_conjunctions(data.view, 20, 2, draw)
    held = data.aggregate(SatisfactionHistogram(queries)).astype(np.float64)
    measured = Measurement(SatisfactionHistogram(queries), held, Noise.GAUSSIAN, 1e-9)
    for clip in (0.3, 1.0, 2.5, 7.0):
        sums = ClippedSums.of(queries, [clip], norm=norm)
        lost = data.aggregate(QueryAnswers(queries)) - data.aggregate(sums) / sums.denominator
        assert lost.max() <= loss_bound(measured, held, sums, 0.99) + 1e-6


def test_the_bound_is_reached_where_all_that_is_lost_is_lost_by_one_query() -> None:
    data = TinyBaskets(BinaryView(64), np.ones((5, 64), dtype=np.bool_))
    sums = ClippedSums.of(QUERIES, [2.0])
    held = data.aggregate(SatisfactionHistogram(QUERIES)).astype(np.float64)
    measured = Measurement(SatisfactionHistogram(QUERIES), held, Noise.GAUSSIAN, 1e-9)
    lost = data.aggregate(QueryAnswers(QUERIES)) - data.aggregate(sums) / sums.denominator
    assert loss_bound(measured, held, sums, 0.99) == pytest.approx(lost.max(), abs=0.01)


def test_the_bound_holds_for_every_set_and_clip_that_the_noise_could_have_chosen() -> None:
    """At confidence 1/2 all of them hold in more than half of the runs; each bound alone (power) would not do that."""
    draw = np.random.default_rng(1)
    asked = SatisfactionHistogram(
        Conjunctions(QUERIES.view, np.tile(QUERIES.columns, (5, 1)), np.tile(QUERIES.negated, (5, 1))),
        np.repeat(np.arange(5, dtype=np.int32), 64),
    )
    true = np.tile(cells(c0=900, c1=90, c2=60, c3=40, c4=30, c5=20, c6=15, c7=10), (5, 1))
    candidates = [ClippedSums.of(QUERIES, [2.0 ** (step / 4)]) for step in range(12)]
    edges = np.minimum(2 ** np.arange(8) - 1, 64)
    weights = np.array([sums.weights[0][edges] for sums in candidates]) / 2**16
    lost = np.where(np.arange(8) > 0, 1 - weights, 0.0)
    alone = math.sqrt(2 * math.log(2)) * 3.0 * np.linalg.norm(lost, axis=1)
    runs = 60
    held, held_alone = 0, 0
    for _ in range(runs):
        noisy = true + 3.0 * draw.standard_normal(true.shape)
        measured = Measurement(asked, noisy.ravel(), Noise.GAUSSIAN, 3.0)
        bounds = np.array([[loss_bound(measured, row, sums, 0.5) for sums in candidates] for row in noisy])
        held += bool((bounds >= true @ lost.T - 1e-9).all())
        held_alone += bool((noisy @ lost.T + alone >= true @ lost.T).all())
    assert held > 0.9 * runs
    assert held_alone < 0.5 * runs


def test_a_loss_that_will_be_completed_counts_for_less_while_it_is_small() -> None:
    """1,000 light units and 50 heavy ones: clipping the heavy ones is cheap, clipping all of them is not."""
    cells = np.array([0.0, 0.0, 1000.0, 0.0, 0.0, 0.0, 0.0, 0.0, 50.0])
    plain = choose_clip(cells, 1000, 0.5, 3.0, 0.01, 2)
    completed = choose_clip(cells, 1000, 0.5, 3.0, 0.01, 2, completed=True)
    assert 1 <= completed.clip < plain.clip
    assert completed.error < plain.error


def test_a_loss_of_nearly_everything_counts_whole_though_it_will_be_completed() -> None:
    """Units that all satisfy hundreds of queries: at C = 1 next to nothing would be left to complete from."""
    cells = np.zeros(11)
    cells[9] = 3000.0
    assert choose_clip(cells, 2000, 4.5, 3.0, 0.001, 2, completed=True).clip > 4


def test_cells_within_four_deviations_of_nothing_add_nothing() -> None:
    cells = np.array([900.0, 30.0, 39.0, 41.0])
    assert significant(cells, 10.0, 4.0).tolist() == [900.0, 0.0, 0.0, 41.0]
    assert significant(cells, 10.0).tolist() == [900.0, 30.0, 39.0, 41.0]
