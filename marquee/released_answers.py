"""The answers of a release with a column for each attribute, and whole marginals of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jobs.outputs.answers_table import SCHEMA
from jobs.workload.query_text import read_conjunctions
from pipelines.layout import Layout, TableLayout

ALL: Final = "all"
"""The query that counts all rows."""

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_CONJUNCTIVE = ("marginal", "conjunction")
_BARS = ("answer", "stddev", "lower", "upper")


@dataclass(frozen=True, eq=False)
class Cells:
    """A marginal.

    answer, stddev, lower, upper: float64 [size of each attribute], in counts. NaN where nothing is known.
    source: Where the answers come from: ``"published"``, ``"model"`` or ``"sum"``.
    """

    answer: NDArray[np.float64]
    stddev: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    source: str

    @classmethod
    def without_bars(cls, answer: NDArray[np.float64], source: str) -> Cells:
        """Answers about whose error nothing is known."""
        unknown = np.full(answer.shape, np.nan)
        return cls(answer, unknown, unknown, unknown, source)

    def transposed(self, axes: Sequence[int]) -> Cells:
        """The same marginal with its attributes in another order."""
        answer, stddev, lower, upper = (getattr(self, name).transpose(axes) for name in _BARS)
        return Cells(answer, stddev, lower, upper, self.source)


def attribute_columns(layout: Layout) -> dict[str, str]:
    """The column of ``answers`` for each attribute. One that is named as a column of the answers has a suffix."""
    if not isinstance(layout, TableLayout):
        return {}
    names = layout.schema.domain.names
    return {name: f"{name}_attribute" if name in SCHEMA.names else name for name in names}


def with_attributes(table: pa.Table, layout: Layout) -> pa.Table:
    """Answers with a column of labels for each attribute, which is null where the query does not name it.

    table: The content of answers.parquet.
    layout: The public layout of the data.

    The answers of baskets, of parities and of query matrices are returned as they are.
    """
    columns = attribute_columns(layout)
    kinds = set(pc.unique(table["kind"]).to_pylist())
    if not isinstance(layout, TableLayout) or set(columns.values()) & set(table.column_names):
        return table
    if not kinds <= set(_CONJUNCTIVE):
        return table
    labels: dict[str, list[str | None]] = {name: [None] * table.num_rows for name in columns}
    for row, name, label in _literals(table["query"].to_pylist(), layout):
        labels[name][row] = label
    for name, column in columns.items():
        table = table.append_column(column, pa.array(labels[name], type=pa.string()))
    return table


def _literals(texts: list[str], layout: TableLayout) -> Iterator[tuple[int, str, str]]:
    """Each literal of each query: the number of the query, the attribute, and the label, or ``!=`` before it."""
    meaning = [(attribute.name, label) for attribute in layout.schema.attributes for label in attribute.labels]
    lengths = np.array([0 if text == ALL else _QUOTED.sub("", text).count("&") + 1 for text in texts])
    for length in np.unique(lengths[lengths > 0]).tolist():
        rows = np.flatnonzero(lengths == length)
        read = read_conjunctions([texts[row] for row in rows], layout)
        for row, columns, signs in zip(rows.tolist(), read.columns.tolist(), read.negated.tolist(), strict=True):
            for column, negated in zip(columns, signs, strict=True):
                name, label = meaning[column]
                yield row, name, f"!={label}" if negated else label


def named_attributes(answers: pa.Table, layout: Layout) -> set[str]:
    """The attributes that some query names; all of them if the answers have no column for each.

    answers: The result of ``with_attributes``.
    layout: The public layout of the data.
    """
    columns = attribute_columns(layout)
    if not set(columns.values()) <= set(answers.column_names):
        return set(columns)
    return {name for name, column in columns.items() if answers[column].null_count < len(answers)}


def published_marginal(answers: pa.Table, clique: Sequence[str], layout: TableLayout) -> Cells | None:
    """The marginal of some attributes, if the release answers each of its cells; None otherwise.

    answers: The result of ``with_attributes``.
    clique: The attributes, in the order of the domain.
    layout: The public layout of the data.
    """
    columns = attribute_columns(layout)
    if not set(columns.values()) <= set(answers.column_names):
        return None
    for name, column in columns.items():
        known = pc.is_valid(answers[column])
        answers = answers.filter(known if name in clique else pc.invert(known))
    return _table_of(answers, clique, layout, columns)


def _table_of(answers: pa.Table, clique: Sequence[str], layout: TableLayout, columns: dict[str, str]) -> Cells | None:
    """The cells of one marginal from its answers; None if some are missing."""
    labels = {attribute.name: attribute.labels for attribute in layout.schema.attributes}
    shape = tuple(len(labels[name]) for name in clique)
    codes = [pc.index_in(answers[columns[name]], pa.array(labels[name])) for name in clique]
    if len(answers) < math.prod(shape) or any(code.null_count for code in codes):
        return None
    flat = np.zeros(len(answers), dtype=np.int64)
    if clique:
        flat = np.asarray(np.ravel_multi_index([code.to_numpy().astype(np.int64) for code in codes], shape))
    present, first = np.unique(flat, return_index=True)
    if len(present) < math.prod(shape):
        return None
    bars = {name: np.asarray(answers[name].to_numpy(), dtype=np.float64)[first].reshape(shape) for name in _BARS}
    return Cells(**bars, source="published")
