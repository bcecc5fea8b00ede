"""The laws of every model: one row a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, combinations
from typing import final

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.estimation.baskets.basket_model import BasketMixture
from dpcore.estimation.baskets.mixture import Nodes, Parameters, RareItems, solved
from dpcore.estimation.baskets.size_law import SizeLaw
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.independent import IndependentModel
from dpcore.estimation.model import Model, RoundedRows, SyntheticRows, TableRows
from dpcore.estimation.multiplicative_weights.dense import DenseModel
from dpcore.estimation.multiplicative_weights.factored import FactoredModel
from dpcore.estimation.record_model import RecordModel
from dpcore.estimation.row_partitions import partition_rows
from dpcore.queries import Conjunctions, Marginals, Parities, Queries
from dpcore.queries.generation import random_conjunctions
from dpcore.queries.ranges import all_ranges, prefix, range_marginals
from dpcore.testing.tiny_statistics import count_satisfied, one_hot_matrix
from tests.support.graphical_models import random_model
from tests.support.graphs import GraphShape
from tests.support.product_cases import dense as matrix_of
from tests.support.product_cases import random_products

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4})
VIEW = BinaryView.one_hot(DOMAIN)
ITEMS = BinaryView(6)
MANY_ITEMS = BinaryView(260)
ROWS = 20_000
LARGEST_ERROR = 6 * 0.5 / ROWS**0.5  # Six standard deviations of a frequency: wrong once in 5e8.


@dataclass(frozen=True)
class Row:
    """A model to hold to the laws.

    view: The columns it can answer conjunctions about.
    marginals: Whether it answers marginals of DOMAIN.
    """

    name: str
    make: Callable[[], Model]
    view: BinaryView
    marginals: bool


def dense() -> Model:
    cells = np.random.default_rng(1).exponential(size=24) * (np.arange(24) % 5 > 0)
    return DenseModel(DOMAIN, cells * 730.5 / cells.sum())


def factored() -> Model:
    """The attributes of the two groups take turns in the domain."""
    draw = np.random.default_rng(10)
    apart = DOMAIN.project(("a", "c")), DOMAIN.project(("b",))
    tables = [draw.exponential(size=part.size()) * (np.arange(part.size()) % 5 > 0) for part in apart]
    groups = tuple(DenseModel(part, 640.5 * table / table.sum()) for part, table in zip(apart, tables, strict=True))
    return FactoredModel(DOMAIN, groups, 640.5)


def independent_table() -> Model:
    parts = [np.random.default_rng(size).dirichlet(np.ones(size)) for size in DOMAIN.sizes]
    return IndependentModel(VIEW, np.concatenate(parts), 512.0, DOMAIN)


def graphical() -> Model:
    chain = GraphShape(DOMAIN, (("a", "b"), ("b", "c")))
    return random_model(chain, 3, total=730.5)


def rounded() -> Model:
    """The graphical model with its rounded rows in the place of independent ones."""
    return Rounded(random_model(GraphShape(DOMAIN, (("a", "c"), ("b", "c"))), 4, total=512.0))


@final
@dataclass(frozen=True, eq=False)
class Rounded:
    model: GraphicalModel

    @property
    def total(self) -> float:
        return self.model.total

    def answer(self, queries: Queries) -> NDArray[np.float64]:
        return self.model.answer(queries)

    def sample(self, units: int, generator: np.random.Generator) -> SyntheticRows:
        return self.model.rows(units, generator)

    def rounded(self, units: int, generator: np.random.Generator) -> RoundedRows:
        return self.model.rounded(units, generator)


def independent_baskets() -> Model:
    return IndependentModel(ITEMS, np.array([0.0, 0.01, 0.2, 0.5, 0.9, 1.0]), 99.5)


def records_of_a_table() -> Model:
    codes = np.random.default_rng(7).integers(0, DOMAIN.sizes, (37, 3))
    return RecordModel.of_rows(VIEW, one_hot_matrix(DOMAIN, codes), 300.0)


def records_of_baskets() -> Model:
    return RecordModel.of_rows(ITEMS, np.random.default_rng(8).random((90, 6)) < 0.4, 1000.0)


def mixture_of_baskets() -> Model:
    """Two tastes, some empty baskets, and items that are rare, common, and in nearly every basket of a taste."""
    sizes = np.arange(4)
    law = SizeLaw(sizes, np.array([0.1, 0.3, 0.4, 0.2]))
    tastes = np.array([[0.0, 1.5, -1.0], [0.5, -2.0, 1.0]])
    parameters = Parameters(np.array([-1.0, -0.5, -2.0]), np.array([0.3, 0.0, -0.2]), tastes, np.zeros(2), np.ones(2))
    nodes = Nodes(sizes[1:].astype(float), law.probabilities[1:], np.ones(3), 0.7)
    rare = RareItems(np.array([-1.5, -3.0]), np.array([200.0, 57.0]))
    levels = solved(parameters, rare, nodes).levels
    base = np.concatenate([parameters.base, np.repeat(rare.logits, [200, 57])])
    return BasketMixture(MANY_ITEMS, 900.5, law, np.arange(-1, 3), nodes.logs, np.arange(3), parameters, base, levels)


MODELS = [
    Row("dense", dense, VIEW, True),
    Row("factored", factored, VIEW, True),
    Row("graphical", graphical, VIEW, True),
    Row("graphical, rounded", rounded, VIEW, True),
    Row("independent, table", independent_table, VIEW, True),
    Row("independent, baskets", independent_baskets, ITEMS, False),
    Row("records of a table", records_of_a_table, VIEW, True),
    Row("records of baskets", records_of_baskets, ITEMS, False),
    Row("mixture of baskets", mixture_of_baskets, MANY_ITEMS, False),
]
every_model = pytest.mark.parametrize("row", MODELS, ids=lambda row: row.name)
MARGINALS = Marginals(DOMAIN, tuple(chain.from_iterable(combinations("abc", order) for order in range(4))))


def conjunctions(view: BinaryView) -> list[Conjunctions]:
    generator = np.random.default_rng(2)
    return [random_conjunctions(view, 6, order, generator, negate=order > 1) for order in (1, 2, 3)]


def parities(view: BinaryView) -> Parities:
    """Of every one, two and three columns of the first six, those of one attribute among them."""
    return Parities.of_sets(view, chain.from_iterable(combinations(range(6), order) for order in (1, 2, 3)))


@every_model
def test_answers_are_counts_between_nothing_and_the_total(row: Row) -> None:
    model = row.make()
    for queries in [*conjunctions(row.view), parities(row.view), *([MARGINALS] if row.marginals else [])]:
        answers = model.answer(queries)
        assert answers.shape == (queries.size,)
        assert answers.dtype == np.float64
        assert np.isfinite(answers).all()
        assert answers.min() >= 0
        assert answers.max() <= model.total * (1 + 1e-12)


@every_model
def test_marginals_agree_where_they_overlap(row: Row) -> None:
    if not row.marginals:
        return
    model = row.make()
    tables = dict(zip(MARGINALS.cliques, MARGINALS.split(model.answer(MARGINALS)), strict=True))
    assert tables[()] == pytest.approx(model.total)
    for clique, table in tables.items():
        for axis, name in enumerate(clique):
            smaller = tuple(other for other in clique if other != name)
            assert np.allclose(table.sum(axis=axis), tables[smaller])


@every_model
def test_products_are_linear_in_marginals_and_counting_ones_stay_within_the_total(row: Row) -> None:
    if not row.marginals:
        return
    model = row.make()
    ranged = range_marginals(DOMAIN, MARGINALS.cliques, {"b": prefix(3, 2), "c": all_ranges(4)})
    for queries in (ranged, random_products(DOMAIN, np.random.default_rng(9))):
        answers = model.answer(queries)
        assert answers.dtype == np.float64
        cells = model.answer(Marginals(DOMAIN, (DOMAIN.names,)))
        assert np.allclose(answers, matrix_of(queries).astype(float) @ cells / queries.denominator)
    counts = model.answer(ranged)
    assert counts.min() >= 0
    assert counts.max() <= model.total * (1 + 1e-12)


@every_model
def test_a_literal_and_its_negation_sum_to_the_total(row: Row) -> None:
    model = row.make()
    positive = Conjunctions.single_columns(row.view)
    negative = Conjunctions(row.view, positive.columns, ~positive.negated)
    assert np.allclose(model.answer(positive) + model.answer(negative), model.total)


@every_model
def test_marginals_and_conjunctions_agree(row: Row) -> None:
    if not row.marginals:
        return
    model = row.make()
    single = model.answer(Conjunctions.single_columns(row.view))
    assert np.allclose(single, model.answer(Marginals(DOMAIN, (("a",), ("b",), ("c",)))))


@every_model
def test_parities_and_conjunctions_agree(row: Row) -> None:
    """Even: none of two columns is 1, or both are."""
    model, pairs = row.make(), np.array(list(combinations(range(6), 2)))
    both, none = (Conjunctions(row.view, pairs, np.full(pairs.shape, negated)) for negated in (False, True))
    even = model.answer(Parities(row.view, pairs))
    assert np.allclose(model.answer(both) + model.answer(none), even)
    single = Parities(row.view, np.arange(row.view.columns)[:, None])
    assert np.allclose(model.answer(single) + model.answer(Conjunctions.single_columns(row.view)), model.total)


@every_model
def test_rows_come_as_often_as_the_answers_say(row: Row) -> None:
    model = row.make()
    matrix = columns_of(model.sample(ROWS, np.random.default_rng(3)), row.view)
    assert matrix.shape == (ROWS, row.view.columns)
    for queries in [*conjunctions(row.view), parities(row.view)]:
        frequencies = count_satisfied(queries, matrix) / ROWS
        assert np.abs(frequencies - model.answer(queries) / model.total).max() < LARGEST_ERROR


@every_model
def test_rounded_rows_in_partitions_have_the_models_frequencies(row: Row) -> None:
    """As samples do; and no single column is further from its mean than a few units, where samples are hundreds off."""
    model = row.make()
    rounded = model.rounded(ROWS, np.random.default_rng(3))
    parts = partition_rows(rounded, 3_000, 8, 0, 7)
    matrix = np.concatenate([columns_of(part, row.view) for part in parts])
    assert matrix.shape == (ROWS, row.view.columns)
    for queries in [*conjunctions(row.view), parities(row.view)]:
        frequencies = count_satisfied(queries, matrix) / ROWS
        assert np.abs(frequencies - model.answer(queries) / model.total).max() < LARGEST_ERROR
    means = ROWS * model.answer(Conjunctions.single_columns(row.view)) / model.total
    furthest = np.abs(matrix.sum(axis=0) - means).max()
    assert furthest < (len(model.records) if isinstance(model, RecordModel) else 5)


@every_model
def test_one_generator_state_gives_one_sample(row: Row) -> None:
    model = row.make()
    first, again, other = (columns_of(model.sample(50, np.random.default_rng(s)), row.view) for s in (4, 4, 5))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@every_model
def test_as_many_rows_come_as_are_asked(row: Row) -> None:
    model = row.make()
    for units in (1, 7):
        assert columns_of(model.sample(units, np.random.default_rng(6)), row.view).shape[0] == units


def columns_of(rows: SyntheticRows, view: BinaryView) -> NDArray[np.bool_]:
    """Synthetic rows as 0/1 columns, bool [units, view.columns]."""
    if isinstance(rows, TableRows):
        assert rows.codes.dtype == np.int32
        return one_hot_matrix(rows.domain, rows.codes)
    assert (np.diff(rows.unit) >= 0).all()
    matrix = np.zeros((rows.units, view.columns), dtype=np.bool_)
    matrix[rows.unit, rows.item] = True
    assert matrix.sum() == len(rows.unit)  # No pair comes twice.
    return matrix
