from __future__ import annotations

from itertools import combinations, product
from math import comb, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore.domain import BinaryView, Domain
from dpcore.queries.enumeration import all_conjunctions, group_sizes, number_of_conjunctions, numbers_of_sets

VIEWS = [BinaryView(6), BinaryView.one_hot(Domain.of({"a": 2, "b": 3, "c": 1, "d": 4}))]


def listed(view: BinaryView, order: int, usable: list[bool], negate: bool) -> set[tuple[tuple[int, bool], ...]]:
    """The reference: every set of columns, kept if its groups differ, with every choice of signs."""
    groups = view.group_of_column()
    sets = [
        columns
        for columns in combinations(range(view.columns), order)
        if all(usable[column] for column in columns) and len({groups[column] for column in columns}) == order
    ]
    signs = list(product([False, True] if negate else [False], repeat=order))
    return {tuple(zip(columns, chosen, strict=True)) for columns in sets for chosen in signs}


@settings(max_examples=60)
@given(st.sampled_from(VIEWS), st.integers(1, 4), st.lists(st.booleans(), min_size=10, max_size=10), st.booleans())
def test_all_are_listed_once_and_counted(view: BinaryView, order: int, mask: list[bool], negate: bool) -> None:
    usable = np.array(mask[: view.columns])
    wanted = listed(view, order, usable.tolist(), negate)
    codes = all_conjunctions(view, order, usable, negate=negate)
    got = [tuple((code >> 1, bool(code & 1)) for code in row) for row in codes.tolist()]
    assert codes.dtype == np.int32
    assert set(got) == wanted
    assert len(got) == len(wanted) == number_of_conjunctions(view, order, usable=usable, negate=negate)


@pytest.mark.parametrize("view", VIEWS)
def test_by_default_all_columns_may_be_named(view: BinaryView) -> None:
    everything = np.ones(view.columns, dtype=np.bool_)
    assert group_sizes(view) == group_sizes(view, everything)
    assert number_of_conjunctions(view, 2) == len(listed(view, 2, everything.tolist(), False))


@given(st.lists(st.integers(1, 6), max_size=6), st.integers(0, 7))
def test_the_numbers_of_sets_are_sums_of_products(sizes: list[int], largest: int) -> None:
    counted = {size: sizes.count(size) for size in sizes}
    assert numbers_of_sets(counted, largest) == [
        sum(prod(chosen) for chosen in combinations(sizes, order)) for order in range(largest + 1)
    ]


def test_numbers_are_exact_whatever_their_size() -> None:
    assert number_of_conjunctions(BinaryView(10_000_000), 40, negate=True) == comb(10_000_000, 40) << 40
