"""Public tables: their counts, and what is no table of a domain."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.estimation.public_table import PublicTable

DOMAIN = Domain.of({"a": 3, "b": 2, "c": 4})
CODES = np.random.default_rng(0).integers(0, DOMAIN.sizes, (50, 3)).astype(np.uint8)


def test_counts_are_those_of_one_row_after_another() -> None:
    table = PublicTable(DOMAIN, CODES)
    assert table.rows == 50
    for clique in [(), *(clique for order in (1, 2, 3) for clique in combinations("abc", order)), ("c", "a")]:
        axes = DOMAIN.axes(clique)
        cells = product(*(range(DOMAIN.sizes[axis]) for axis in axes))
        wanted = [
            sum(all(row[axis] == value for axis, value in zip(axes, cell, strict=True)) for row in CODES)
            for cell in cells
        ]
        assert table.counts(clique).tolist() == wanted


@pytest.mark.parametrize(
    ("codes", "problem"),
    [
        (np.zeros((0, 3), int), "one row or more of 3 attributes"),
        (np.zeros((4, 2), int), "one row or more of 3 attributes"),
        (np.zeros(3, int), "one row or more of 3 attributes"),
        (np.array([[0, 0, 4]]), "codes outside the domain"),
        (np.array([[-1, 0, 0]]), "codes outside the domain"),
    ],
)
def test_what_is_no_table_of_the_domain(codes: np.ndarray, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        PublicTable(DOMAIN, codes)
