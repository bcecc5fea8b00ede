from __future__ import annotations

import math

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.evaluation import baselines, errors, relative_entropy
from dpcore.exact_statistics import QueryAnswers
from dpcore.queries import Conjunctions, Marginals, Parities
from tests.support.tiny_statistics import TinyBaskets, TinyTable

DOMAIN = Domain.of({"a": 2, "b": 2, "c": 3})
CODES = np.array([[0, 0, 0], [0, 1, 1], [1, 1, 2], [1, 1, 2]])
MARGINALS = Marginals(DOMAIN, (("a", "b"), ("c",)))


def test_errors_are_fractions_of_the_total() -> None:
    exact = np.array([1, 1, 0, 2, 1, 1, 2])
    found = errors(MARGINALS, np.array([1.0, 0.0, 0.0, 4.0, 1.0, 1.0, 2.0]), exact, 4.0)
    assert found.max == 0.5
    assert found.mean == pytest.approx(3 / 4 / 7)
    assert found.rms == pytest.approx(math.sqrt((1 / 16 + 4 / 16) / 7))
    assert found.total_variation == pytest.approx((3 / 4 / 2 + 0) / 2)


def test_conjunctions_have_no_total_variation() -> None:
    queries = Conjunctions.single_columns(BinaryView(2))
    assert errors(queries, np.array([1.0, 2.0]), np.array([1, 1]), 4.0).total_variation is None


def test_baselines_of_a_table_by_hand() -> None:
    found = baselines(MARGINALS, TinyTable(DOMAIN, CODES), 4.0)
    assert set(found) == {"zeros", "uniform", "product"}
    assert found["zeros"].tolist() == [0.0] * 7
    assert np.allclose(found["uniform"], [1, 1, 1, 1, 4 / 3, 4 / 3, 4 / 3])
    assert np.allclose(found["product"], [0.5, 1.5, 0.5, 1.5, 1, 1, 2])  # a: 2, 2; b: 1, 3; c: 1, 1, 2.


def test_baselines_of_conjunctions_by_hand() -> None:
    bits = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 1]], dtype=bool)
    columns, negated = np.array([[0, 1], [0, 2]], dtype=np.int32), np.array([[False, False], [False, True]])
    queries = Conjunctions(BinaryView(3), columns, negated)
    statistics = TinyBaskets(BinaryView(3), bits)
    found = baselines(queries, statistics, 4.0)
    assert np.allclose(found["uniform"], [1, 1])
    assert np.allclose(found["product"], [4 * 0.75 * 0.5, 4 * 0.75 * 0.5])
    assert statistics.aggregate(QueryAnswers(queries)).tolist() == [2, 2]


def test_conjunctions_of_a_table_keep_to_its_groups() -> None:
    view = BinaryView.one_hot(DOMAIN)
    queries = Conjunctions(view, np.array([[0, 2], [0, 1]], dtype=np.int32), np.zeros((2, 2), dtype=np.bool_))
    found = baselines(queries, TinyTable(DOMAIN, CODES), 4.0)
    assert np.allclose(found["uniform"], [1, 0])  # Two values of one attribute never come together.
    assert np.allclose(found["product"], [0.5, 0])


def test_baselines_of_parities_by_hand() -> None:
    bits = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 1]], dtype=bool)
    queries = Parities.of_sets(BinaryView(3), [[0], [0, 1]])
    statistics = TinyBaskets(BinaryView(3), bits)
    found = baselines(queries, statistics, 4.0)
    assert found["zeros"].tolist() == [0, 0]
    assert np.allclose(found["uniform"], [2, 2])
    assert np.allclose(found["product"], [1, 4 * (0.75 * 0.5 + 0.25 * 0.5)])
    assert errors(queries, found["product"], statistics.aggregate(QueryAnswers(queries)), 4.0).max == 0.25


def test_relative_entropy_by_hand() -> None:
    assert relative_entropy(np.array([2, 2, 0]), np.array([1.0, 1.0, 2.0])) == pytest.approx(math.log(2))
    assert relative_entropy(np.array([3, 1]), np.array([30.0, 10.0])) == pytest.approx(0.0)
    assert relative_entropy(np.array([1, 1]), np.array([1.0, 0.0])) == math.inf
