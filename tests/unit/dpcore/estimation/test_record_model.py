"""The record model against plain counting over its records."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.estimation import record_model
from dpcore.estimation.model import BasketRows, TableRows
from dpcore.estimation.record_model import RecordModel
from dpcore.exact_statistics import QueryAnswers
from dpcore.queries import Conjunctions, Marginals
from dpcore.queries.generation import random_conjunctions
from dpcore.testing.tiny_statistics import TinyTable, count_conjunctions, one_hot_matrix

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4})
VIEW = BinaryView.one_hot(DOMAIN)


def table(records: int, total: float = 60.0, seed: int = 0) -> tuple[RecordModel, np.ndarray]:
    codes = np.random.default_rng(seed).integers(0, DOMAIN.sizes, (records, 3))
    return RecordModel.of_rows(VIEW, one_hot_matrix(DOMAIN, codes), total), codes


def baskets(records: int, columns: int, total: float = 60.0, seed: int = 0) -> tuple[RecordModel, np.ndarray]:
    matrix = np.random.default_rng(seed).random((records, columns)) < 0.4
    return RecordModel.of_rows(BinaryView(columns), matrix, total), matrix


@settings(deadline=None, max_examples=40)
@given(records=st.integers(1, 200), columns=st.integers(3, 70), order=st.integers(1, 3), seed=st.integers(0, 1000))
def test_conjunctions_are_counted(records: int, columns: int, order: int, seed: int) -> None:
    model, matrix = baskets(records, columns, seed=seed)
    queries = random_conjunctions(model.view, 3, order, np.random.default_rng(seed), negate=order > 1)
    assert np.allclose(model.answer(queries), count_conjunctions(queries, matrix) * 60.0 / records)


@pytest.mark.parametrize("cells", [1, 64 * 9, 1 << 26])
def test_bitmaps_do_not_depend_on_how_many_columns_are_unpacked_at_a_time(
    cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_model, "_MAX_UNPACKED", cells)
    model, matrix = baskets(9, 131)
    queries = Conjunctions.single_columns(model.view)
    assert np.allclose(model.answer(queries), matrix.sum(axis=0) * 60.0 / 9)


@pytest.mark.parametrize("records", [1, 64, 130])
def test_marginals_are_counted(records: int) -> None:
    model, codes = table(records)
    cliques = tuple(chain.from_iterable(combinations("abc", order) for order in range(4)))
    queries = Marginals(DOMAIN, cliques)
    exact = TinyTable(DOMAIN, codes).aggregate(QueryAnswers(queries))
    assert np.allclose(model.answer(queries), exact * 60.0 / records)


def test_rows_are_the_records_as_often_as_can_be() -> None:
    model, codes = table(7)
    rows = model.sample(7 * 5 + 2, np.random.default_rng(1))
    assert isinstance(rows, TableRows)
    assert rows.domain == DOMAIN
    cells = np.ravel_multi_index(tuple(rows.codes.T), DOMAIN.sizes)
    expected = np.bincount(np.ravel_multi_index(tuple(codes.T), DOMAIN.sizes), minlength=24)
    extra = np.bincount(cells, minlength=24) - 5 * expected
    assert extra.sum() == 2
    assert ((extra >= 0) & (extra <= expected)).all()


def test_baskets_come_as_pairs_and_may_be_empty() -> None:
    matrix = np.array([[0, 0, 0], [1, 0, 1]], dtype=bool)
    model = RecordModel.of_rows(BinaryView(3), matrix, 10.0)
    rows = model.sample(4, np.random.default_rng(2))
    assert isinstance(rows, BasketRows)
    assert rows.units == 4
    assert (rows.unit.dtype, rows.item.dtype) == (np.int32, np.int32)
    assert sorted(np.bincount(rows.unit, minlength=4)) == [0, 0, 2, 2]
    assert rows.item.tolist() == [0, 2, 0, 2]
    assert model.sample(0, np.random.default_rng(2)).units == 0


def test_a_view_without_names_numbers_its_attributes() -> None:
    model, _ = table(3)
    unnamed = RecordModel(BinaryView(VIEW.columns, VIEW.groups), model.records, 5.0)
    rows = unnamed.sample(3, np.random.default_rng(0))
    assert isinstance(rows, TableRows)
    assert rows.domain.sizes == DOMAIN.sizes
    assert np.array_equal(unnamed.answer(Marginals(DOMAIN, (("a",),))), model.answer(Marginals(DOMAIN, (("a",),))) / 12)


OTHER = Domain.of({"a": 2, "b": 3, "d": 4})


@pytest.mark.parametrize(
    ("model", "queries"),
    [
        (table(3)[0], Marginals(OTHER, (("a",),))),
        (table(3)[0], Marginals(DOMAIN.project("ab"), (("a",),))),
        (baskets(3, 9)[0], Marginals(DOMAIN, (("a",),))),
        (table(3)[0], Conjunctions.single_columns(BinaryView(9))),
        (baskets(3, 9)[0], Conjunctions.single_columns(BinaryView(10))),
    ],
)
def test_queries_over_other_data_are_refused(model: RecordModel, queries: Marginals | Conjunctions) -> None:
    with pytest.raises(ConfigError, match="want its own"):
        model.answer(queries)


@pytest.mark.parametrize(
    ("records", "total"), [(np.zeros((0, 2)), 1.0), (np.zeros((2, 1)), 1.0), (np.zeros(2), 1.0), (np.zeros((1, 2)), -1)]
)
def test_impossible_models_are_refused(records: np.ndarray, total: float) -> None:
    with pytest.raises(ValueError, match="want"):
        RecordModel(VIEW, records.astype(np.uint8), total)
