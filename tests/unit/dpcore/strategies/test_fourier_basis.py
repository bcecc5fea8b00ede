"""Parities with signs against their definition."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.evaluation import exact_answers
from dpcore.kernel.sensitivity import PrivacyUnit, l1_sensitivity, squared_l2_sensitivity
from dpcore.strategies.fourier_basis import parities_below
from dpcore.testing.doubles import ADD_REMOVE
from dpcore.testing.tiny_statistics import TinyTable

DOMAIN = Domain.of({"a": 2, "b": 2, "c": 2, "wide": 5})
CODES = np.random.default_rng(0).integers(0, DOMAIN.sizes, (50, 4))
TABLE = TinyTable(DOMAIN, CODES)


def test_they_are_signed_counts_of_all_sets_within_a_clique() -> None:
    queries = parities_below(DOMAIN, [("a", "b"), ("c", "b")], total=True)
    sets = [(), ("a",), ("b",), ("c",), ("a", "b"), ("b", "c")]
    assert [term.clique for term in queries.terms] == sets
    expected = [((-1) ** CODES[:, list(DOMAIN.axes(names))].sum(axis=1)).sum() for names in sets]
    assert exact_answers(TABLE, queries).tolist() == expected
    assert expected[0] == 50


def test_a_row_moves_each_by_one() -> None:
    queries = parities_below(DOMAIN, [("a", "b", "c")], total=False)
    unit = PrivacyUnit(ADD_REMOVE, TABLE.contribution)
    assert len(queries.terms) == l1_sensitivity(queries, unit) == squared_l2_sensitivity(queries, unit) == 7


@pytest.mark.parametrize(("cliques", "said"), [([("a", "wide")], "'wide' has 5 values"), ([()], "names no attribute")])
def test_what_has_no_parities_is_refused(cliques: list[tuple[str, ...]], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parities_below(DOMAIN, cliques, total=True)
