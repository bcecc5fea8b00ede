"""Marginals, Kronecker queries, conjunctions and parities against the dense joint table."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.estimation.graphical.answering import answers
from dpcore.estimation.graphical.answering.answers import one_hot_answers
from dpcore.estimation.graphical.answering.calibrated import Calibrated
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.queries import Conjunctions, Parities
from tests.support.joint_tables import joint_table, random_conditionals, summed_to

DOMAIN = Domain.of({"a": 3, "b": 2, "c": 4, "d": 1, "e": 2})
TREE = JunctionTree.of(DOMAIN, [("a", "b"), ("b", "c"), ("e",)])
CONDITIONALS = random_conditionals(TREE, np.random.default_rng(0))
TABLE = joint_table(TREE, CONDITIONALS)
VIEW = BinaryView.one_hot(DOMAIN)


def _rows() -> NDArray[np.bool_]:
    """Every possible record as 0/1 columns, bool [cells, columns], in the order of the table's cells."""
    codes = np.stack(np.unravel_index(np.arange(TABLE.size), TABLE.shape), axis=1)
    return np.concatenate([np.eye(size, dtype=bool)[codes[:, axis]] for axis, size in enumerate(DOMAIN.sizes)], axis=1)


def _expected(queries: Conjunctions | Parities) -> NDArray[np.float64]:
    records, chances = _rows(), np.empty(queries.size)
    for row in range(queries.size):
        columns = queries.columns[row]
        ones = records[:, columns[columns >= 0]]
        if isinstance(queries, Conjunctions):
            satisfied = (ones != queries.negated[row]).all(axis=1)
        else:
            satisfied = ones.sum(axis=1) % 2 == 0
        chances[row] = TABLE.ravel()[satisfied].sum()
    return chances


def test_marginals_in_and_out_of_the_nodes() -> None:
    cliques = [("a", "b"), ("a", "c"), ("c", "e"), ("a", "c", "d", "e"), ()]
    for clique, marginal in zip(cliques, Calibrated(TREE, CONDITIONALS).marginals(cliques), strict=True):
        np.testing.assert_allclose(marginal, summed_to(TABLE, DOMAIN, clique), atol=1e-14)


def test_prefix_sums_of_one_attribute_by_differences_of_another() -> None:
    prefix, difference = np.tril(np.ones((4, 4))), np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
    result = Calibrated(TREE, CONDITIONALS).linear({"c": prefix, "a": difference})
    expected = difference @ summed_to(TABLE, DOMAIN, ("a", "c")) @ prefix.T
    np.testing.assert_allclose(result, expected, atol=1e-14)


@pytest.fixture(params=["tables", "messages of groups", "messages of all"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the ways in which queries may be answered, chunks of a few queries in all."""
    monkeypatch.setattr(answers, "_CHUNK_CELLS", 100)
    monkeypatch.setattr(answers, "_CELLS_PER_QUERY", 10**6 if request.param == "tables" else 0)
    monkeypatch.setattr(answers, "_GROUP_CELLS", 10**9 if request.param == "messages of all" else 0)


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("negate", [False, True])
def test_random_conjunctions(order: int, negate: bool) -> None:
    """Any columns, also several of one attribute, which no record has together."""
    generator = np.random.default_rng(order)
    columns = np.stack([generator.permutation(VIEW.columns)[:order] for _ in range(150)]).astype(np.int32)
    negated = generator.random(columns.shape) < (0.5 if negate else 0.0)
    columns[100:, 1:], negated[100:, 1:] = columns[100:, :1], negated[100:, :1]  # Single literals, repeated.
    queries = Conjunctions(VIEW, columns, negated)
    expected = _expected(queries)
    assert np.count_nonzero(expected) > 5
    np.testing.assert_allclose(one_hot_answers(Calibrated(TREE, CONDITIONALS), queries), expected, atol=1e-13)


@pytest.mark.usefixtures("_way")
def test_parities_of_one_to_three_columns() -> None:
    generator = np.random.default_rng(9)
    sets = [generator.permutation(VIEW.columns)[: 1 + place % 3].tolist() for place in range(150)]
    queries = Parities.of_sets(VIEW, sets)
    result = one_hot_answers(Calibrated(TREE, CONDITIONALS), queries)
    np.testing.assert_allclose(result, _expected(queries), atol=1e-13)


def test_queries_over_other_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="one-hot view"):
        one_hot_answers(Calibrated(TREE, CONDITIONALS), Conjunctions.single_columns(BinaryView(VIEW.columns)))
