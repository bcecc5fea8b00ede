from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.estimation.independent import IndependentModel, to_simplex
from dpcore.estimation.model import BasketRows, TableRows
from dpcore.queries import Conjunctions, Marginals

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 1})
TABLE_CHANCES = np.array([0.3, 0.7, 0.2, 0.5, 0.3, 1.0])
TABLE = IndependentModel(BinaryView.one_hot(DOMAIN), TABLE_CHANCES, 40.0, DOMAIN)
ITEM_CHANCES = np.array([0.0, 0.25, 0.5, 1.0])
BASKETS = IndependentModel(BinaryView(4), ITEM_CHANCES, 40.0)


def records(model: IndependentModel) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Every record as 0/1 columns with its chance, written out."""
    if model.domain is None:
        bits = np.array(list(product([False, True], repeat=4)))
        return bits, np.where(bits, ITEM_CHANCES, 1 - ITEM_CHANCES).prod(axis=1)
    codes = np.array(list(product(*(range(size) for size in DOMAIN.sizes))))
    columns = codes + np.array([0, 2, 5])
    bits = (columns[:, :, None] == np.arange(6)).any(axis=1)
    return bits, TABLE_CHANCES[columns].prod(axis=1)


@settings(max_examples=80)
@given(data=st.data(), model=st.sampled_from([TABLE, BASKETS]), order=st.integers(1, 4), repetitions=st.integers(0, 2))
def test_conjunctions_are_sums_over_all_records(
    data: st.DataObject, model: IndependentModel, order: int, repetitions: int
) -> None:
    columns = data.draw(st.permutations(range(model.view.columns)))[:order]
    negated = data.draw(st.lists(st.booleans(), min_size=order, max_size=order))
    columns, negated = columns + columns[-1:] * repetitions, negated + negated[-1:] * repetitions
    bits, chances = records(model)
    expected = 40.0 * chances[(bits[:, columns] != negated).all(axis=1)].sum()
    queries = Conjunctions(model.view, np.array([columns], dtype=np.int32), np.array([negated]))
    assert model.answer(queries) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("clique", [(), ("a",), ("b", "a"), ("a", "b", "c")])
def test_marginals_are_products(clique: tuple[str, ...]) -> None:
    queries = Marginals(DOMAIN, (clique, ("b",)))
    factors = {"a": TABLE_CHANCES[:2], "b": TABLE_CHANCES[2:5], "c": TABLE_CHANCES[5:]}
    expected = [np.prod(cell) for cell in product(*(factors[name] for name in sorted(clique)))]
    assert np.allclose(TABLE.answer(queries), 40 * np.array([*expected, *factors["b"]]))


def test_baskets_have_no_marginals() -> None:
    with pytest.raises(ValueError, match="want conjunctions"):
        BASKETS.answer(Marginals(DOMAIN, (("a",),)))


def test_rows_of_a_table_follow_the_chances() -> None:
    """10,000 rows: a frequency is off by 0.03 (6 standard deviations) once in 5e8."""
    rows = TABLE.sample(10_000, np.random.default_rng(1))
    assert isinstance(rows, TableRows)
    for axis, start in enumerate((0, 2, 5)):
        size = DOMAIN.sizes[axis]
        result = np.bincount(rows.codes[:, axis], minlength=size) / 10_000
        assert np.abs(result - TABLE_CHANCES[start : start + size]).max() < 0.03


def test_baskets_follow_the_chances_and_hold_an_item_once() -> None:
    rows = BASKETS.sample(10_000, np.random.default_rng(2))
    assert isinstance(rows, BasketRows)
    assert rows.units == 10_000
    assert np.abs(np.bincount(rows.item, minlength=4) / 10_000 - ITEM_CHANCES).max() < 0.03
    pairs = rows.unit.astype(np.int64) * 4 + rows.item
    assert (np.diff(pairs) > 0).all()  # Sorted by unit, and no pair twice.
    both = np.intersect1d(rows.unit[rows.item == 1], rows.unit[rows.item == 2]).size
    assert abs(both / 10_000 - 0.125) < 0.03


vectors = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8).map(np.array)


@given(values=vectors)
def test_the_projection_is_the_closest_distribution(values: NDArray[np.float64]) -> None:
    """Optimality: one threshold t with p = max(v - t, 0), which sums to 1; found by bisection instead."""
    projected = to_simplex(values)
    assert projected.min() >= 0
    assert projected.sum() == pytest.approx(1.0)
    low, high = float(values.min()) - 1, float(values.max())
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(values - middle, 0).sum() > 1 else (low, middle)
    assert np.allclose(projected, np.maximum(values - low, 0), atol=1e-8)


@pytest.mark.parametrize("values", [[1e17, 3.0], [1e17, 1e17], [-1e17, -1e17, -1e17]])
def test_the_projection_holds_for_values_of_any_size(values: list[float]) -> None:
    projected = to_simplex(np.array(values))
    assert projected.sum() == pytest.approx(1.0)
    assert projected[0] == projected.max()


def test_a_distribution_is_its_own_projection() -> None:
    assert np.allclose(to_simplex(np.array([0.2, 0.5, 0.3])), [0.2, 0.5, 0.3])
