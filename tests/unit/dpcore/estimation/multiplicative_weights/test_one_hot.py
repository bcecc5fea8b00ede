from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.estimation.multiplicative_weights.dense import tables_of
from dpcore.estimation.multiplicative_weights.one_hot import answers_of_tables
from dpcore.queries import Conjunctions, Marginals, Parities
from dpcore.testing.tiny_statistics import one_hot_matrix

DOMAIN = Domain.of({"a": 2, "b": 1, "c": 3, "d": 2})
VIEW = BinaryView.one_hot(DOMAIN)
CELLS = np.random.default_rng(0).exponential(size=12)
CODES = np.stack(np.unravel_index(np.arange(12), DOMAIN.sizes), axis=1)


def answer(queries: Marginals) -> NDArray[np.float64]:
    return tables_of(CELLS, DOMAIN, queries)


@settings(max_examples=100)
@given(data=st.data(), order=st.integers(1, 5))
def test_conjunctions_are_sums_over_all_cells(data: st.DataObject, order: int) -> None:
    rows = [
        (
            data.draw(st.permutations(range(8)))[:order],
            data.draw(st.lists(st.booleans(), min_size=order, max_size=order)),
        )
        for _ in range(3)
    ]
    columns, negated = (np.array(part) for part in zip(*rows, strict=True))
    columns[0, 1:], negated[0, 1:] = columns[0, 0], negated[0, 0]  # A single literal, repeated.
    bits = one_hot_matrix(DOMAIN, CODES)
    expected = [CELLS[(bits[:, c] != n).all(axis=1)].sum() for c, n in zip(columns, negated, strict=True)]
    result = answers_of_tables(Conjunctions(VIEW, columns.astype(np.int32), negated), DOMAIN, answer)
    assert np.allclose(result, expected)


def test_parities_are_sums_over_all_cells() -> None:
    """Of columns of one attribute or of several, one of them alone in its group."""
    sets = [row for order in (1, 2, 3) for row in combinations(range(8), order)]
    bits = one_hot_matrix(DOMAIN, CODES)
    expected = [CELLS[bits[:, row].sum(axis=1) % 2 == 0].sum() for row in sets]
    assert np.allclose(answers_of_tables(Parities.of_sets(VIEW, sets), DOMAIN, answer), expected)


@pytest.mark.parametrize("view", [BinaryView(8), BinaryView(8, ((0, 3), (3, 8)))])
def test_other_columns_are_refused(view: BinaryView) -> None:
    with pytest.raises(ValueError, match="want its one-hot view"):
        answers_of_tables(Conjunctions.single_columns(view), DOMAIN, answer)
