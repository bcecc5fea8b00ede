"""Queries as text, and the cells of a marginal that they count."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.errors import ConfigError
from jobs.reading.marginals import MODEL, PUBLISHED, SUM, Marginal
from marquee.intervals import interval_of, selection
from pipelines.layout import BasketLayout, TableLayout
from pipelines.schema import schema_from
from tests.support.releases import SCHEMA

LAYOUT = TableLayout("person", schema_from(SCHEMA))
COUNTS = np.arange(10.0).reshape(2, 5) * 100  # sex x work.


def marginal(source: str = PUBLISHED) -> Marginal:
    labels = tuple(attribute.labels for attribute in LAYOUT.schema.attributes[:2])
    return Marginal(("sex", "work"), labels, COUNTS, np.ones_like(COUNTS), COUNTS - 2, COUNTS + 2, source)


@pytest.mark.parametrize("query", ["sex=male & work=none", "work=none&sex=male", "work=none & sex!=female"])
def test_a_query_of_a_cell_has_its_interval(query: str) -> None:
    chosen = selection(query, LAYOUT)
    assert chosen.clique == ("sex", "work")
    interval = chosen.interval(query, marginal())
    assert (interval.answer, interval.lower, interval.upper, interval.stddev) == (700.0, 698.0, 702.0, 1.0)
    assert str(interval) == f"{query}: 700 (95% interval 698 to 702)"


@pytest.mark.parametrize(("source", "of_sum"), [(PUBLISHED, SUM), (MODEL, MODEL)])
def test_a_query_of_several_cells_has_their_sum_and_no_interval(source: str, of_sum: str) -> None:
    query = "work!=none & work!=public & sex=male"
    interval = selection(query, LAYOUT).interval(query, marginal(source))
    assert interval.answer == 500 + 800 + 900
    assert (interval.known, interval.source) == (False, of_sum)
    assert "no interval, because" in str(interval)


def test_no_attribute_is_the_number_of_rows() -> None:
    chosen = selection("all", LAYOUT)
    whole = Marginal((), (), *(np.array(value) for value in (50.0, np.nan, 49.0, 51.0)), source=PUBLISHED)  # type: ignore[misc, arg-type]
    assert chosen.clique == ()
    assert chosen.interval("all", whole) == interval_of("all", 50.0, np.nan, 49.0, 51.0, source=PUBLISHED)


@pytest.mark.parametrize(("query", "problem"), [
    ("sex=mael", "did you mean 'male'"), ("", "has an empty literal"), ("sex=male & sex=female", "requires two values"),
    ("person=1", "unknown attribute 'person'"),
])  # fmt: skip
def test_a_text_that_is_no_query_is_refused(query: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        selection(query, LAYOUT)


def test_baskets_have_the_answers_that_they_published() -> None:
    with pytest.raises(ConfigError, match="is about baskets and does not answer '1 & 2'"):
        selection("1 & 2", BasketLayout("user", "item", 5, None))
