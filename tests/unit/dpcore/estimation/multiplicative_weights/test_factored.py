"""The product of dense tables against one dense table that follows the same measurements."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Clique, Domain
from dpcore.errors import DomainTooLargeError
from dpcore.estimation.multiplicative_weights import factored, factored_answers
from dpcore.estimation.multiplicative_weights.dense import DenseModel, MultiplicativeWeights, tables_of
from dpcore.estimation.multiplicative_weights.factored import FactoredModel, FactoredWeights
from dpcore.estimation.multiplicative_weights.factored_answers import Factor, FactoredAnswers
from dpcore.queries import Conjunctions, Marginals, Parities
from dpcore.queries.generation import random_conjunctions
from dpcore.queries.ranges import prefix, range_marginals

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4, "d": 2, "e": 3})
ALL_CLIQUES = list(chain.from_iterable(combinations("abcde", order) for order in range(1, 5)))
EVERY = Marginals(DOMAIN, tuple(chain.from_iterable(combinations("abcde", order) for order in range(6))))
TOTAL = 200.0
BITS = Domain.of({f"x{place}": 2 for place in range(77)})

Pairs = list[tuple[Clique, NDArray[np.float64]]]
cliques = st.lists(st.sampled_from(ALL_CLIQUES), min_size=1, max_size=6)


def noisy(asked: list[Clique], seed: int) -> Pairs:
    generator = np.random.default_rng(seed)
    return [(clique, generator.normal(20, 30, DOMAIN.size(clique)).round()) for clique in asked]


def started(seed: int, paired: bool, step: float = 0.5) -> tuple[FactoredWeights, MultiplicativeWeights]:
    """One start in both forms: single attributes, or two of them in one group and one not given."""
    generator = np.random.default_rng(seed)
    groups = [("b", "d"), ("a",), ("e",)] if paired else [("a",), ("b",), ("c",), ("d",), ("e",)]
    start = [(group, generator.exponential(size=DOMAIN.size(group))) for group in groups]
    whole = np.ones(DOMAIN.sizes)
    for group, table in start:
        whole = whole * table.reshape([DOMAIN.sizes[axis] if name in group else 1 for axis, name in enumerate("abcde")])
    dense = MultiplicativeWeights(DOMAIN, whole.ravel(), TOTAL, step)
    return FactoredWeights(DOMAIN, start, TOTAL, step), dense


@settings(max_examples=60, deadline=None)
@given(cliques, st.integers(1, 4), st.booleans(), st.sampled_from([0.5, 2.0]), st.booleans(), st.integers(0, 999))
def test_the_distribution_is_that_of_one_dense_table(
    asked: list[Clique], passes: int, paired: bool, step: float, small: bool, seed: int
) -> None:
    """To 1e-12 of the total, round after round, by the compiled loop of small tables and by that of large ones."""
    product, dense = started(seed, paired, step)
    measured = noisy(asked, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factored, "_SMALL_TABLE", 1 << 12 if small else 0)
        for seen in range(1, len(measured) + 1):
            product.follow(measured[:seen], passes)
            dense.follow(measured[:seen], passes)
            assert np.abs(product.whole() - dense.table).max() <= 1e-12 * TOTAL


@settings(max_examples=40, deadline=None)
@given(cliques, st.booleans(), st.integers(0, 999))
def test_answers_follow_the_groups_as_they_join(asked: list[Clique], paired: bool, seed: int) -> None:
    product, dense = started(seed, paired)
    answers = FactoredAnswers(EVERY)
    for pair in noisy(asked, seed):
        product.follow([pair], 2)
        dense.follow([pair], 2)
        result = answers.values(product.factors, TOTAL)
        assert np.abs(result - tables_of(dense.table, DOMAIN, EVERY)).max() <= 1e-12 * TOTAL
        cells = answers.joined_cells(product.factors)
        assert cells.tolist() == [product.joined_cells(clique) for clique in EVERY.cliques]


def groups_of(weights: FactoredWeights) -> set[Clique]:
    return {factor.domain.names for factor in weights.factors.values()}


def test_only_measured_marginals_join_groups() -> None:
    weights = FactoredWeights(DOMAIN, [], TOTAL)
    assert groups_of(weights) == {("a",), ("b",), ("c",), ("d",), ("e",)}
    weights.follow(noisy([("a", "d"), ("e",), ("c", "e")], 1), 1)
    assert groups_of(weights) == {("a", "d"), ("b",), ("c", "e")}
    assert weights.joined_cells(("a",)) == 4
    assert weights.joined_cells(("a", "b", "e")) == 4 * 3 * 12
    assert weights.work(noisy([("a", "d"), ("e",), ()], 1)) == 4 + 12
    weights.follow(noisy([("d", "e")], 1), 1)
    assert groups_of(weights) == {("a", "c", "d", "e"), ("b",)}
    assert np.isclose(sum(factor.table.sum() for factor in weights.factors.values()), 2 * TOTAL)


def test_only_tables_that_changed_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Clique] = []

    def watched(table: NDArray[np.float64], domain: Domain, queries: Marginals) -> NDArray[np.float64]:
        read.append(domain.names)
        return tables_of(table, domain, queries)

    monkeypatch.setattr(factored_answers, "tables_of", watched)
    weights = FactoredWeights(DOMAIN, [(("a", "b"), np.arange(1.0, 7)), (("c", "d"), np.arange(1.0, 9))], TOTAL)
    answers = FactoredAnswers(Marginals(DOMAIN, (("a", "c"), ("b",), ("d", "e"))))
    answers.values(weights.factors, TOTAL)
    assert sorted(read) == [("a", "b"), ("c", "d")]
    answers.values(weights.factors, TOTAL)
    weights.follow(noisy([("c",)], 2), 1)
    answers.values(weights.factors, TOTAL)
    assert sorted(read) == [("a", "b"), ("c", "d"), ("c", "d")]


def test_a_table_above_the_limit_is_refused_and_nothing_changes() -> None:
    weights = FactoredWeights(DOMAIN, [], TOTAL, limit=12)
    weights.follow(noisy([("a", "b")], 3), 1)
    before = weights.whole()
    with pytest.raises(DomainTooLargeError, match="the table that joins a x b x c has 24 cells; want at most 12"):
        weights.follow(noisy([("a", "c")], 3), 1)
    assert groups_of(weights) == {("a", "b"), ("c",), ("d",), ("e",)}
    assert np.array_equal(weights.whole(), before)
    weights.follow(noisy([("b", "d"), ("c", "e")], 3), 1)  # Twelve cells each.


def test_following_nothing_or_the_number_of_rows_changes_nothing() -> None:
    weights, _ = started(4, paired=True)
    before = weights.whole()
    weights.follow([], 5)
    weights.follow([((), np.array([900.0]))], 5)
    assert np.array_equal(weights.whole(), before)


@pytest.mark.parametrize("values", [[1e9, -1e9], [-1e9, -1e9], [1e15, 1e15]])
def test_noise_far_above_the_total_leaves_a_finite_distribution(values: list[float]) -> None:
    weights = FactoredWeights(DOMAIN, [], 1.0)
    for _ in range(30):
        weights.follow([(("a",), np.array(values)), (("b",), np.array([0, 1e12, -1e12]))], 10)
        assert np.isfinite(weights.whole()).all()
        assert weights.whole().sum() == pytest.approx(1.0)


def test_seventy_seven_attributes_are_followed_as_those_that_share_a_table() -> None:
    """2^77 cells: the six attributes that measurements connect have the distribution of a domain of their own."""
    generator = np.random.default_rng(5)
    asked: list[Clique] = [("x3", "x40"), ("x40", "x76"), ("x8",), ("x3", "x9", "x10"), ("x11", "x76")]
    measured = [(clique, generator.normal(40, 20, BITS.size(clique))) for clique in asked]
    weights = FactoredWeights(BITS, [], TOTAL, 2.0)
    weights.follow(measured, 3)
    connected = BITS.canonical(("x3", "x9", "x10", "x11", "x40", "x76"))
    alone = BITS.project(connected)
    dense = MultiplicativeWeights(alone, np.ones(64), TOTAL, 2.0)
    dense.follow([pair for pair in measured if pair[0] != ("x8",)], 3)
    model = weights.model()
    assert isinstance(model, FactoredModel)
    queries = Marginals(BITS, (connected, ("x0", "x3", "x76"), ("x8", "x70"), ()))
    shared, mixed, apart, rows = queries.split(model.answer(queries))
    assert np.allclose(shared.ravel(), dense.table, rtol=1e-12)
    pair = tables_of(dense.table, alone, Marginals(alone, (("x3", "x76"),)))
    assert np.allclose(mixed.ravel(), np.tile(pair / 2, 2), rtol=1e-12)
    single = model.answer(Marginals(BITS, (("x8",),)))
    assert np.allclose(apart, np.repeat(single / 2, 2).reshape(2, 2), rtol=1e-12)
    assert rows == pytest.approx(TOTAL)
    sampled = model.sample(4_000, np.random.default_rng(6))
    assert sampled.codes.shape == (4_000, 77)
    # Six standard deviations of a frequency.
    assert np.abs((sampled.codes[:, 8] == 1).mean() - single[1] / TOTAL) < 6 * 0.5 / 4_000**0.5


def product_and_dense() -> tuple[FactoredModel, DenseModel]:
    weights, _ = started(7, paired=True)
    weights.follow(noisy([("a", "c")], 7), 3)
    groups = tuple(DenseModel(factor.domain, factor.table) for factor in weights.factors.values())
    return FactoredModel(DOMAIN, groups, TOTAL), DenseModel(DOMAIN, weights.whole())


def test_a_model_answers_every_kind_of_query_as_its_dense_table_does() -> None:
    product, dense = product_and_dense()
    view = BinaryView.one_hot(DOMAIN)
    kinds = (
        EVERY,
        random_conjunctions(view, 40, 3, np.random.default_rng(8), negate=True),
        Conjunctions.single_columns(view),
        Parities.of_sets(view, combinations(range(view.columns), 3)),
        range_marginals(DOMAIN, EVERY.cliques, {"b": prefix(3, 2)}),
    )
    for queries in kinds:
        assert np.allclose(product.answer(queries), dense.answer(queries), rtol=1e-12, atol=1e-12 * TOTAL)
    assert product.total == pytest.approx(dense.total)


def test_rows_follow_the_product_of_the_groups() -> None:
    """20,000 rows over 144 cells: the chi-square statistic has 143 degrees; above 260 comes once in 1e8."""
    product, dense = product_and_dense()
    rows = product.sample(20_000, np.random.default_rng(9))
    assert rows.domain == DOMAIN
    assert rows.codes.dtype == np.int32
    result = np.bincount(np.ravel_multi_index(tuple(rows.codes.T), DOMAIN.sizes), minlength=144)
    expected = 20_000 * dense.table / dense.total
    assert ((result - expected) ** 2 / expected).sum() < 260


def test_a_small_product_is_given_as_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    weights, _ = started(10, paired=False)
    assert isinstance(weights.model(), DenseModel)
    monkeypatch.setattr(factored, "LARGEST_WHOLE", 143)
    product = weights.model()
    assert isinstance(product, FactoredModel)
    assert np.allclose(product.answer(EVERY), DenseModel(DOMAIN, weights.whole()).answer(EVERY), rtol=1e-12)
    weights.join(DOMAIN.names)
    assert isinstance(weights.model(), DenseModel)


def test_groups_that_overlap_or_leave_an_attribute_out_are_refused() -> None:
    product, _ = product_and_dense()
    for groups in (product.groups[:-1], (*product.groups, product.groups[0])):
        with pytest.raises(ValueError, match="not a partition of the domain"):
            FactoredModel(DOMAIN, groups, TOTAL)
    with pytest.raises(ValueError, match="unknown attribute 'z'"):
        product.answer(Marginals(Domain.of({"a": 2, "z": 2}), (("a", "z"),)))


def test_no_attributes_leave_the_number_of_rows() -> None:
    weights = FactoredWeights(Domain((), ()), [], TOTAL)
    assert weights.model().answer(Marginals(DOMAIN, ((), ()))).tolist() == [TOTAL, TOTAL]
    assert FactoredAnswers(Marginals(DOMAIN, ((),))).values({}, TOTAL).tolist() == [TOTAL]
    one = {0: Factor(DOMAIN.project(("a",)), np.array([1.0, 3.0]))}
    assert FactoredAnswers(Marginals(DOMAIN, (("a",),))).values(one, TOTAL).tolist() == [50.0, 150.0]
