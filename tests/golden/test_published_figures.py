"""Figures that others published or measured, reproduced by our code."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.domain import Domain
from dpcore.evaluation import baselines, errors, exact_answers
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel.budget import Budget
from dpcore.kernel.conversion import epsilon_of_zcdp
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.queries import Marginals
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import all_k_way
from jobs.planning.job import load_job
from tests.support.acceptance import CONFIGS
from tests.support.relative_entropy import relative_entropy
from tests.support.required_data import dataset

# DualQuery's published parameters (full paper, section 6; authors' code) with the epsilon at each delta that
# bounded-range accounting gives them: eta, rounds, samples, units, {delta: epsilon}.
DUAL_QUERY = {
    "KDD99": (1.2, 170, 1750, 494_021, {1e-3: 0.320, 1e-6: 0.566, 1e-9: 0.739}),
    "Netflix, s 4500": (1.2, 120, 4500, 480_189, {1e-3: 0.311}),
    "Netflix, s 958": (1.2, 200, 958, 480_189, {1e-3: 0.309}),
    "Adult": (0.8, 40, 1000, 30_162, {1e-3: 0.293}),
}


@pytest.mark.parametrize("name", DUAL_QUERY)
def test_dual_query_costs_what_bounded_range_accounting_says(name: str) -> None:
    eta, rounds, samples, units, wanted = DUAL_QUERY[name]
    unit = PrivacyUnit(Neighbours.REPLACE_ONE_UNIT, Contribution(Shape.BASKETS, units), units)
    terms = PrivacyTerms(unit, Budget.zcdp(1))
    rho = sum(terms.draws_amount(Fraction(str(eta)) * done, units, samples) for done in range(rounds))
    assert float(rho) == pytest.approx(
        samples * eta**2 * (rounds - 1) * rounds * (2 * rounds - 1) / (12 * units**2), rel=1e-4
    )
    for delta, epsilon in wanted.items():
        assert epsilon_of_zcdp(float(rho), delta) == pytest.approx(epsilon, abs=5e-4)


@pytest.mark.parametrize(("config", "cells"), [("adult", 453_600), ("adult8", 38_102_400)])
def test_adult_has_the_published_number_of_cells(config: str, cells: int) -> None:
    queries = load_job(CONFIGS / f"{config}.yaml").stand_in.queries
    assert isinstance(queries, Marginals)
    used = {name for clique in queries.cliques for name in clique}
    assert queries.domain.size(used) == cells


def test_nltcs_is_as_far_from_independence_as_measured_elsewhere() -> None:
    """Product of exact one-way marginals: mean cell error 0.063 on all 3-way marginals, relative entropy 3.51."""
    parts = sorted(dataset("tabular/nltcs").glob("*.parquet"))
    table = pa.concat_tables([pq.read_table(part) for part in parts])
    domain = Domain(tuple(table.column_names), (2,) * table.num_columns)
    codes = np.stack([column.to_numpy() for column in table.columns], axis=1)
    survey = TinyTable(domain, codes[:2_000])
    queries = all_k_way(domain, 3, domain.names[:6]).queries
    product = baselines(queries, survey, 2_000)["product"]
    by_hand = _product_by_hand(codes[:2_000], queries)
    np.testing.assert_allclose(product, by_hand, rtol=1e-9)

    whole = Marginals(domain, (domain.names,))
    cells = np.bincount(np.ravel_multi_index(tuple(codes.T.astype(np.int64)), domain.sizes), minlength=domain.size())
    chances = codes.mean(axis=0)
    model = np.ones(1)
    for chance in chances:
        model = np.multiply.outer(model, [1 - chance, chance]).ravel()
    assert whole.size == model.size
    assert relative_entropy(cells, model) == pytest.approx(3.51, abs=0.005)


def test_errors_are_those_of_the_definition() -> None:
    domain = Domain.of({"a": 2, "b": 2})
    table = TinyTable(domain, np.array([[0, 0], [0, 1], [1, 1], [1, 1]]))
    queries = Marginals(domain, (("a", "b"),))
    found = errors(queries, np.ones(4), exact_answers(table, queries), 4)
    assert (found.max, found.mean, found.total_variation) == (0.25, 0.125, 0.25)


def _product_by_hand(codes: np.ndarray, queries: Marginals) -> np.ndarray:
    rows = len(codes)
    answers = []
    for clique in queries.cliques:
        for cell in np.ndindex(*queries.domain.shape(clique)):
            held = [
                (codes[:, queries.domain.index(name)] == value).mean() for name, value in zip(clique, cell, strict=True)
            ]
            answers.append(rows * np.prod(held))
    return np.array(answers)
