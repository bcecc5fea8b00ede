"""Tables of marginals: margins, intervals, and what notebooks and files get."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from dpcore.errors import ConfigError
from marquee.cross_table import Table
from marquee.released_answers import Cells

COUNTS = np.array([[[1.0, 2.0], [30.0, 4000.0]], [[5.0, 6.0], [7.0, 8.0]], [[0.0, 1.0], [2.0, 3.0]]])
NAMES = ("sex", "home", "town")
LABELS = (("f", "m", "__null__"), ("yes", "no"), ("A & B", "<C>"))


def published(names: tuple[str, ...]) -> Cells:
    """The marginal of some attributes, whose interval is one count to each side."""
    answer = np.asarray(COUNTS.sum(axis=tuple(axis for axis, name in enumerate(NAMES) if name not in names)))
    return Cells(answer, np.ones_like(answer), answer - 1, answer + 1, "published")


def labels(*names: str) -> list[tuple[str, ...]]:
    return [LABELS[NAMES.index(name)] for name in names]


def test_cells_and_margins_are_the_marginals() -> None:
    table = Table.of(NAMES, LABELS, published)
    assert table.answer.shape == (4, 3, 3)
    np.testing.assert_array_equal(table.answer[:-1, :-1, :-1], COUNTS)
    np.testing.assert_array_equal(table.answer[:-1, -1, -1], COUNTS.sum(axis=(1, 2)))
    np.testing.assert_array_equal(table.answer[-1, :-1, :-1], COUNTS.sum(axis=0))
    assert table.answer[-1, -1, -1] == COUNTS.sum()
    np.testing.assert_array_equal(table.upper, table.answer + 1)
    assert set(table.source.ravel()) == {"published"}


def test_a_margin_that_is_not_published_is_a_sum_without_an_interval() -> None:
    table = Table.of(("sex", "home"), labels("sex", "home"), lambda part: published(part) if len(part) == 2 else None)
    np.testing.assert_array_equal(table.answer[:-1, -1], COUNTS.sum(axis=(1, 2)))
    assert np.isnan(table.lower[:, -1]).all()
    assert table.source[-1, -1] == table.source[0, -1] == "sum"
    assert table.source[0, 0] == "published"


@pytest.mark.parametrize("names", [(), ("sex", "sex"), ("a", "b", "c", "d", "e", "f")])
def test_too_many_or_equal_attributes_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="want 1 to 5 distinct ones"):
        Table.of(names, [("x",)] * len(names), published)


def test_a_marginal_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"answers no marginal of \['sex'\], and has no model of them"):
        Table.of(("sex",), labels("sex"), lambda part: None)


def test_a_frame_of_pandas_has_the_last_attribute_in_columns() -> None:
    table = Table.of(NAMES, LABELS, published)
    frame = table.to_pandas()
    assert frame.loc[("f", "no"), "<C>"] == 4000.0
    assert frame.loc[("all", "all"), "all"] == COUNTS.sum()
    assert table.to_pandas("upper").loc[("f", "no"), "<C>"] == 4001.0
    single = Table.of(("town",), labels("town"), published).to_pandas()
    assert list(single.columns) == ["answer", "stddev", "lower", "upper"]
    assert single.loc["all", "answer"] == COUNTS.sum()
    with pytest.raises(ConfigError, match="values is 'mean'; want one of answer, stddev, lower, upper"):
        table.to_pandas("mean")


def test_csv_has_a_line_for_each_cell_and_margin(tmp_path: object) -> None:
    table = Table.of(("home", "town"), labels("home", "town"), published)
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert len(rows) == 9
    assert {(row["home"], row["town"]): float(row["answer"]) for row in rows}["yes", "A & B"] == 6.0
    assert {(row["home"], row["town"]): float(row["answer"]) for row in rows}["", ""] == COUNTS.sum()


def test_html_escapes_labels_and_shows_intervals() -> None:
    page = Table.of(("sex", "town"), labels("sex", "town"), published)._repr_html_()
    assert "&lt;C&gt;" in page
    assert "<C>" not in page
    assert "4,002 (4,001 to 4,003)" in page
    assert "95 % interval" in page


def test_text_has_a_line_for_each_label() -> None:
    lines = str(Table.of(("sex",), labels("sex"), published)).splitlines()
    assert [line.split()[0] for line in lines] == ["sex", "f", "m", "__null__", "all"]
