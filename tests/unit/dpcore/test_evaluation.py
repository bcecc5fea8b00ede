from __future__ import annotations

import math

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.evaluation import baselines, errors, exact_answers, normalised_error, workload_error
from dpcore.exact_statistics import QueryAnswers
from dpcore.queries import Conjunctions, Marginals, Parities
from dpcore.queries.ranges import prefix, range_marginals
from dpcore.testing.tiny_statistics import TinyBaskets, TinyTable
from dpcore.workload import Workload

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


LINEAR = range_marginals(DOMAIN, [("b", "c"), ("c",)], {"c": prefix(3)})


def test_exact_answers_of_products_are_sums_of_rows_by_hand() -> None:
    found = exact_answers(TinyTable(DOMAIN, CODES), LINEAR)
    assert found.dtype == np.int64
    assert found.tolist() == [1, 1, 1, 0, 1, 3, 1, 2, 4]  # b = 0: c is 0; b = 1: c is 1, 2, 2.


def test_baselines_of_products_are_those_of_the_marginals_behind_them() -> None:
    table = TinyTable(DOMAIN, CODES)
    found, cells = (baselines(queries, table, 4.0) for queries in (LINEAR, LINEAR.marginals))
    for name in ("zeros", "uniform", "product"):
        pairs, singles = LINEAR.marginals.split(cells[name])
        assert np.allclose(found[name], np.concatenate([np.cumsum(pairs, axis=1).ravel(), np.cumsum(singles)]))


def test_the_error_of_a_workload_by_hand() -> None:
    """Definition 26: (1 / (k N)) sum of c_i |.|_1, without a half."""
    exact = np.array([1, 1, 0, 2, 1, 1, 2])
    answers = np.array([1.0, 0.0, 0.0, 4.0, 1.0, 1.0, 1.5])
    assert workload_error(Workload(MARGINALS, np.ones(2)), answers, exact, 4.0) == pytest.approx((3 + 0.5) / (2 * 4))
    weighted = Workload(MARGINALS, np.array([3.0, 0.5]))
    assert workload_error(weighted, answers, exact, 4.0) == pytest.approx((3 * 3 + 0.5 * 0.5) / (2 * 4))


def test_without_weights_the_error_of_marginals_is_twice_the_total_variation() -> None:
    generator = np.random.default_rng(3)
    exact, answers = generator.integers(0, 9, 7), generator.exponential(size=7)
    found = workload_error(Workload(MARGINALS, np.ones(2)), answers, exact, 31.0)
    assert found == pytest.approx(2 * (errors(MARGINALS, answers, exact, 31.0).total_variation or 0))


def test_the_error_of_other_workloads_counts_terms_and_queries() -> None:
    exact, answers = np.arange(9), np.arange(9) + np.array([1.0, 0, 0, 0, 0, -1, 0, 4, 0])
    found = workload_error(Workload(LINEAR, np.array([1.0, 10.0])), answers, exact, 8.0)
    assert found == pytest.approx((2 + 10 * 4) / (2 * 8))
    conjunctions = Workload(Conjunctions.single_columns(BinaryView(2)), np.array([1.0, 3.0]))
    assert workload_error(conjunctions, np.array([0.0, 5.0]), np.array([2, 4]), 8.0) == pytest.approx((2 + 3) / (2 * 8))


def test_the_normalised_error_by_hand() -> None:
    exact, answers = np.array([1, 1, 1, 0, 1, 3, 1, 2, 4]), np.array([0.0, 1, 1, 0, 1, 4, 1, 0, 4])
    assert normalised_error(LINEAR, answers, exact) == pytest.approx((2 / (2 * 7) + 2 / (2 * 7)) / 2)
    assert normalised_error(MARGINALS, np.zeros(7), np.array([1, 3, 0, 0, 2, 1, 1])) == 0.5
    assert normalised_error(LINEAR, np.ones(9), np.zeros(9, dtype=np.int64)) == pytest.approx((6 + 3) / 4)


def test_the_normalised_error_of_cells_is_their_total_variation() -> None:
    exact, answers = np.array([1, 1, 0, 2, 1, 1, 2]), np.array([1.0, 0, 1, 2, 1, 0, 3])
    assert normalised_error(MARGINALS, answers, exact) == errors(MARGINALS, answers, exact, 4.0).total_variation
