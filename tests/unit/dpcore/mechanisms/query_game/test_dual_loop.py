"""What DualQuery and DQRS share: probabilities of free columns, the records that follow them, first weights."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.measurement import Measurement, Noise
from dpcore.mechanisms.query_game.dual_loop import (
    DataPlayer,
    column_probabilities,
    prior_log_weights,
    uniform_probabilities,
    view_of,
)
from dpcore.oracles.enumerate import Enumeration
from dpcore.oracles.objective import game_of
from dpcore.queries import Conjunctions
from dpcore.workload import Workload, conjunctive, explicit

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4})
ONE_HOT = BinaryView.one_hot(DOMAIN)
NOTHING = np.empty(0, dtype=np.int64)  # No drawn query: every column is free.


def test_noise_on_rare_items_fills_no_basket() -> None:
    view = BinaryView(1000)
    noise = np.random.default_rng(0).normal(0, 50, 1000).round().astype(np.int64)
    noise[:2] = 400, 2000
    measured = Measurement(Conjunctions.single_columns(view), noise, Noise.GAUSSIAN, 50.0)
    probabilities = column_probabilities(measured, view, 1000)
    assert probabilities[:2].tolist() == [0.4, 1.0]
    assert probabilities[2:].max() == 0.0


def test_noisy_values_of_an_attribute_become_a_distribution() -> None:
    values = np.array([30, 80, 60, 55, -20, 10, 5, -3, 0])
    measured = Measurement(Conjunctions.single_columns(ONE_HOT), values, Noise.GAUSSIAN, 9.0)
    probabilities = column_probabilities(measured, ONE_HOT, 110)
    assert probabilities.min() >= 0
    assert [probabilities[start:stop].sum() for start, stop in ONE_HOT.groups] == pytest.approx([1, 1, 1])
    assert probabilities[1] - probabilities[0] == pytest.approx(50 / 110)


@pytest.mark.parametrize("view", [ONE_HOT, BinaryView(9)], ids=["table", "baskets"])
def test_free_columns_stay_within_one_record_of_their_probabilities(view: BinaryView) -> None:
    """After any number of records, and never a 1 where the chance is 0; independent draws would stray by sqrt(T)."""
    probabilities = np.array([0.3, 0.7, 0.5, 0.5, 0.0, 0.05, 0.15, 0.2, 0.6])
    game = game_of(Conjunctions.single_columns(view))
    player = DataPlayer(game, Enumeration(), probabilities, np.random.default_rng(0))
    for done in range(1, 200):
        player.respond(NOTHING)
        assert np.abs(player.hits - done * probabilities).max() < 1.1
    assert player.hits[4] == 0


def test_other_columns_pay_back_what_drawn_queries_force() -> None:
    """Item 0 is drawn in the first ten rounds; then it stays out until its frequency is its chance again."""
    view = BinaryView(2)
    player = DataPlayer(
        game_of(Conjunctions.single_columns(view)), Enumeration(), np.full(2, 0.25), np.random.default_rng(0)
    )
    for _ in range(10):
        player.respond(np.zeros(1, dtype=np.int64))
    assert player.hits[0] == 10
    for _ in range(30):
        player.respond(NOTHING)
    assert player.hits.tolist() == [10, 10]


def test_the_model_leaves_out_the_first_records() -> None:
    view = BinaryView(1)
    player = DataPlayer(
        game_of(Conjunctions.single_columns(view)), Enumeration(), np.zeros(1), np.random.default_rng(0)
    )
    for wanted in (True, True, False, False, True, False, False, False):
        player.respond(np.array([0 if wanted else 1]))
    rows = np.unpackbits(player.model(80, 0.25).records, axis=1, count=1)[:, 0]
    assert rows.tolist() == [0, 0, 1, 0, 0, 0]
    assert len(player.model(80, 0.0).records) == player.done == 8


def test_a_cliques_weight_is_that_of_each_of_its_cells() -> None:
    workload = explicit(DOMAIN, {("a",): 2.0, ("a", "b"): 5.0})
    prior = prior_log_weights(workload)
    assert prior is not None
    assert np.exp(prior) == pytest.approx([2] * 2 + [5] * 6)
    assert view_of(workload.queries).columns == 9
    queries = Conjunctions.single_columns(BinaryView(3))
    assert prior_log_weights(conjunctive(queries)) is None
    assert prior_log_weights(Workload(queries, np.full(3, 7.0))) is None


def test_uniform_probabilities_are_those_of_a_value_or_a_coin() -> None:
    groups = BinaryView(5, ((0, 2), (2, 5)))
    assert uniform_probabilities(groups).tolist() == [0.5, 0.5, 1 / 3, 1 / 3, 1 / 3]
    assert uniform_probabilities(BinaryView(2)).tolist() == [0.5, 0.5]
