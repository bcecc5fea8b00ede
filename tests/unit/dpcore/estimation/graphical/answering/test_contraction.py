"""Products of labelled tables against einsum, and the tables that are kept."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.estimation.graphical.answering.contraction import (
    Table,
    TableCache,
    TooLargeError,
    contract,
    contract_all,
    labels_of,
    mask_of,
    transpose_to,
)

SIZES = (3, 1, 4, 2, 5, 20)


def _random(labels: tuple[int, ...], generator: np.random.Generator) -> Table:
    return Table(labels, generator.normal(size=[SIZES[label] for label in labels]))


def _einsum(tables: list[Table], kept: list[int]) -> NDArray[np.float64]:
    terms: list[object] = []
    for table in tables:
        terms += [table.values, list(table.labels)]
    return np.asarray(np.einsum(*terms, kept))


def test_a_set_of_labels_is_read_back_ascending() -> None:
    assert labels_of(mask_of([5, 0, 70])) == [0, 5, 70]
    assert labels_of(0) == []


@pytest.mark.parametrize(
    ("left", "right", "keep"),
    [
        ((0, 2), (2, 4), ()),  # One matrix product.
        ((2, 0), (4, 2), (2,)),  # Many products of a column and a row.
        ((0, 2, 4), (4, 2), (2,)),  # Many matrices times vectors.
        ((2, 5, 4), (4, 0, 2), (2,)),  # Many larger matrix products.
        ((3, 5, 4, 2), (4, 0, 2, 3), (3, 2)),
        ((0,), (4,), ()),  # Nothing in common.
        ((0, 2), (2, 0), ()),  # Nothing left.
        ((0, 2), (0, 2), (0, 2)),  # Nothing summed.
        ((), (4, 0), ()),
        ((1, 0), (0, 1), (1,)),
    ],
)
def test_a_product_of_two_tables_is_einsum(
    left: tuple[int, ...], right: tuple[int, ...], keep: tuple[int, ...]
) -> None:
    generator = np.random.default_rng(1)
    first, second = _random(left, generator), _random(right, generator)
    product = contract(first, second, mask_of(keep), 10**6)
    kept = [
        label for label in dict.fromkeys((*left, *right)) if label in keep or not (label in left and label in right)
    ]
    assert set(product.labels) == set(kept)
    np.testing.assert_allclose(transpose_to(product, kept), _einsum([first, second], kept), atol=1e-12)


def test_several_tables_are_summed_over_what_nobody_keeps() -> None:
    generator = np.random.default_rng(2)
    table = _random((0, 2, 3, 4), generator)
    others = [_random((2, 5), generator), _random((2, 3), generator), _random((3, 0, 1), generator)]
    product = contract_all(table, others, mask_of([1, 4, 5]), 10**6)
    np.testing.assert_allclose(transpose_to(product, [1, 4, 5]), _einsum([table, *others], [1, 4, 5]), atol=1e-12)


def test_many_tables_are_taken_as_they_come() -> None:
    generator = np.random.default_rng(3)
    table, others = _random((0, 2), generator), [_random((0,), generator) for _ in range(20)]
    np.testing.assert_allclose(
        contract_all(table, others, mask_of([2]), 10**6).values, _einsum([table, *others], [2]), atol=1e-12
    )


def test_a_table_that_would_be_too_large_is_not_made() -> None:
    first, second = Table((0, 1), np.ones((50, 2))), Table((1, 2), np.ones((2, 40)))
    assert contract(first, second, 0, 2000).values.size == 2000
    with pytest.raises(TooLargeError) as raised:
        contract(first, second, 0, 1999)
    assert raised.value.cells == 2000


def test_the_tables_that_were_not_used_for_longest_go_first() -> None:
    kept = TableCache(8 * 40)
    for key in range(4):
        kept.put(key, Table((0,), np.full(10, float(key))))
    assert kept.get(0) is not None  # Used, so 1 is now the oldest.
    kept.put(4, Table((0,), np.ones(5)))
    assert [key for key in range(5) if kept.get(key) is not None] == [0, 2, 3, 4]
    assert kept.bytes == 8 * 35


def test_a_table_that_would_push_out_many_others_is_not_kept() -> None:
    kept = TableCache(8 * 40)
    kept.put("small", Table((0,), np.ones(10)))
    kept.put("large", Table((0,), np.ones(11)))
    assert kept.get("small") is not None
    assert kept.get("large") is None
