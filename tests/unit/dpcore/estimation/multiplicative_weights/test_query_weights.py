"""Multiplicative weights on single queries against Fig. 1 of the MWEM paper, written out on dense vectors."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.estimation.multiplicative_weights.query_weights import QueryWeights
from dpcore.queries import Product

DOMAIN = Domain.of({"a": 2, "b": 4, "c": 3})
START = np.random.default_rng(0).random(24) + 0.1
RANGE = Product(("a", "b"), (np.array([[0, 1]]), np.array([[0, 1, 1, 0]])))
PARITY = Product(("a",), (np.array([[1, -1]]),))
DENSE = {
    "range": np.kron(np.kron([0, 1], [0, 1, 1, 0]), np.ones(3)),
    "parity": np.kron([1, -1], np.ones(12)),
    "total": np.ones(24),
}
TERMS = {"range": RANGE, "parity": PARITY, "total": Product((), ())}


@pytest.mark.parametrize("name", TERMS)
def test_a_query_is_its_vector(name: str) -> None:
    weights = QueryWeights(DOMAIN, START, 50.0)
    query = weights.query(TERMS[name])
    assert query.tolist() == DENSE[name].tolist()
    assert weights.answer(query) == pytest.approx(DENSE[name] @ START * 50 / START.sum())


@pytest.mark.parametrize("step", [0.5, 1.0])
def test_it_follows_as_fig_1(step: float) -> None:
    weights = QueryWeights(DOMAIN, START, 50.0, step)
    measured = {"range": 20.0, "parity": -70.0}
    weights.follow([(weights.query(TERMS[name]), value, 0.0) for name, value in measured.items()], 3)
    expected = START * 50 / START.sum()
    for name, value in 3 * list(measured.items()):
        expected = expected * np.exp(step * DENSE[name] * (value - DENSE[name] @ expected) / 50)
        expected *= 50 / expected.sum()
    assert np.allclose(weights.table, expected)


def test_passes_end_at_the_measured_values_and_never_overshoot() -> None:
    weights = QueryWeights(DOMAIN, START, 50.0, 4.0)
    query = weights.query(RANGE)
    gaps = []
    for _ in range(60):
        gaps.append(20.0 - weights.answer(query))
        weights.follow([(query, 20.0, 0.0)], 1)
    assert min(gaps) > -1e-9
    assert gaps[-1] == pytest.approx(0, abs=1e-6)


def test_it_stops_as_soon_as_a_query_is_near_enough() -> None:
    weights = QueryWeights(DOMAIN, START, 50.0, 4.0)
    query = weights.query(RANGE)
    weights.follow([(query, 20.0, 3.0)], 100)
    assert weights.answer(query) == pytest.approx(17, abs=2)
    before = weights.table.copy()
    weights.follow([(query, weights.answer(query) - 2.9, 3.0)], 100)
    assert np.array_equal(weights.table, before)


def test_a_value_that_no_table_has_is_taken_as_the_nearest() -> None:
    near, far = (QueryWeights(DOMAIN, START, 50.0) for _ in range(2))
    near.follow([(near.query(RANGE), 50.0, 0.1), (near.query(PARITY), -50.0, 0.1)], 5)
    far.follow([(far.query(RANGE), 700.0, 0.1), (far.query(PARITY), -700.0, 0.1)], 5)
    assert np.array_equal(near.table, far.table)
    before = near.table.copy()
    near.follow([(near.query(TERMS["total"]), 700.0, 0.1)], 5)
    assert np.array_equal(near.table, before)


def test_noise_far_above_the_total_leaves_numbers() -> None:
    weights = QueryWeights(DOMAIN, START, 50.0)
    weights.follow([(weights.query(RANGE), 1e12, 0.0), (weights.query(PARITY), -1e12, 0.0)], 2)
    assert np.isfinite(weights.table).all()
    assert weights.table.sum() == pytest.approx(50)


@pytest.mark.parametrize(
    "term", [Product(("b",), (np.eye(4, dtype=np.int64),)), Product(("a",), (np.array([[1, 2]]),))]
)
def test_what_is_no_single_query_of_small_values_is_refused(term: Product) -> None:
    with pytest.raises(ValueError, match="want one query of values -1, 0, 1"):
        QueryWeights(DOMAIN, START, 50.0).query(term)
