"""Clusters of terms under Laplace noise: which are joined, what they promise, and what a release of them keeps."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.errors import ConfigError
from dpcore.evaluation import exact_answers
from dpcore.kernel.budget import Budget
from dpcore.mechanisms.hdmm.clusters import MeasuredClusters
from dpcore.mechanisms.hdmm.hdmm import Hdmm
from dpcore.queries import Product, Products
from dpcore.queries.ranges import all_ranges, prefix
from dpcore.strategies.kronecker.clustered_terms import clustered_terms
from dpcore.testing.doubles import private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, cell_weights, linear

WIDE = {f"w{place}": 60 for place in range(4)}  # 13 million cells together, so that no table of all is asked.
DOMAIN = Domain.of({"a": 8, "b": 6, **WIDE})
ROWS = np.random.default_rng(3).integers(0, DOMAIN.sizes, (40, len(DOMAIN.sizes)))
TABLE = TinyTable(DOMAIN, ROWS)
GENERATOR = np.random.default_rng(0)
BUDGET = Budget.pure(1)


def ones(size: int) -> np.ndarray:
    return np.ones((1, size), dtype=np.int64)


def codes(size: int) -> np.ndarray:
    return np.eye(size, dtype=np.int64)


# Terms 0, 2 and 4 are about a and b, the others about one wide attribute each.
QUERIES = Products(
    DOMAIN,
    (
        Product(("a", "b"), (prefix(8), codes(6))),
        Product(("w0",), (codes(60),)),
        Product(("a",), (all_ranges(8),)),
        Product(("w1",), (codes(60),)),
        Product(("a", "b"), (codes(8), ones(6))),
        Product(("w2", "w3"), (ones(60), codes(60))),
    ),
)
WORKLOAD = Workload(QUERIES, np.array([1.0, 0.5, 2.0, 1.0, 1.0, 0.25]))


def test_terms_that_ask_the_same_attributes_are_joined_and_others_are_not() -> None:
    clusters = clustered_terms(QUERIES, WORKLOAD.weights**2)
    assert sorted(place for one in clusters for place in one.term_indices) == list(range(6))
    apart = {one.term_indices for one in clusters if len(one.term_indices) == 1}
    assert {(1,), (3,), (5,)} <= apart
    assert max(len(one.term_indices) for one in clusters) >= 2
    assert float(sum(one.share for one in clusters)) == pytest.approx(1)


def test_joining_lowers_the_error_of_all() -> None:
    clusters = clustered_terms(QUERIES, WORKLOAD.weights**2)
    together = sum(one.strategy.error ** (1 / 3) for one in clusters) ** 3
    errors = []
    for place, term in enumerate(QUERIES.terms):
        (alone,) = clustered_terms(Products(DOMAIN, (term,)), WORKLOAD.weights[[place]] ** 2)
        errors.append(alone.strategy.error)
    assert together < 0.99 * sum(error ** (1 / 3) for error in errors) ** 3


def test_shares_are_the_best() -> None:
    clusters = clustered_terms(QUERIES, WORKLOAD.weights**2)
    errors = np.array([one.strategy.error for one in clusters])
    shares = np.array([float(one.share) for one in clusters])
    best = (errors / shares**2).sum()
    for seed in range(20):
        others = shares * np.random.default_rng(seed).uniform(0.8, 1.25, shares.size)
        assert (errors / (others / others.sum()) ** 2).sum() > best * (1 - 1e-6)


def test_hdmm_takes_them_where_nothing_else_measures_terms_together() -> None:
    terms = private_statistics(TABLE, BUDGET).terms
    found, parts = Hdmm().plan(terms, WORKLOAD), Hdmm(strategy="parts").plan(terms, WORKLOAD)
    clusters = MeasuredClusters.of(terms, WORKLOAD)
    assert clusters is not None
    assert len(found.steps) == len(clusters.clusters) < len(parts.steps) == 6
    assert found == Hdmm(strategy="clusters").plan(terms, WORKLOAD)


def test_the_error_is_the_predicted_one_and_the_budget_is_that_of_the_plan() -> None:
    exact = exact_answers(TABLE, QUERIES)
    plan = Hdmm().plan(private_statistics(TABLE, BUDGET).terms, WORKLOAD)
    runs = []
    for _ in range(150):
        private = private_statistics(TABLE, BUDGET)
        runs.append(Hdmm().run(private, WORKLOAD, generator=GENERATOR).answers)
        assert len(private.charges) == len(plan.steps)
        assert 0 <= private.remaining_share < 2**-30
    off = np.array([run.values - exact for run in runs])
    predicted = runs[0].stddev
    squared = (off**2).sum(axis=1)
    wanted = float((predicted**2).sum())
    assert abs(squared.mean() - wanted) < 4.5 * squared.std() / math.sqrt(len(runs))
    assert (np.abs(off.mean(axis=0)) < 5.5 * predicted / math.sqrt(len(runs))).all()
    covered = np.mean([(run.lower <= exact) & (exact <= run.upper) for run in runs])
    assert 0.93 < covered < 0.985
    terms = private_statistics(TABLE, BUDGET).terms
    clusters = MeasuredClusters.of(terms, WORKLOAD)
    assert clusters is not None
    weighted = ((cell_weights(WORKLOAD) * predicted) ** 2).sum()
    assert clusters.weighted_error(terms) == pytest.approx(weighted, rel=1e-6)
    absolute = np.abs(off).mean()
    assert plan.predicted_error is not None
    assert 0.85 * plan.predicted_error < absolute < 1.05 * plan.predicted_error


def test_where_nothing_is_joined_there_are_no_clusters() -> None:
    apart = linear(Products(DOMAIN, (Product(("a",), (codes(8),)), Product(("w0",), (codes(60),)))))
    assert MeasuredClusters.of(private_statistics(TABLE, BUDGET).terms, apart) is None
    with pytest.raises(ConfigError, match="strategy clusters is for products under Laplace noise"):
        Hdmm(strategy="clusters").plan(private_statistics(TABLE, BUDGET).terms, apart)
    with pytest.raises(ConfigError, match="strategy clusters is for products under Laplace noise"):
        Hdmm(strategy="clusters").plan(private_statistics(TABLE, Budget.zcdp(1)).terms, WORKLOAD)


def test_too_many_terms_are_measured_part_by_part() -> None:
    many = linear(Products(DOMAIN, tuple(Product(("a",), (codes(8),)) for _ in range(65))))
    assert MeasuredClusters.of(private_statistics(TABLE, BUDGET).terms, many) is None
