"""The marginals that become charts, and the conjunctions that become ranked tables. Public."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore.errors import ConfigError
from jobs.reading.itemset_tables import ITEMSET_HEADER, titled_tables
from jobs.reading.marginals import MODEL, Marginal, marginal, published_marginals
from jobs.reading.release_folder import ReleaseFolder
from pipelines.layout import TableLayout

LARGEST_CHART: Final = 400
"""Largest number of cells of a chart. Larger marginals are left to answers.parquet."""

MOST_CELLS: Final = 20_000
"""Largest number of cells of all charts together: single attributes first, then pairs in the order of the schema."""

MOST_RANKED: Final = 100
"""Number of conjunctions in the ranked table."""

MOST_SEARCHED: Final = 20_000
"""Number of answers that the search of a report covers: the largest ones."""


def charts(folder: ReleaseFolder) -> list[dict[str, Any]]:
    """The marginals of single attributes and of pairs, as far as the release answers them, within the limits."""
    if not isinstance(folder.layout, TableLayout):
        return []
    remaining, made = MOST_CELLS, []
    for names in _wanted(folder):
        cells = math.prod(folder.schema.domain.shape(names))
        if cells <= min(LARGEST_CHART, remaining):
            try:
                made.append(_chart(marginal(folder, names)))
            except ConfigError:  # Neither published nor the model's.
                continue
            remaining -= cells
    return made


def _wanted(folder: ReleaseFolder) -> Iterator[tuple[str, ...]]:
    """The single attributes and pairs that the release is about; with a model, all of its attributes."""
    listed = published_marginals(folder)
    model = () if folder.model is None else folder.model.domain.names
    asked = {name for names in listed for name in names} | set(model)
    singles = [name for name in folder.schema.domain.names if name in asked]
    yield from ((name,) for name in singles)
    pairs = {frozenset(names) for names in listed if len(names) == 2}
    for pair in itertools.combinations(singles, 2):
        if frozenset(pair) in pairs or set(pair) <= set(model):
            yield pair


def _chart(table: Marginal) -> dict[str, Any]:
    return {
        "attributes": table.attributes,
        "labels": table.labels,
        "answer": _rounded(table.answer),
        "lower": _rounded(table.lower),
        "upper": _rounded(table.upper),
        "model": table.source == MODEL,
    }


@dataclass(frozen=True)
class RankedTable:
    """A table of itemsets or rules, best first.

    title: What is ranked.
    header: Names of the columns.
    rows: The cells as text; the first column is the rank.
    """

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def itemset_tables(folder: ReleaseFolder) -> list[RankedTable]:
    """The most frequent itemsets of each size from two, and the rules; none without itemsets."""
    if not folder.has_itemsets:
        return []
    return [
        RankedTable(title, header[:-1], [row[:-1] for row in rows])
        if header is ITEMSET_HEADER  # Without the bars.
        else RankedTable(title, header, rows)
        for title, header, rows in titled_tables(folder, MOST_RANKED)
    ]


def ranked(folder: ReleaseFolder) -> list[dict[str, Any]]:
    """The conjunctions with the largest answers, largest first; none in a release of marginals."""
    answers = folder.answers
    if not len(answers) or answers["kind"][0].as_py() not in ("conjunction", "parity"):
        return []
    return _listed(answers, MOST_RANKED)


def searched(folder: ReleaseFolder) -> list[dict[str, Any]]:
    """The answers that the search covers: all of them, or the largest ones in order."""
    return _listed(folder.answers, MOST_SEARCHED)


def _listed(answers: pa.Table, max_answers: int) -> list[dict[str, Any]]:
    order = np.argsort(-answers["answer"].to_numpy(), kind="stable")[:max_answers]
    chosen = answers.select(["query", "answer", "lower", "upper"]).take(pa.array(order))
    names = ("answer", "lower", "upper")
    columns = [_rounded(pc.fill_null(chosen[name], math.nan).to_numpy()) for name in names]
    return [
        {"query": query, "answer": answer, "lower": lower, "upper": upper}
        for query, answer, lower, upper in zip(chosen["query"].to_pylist(), *columns, strict=True)
    ]


def _rounded(values: Any) -> list[float | None]:
    """Counts to a tenth, flat, with None for NaN: a report is read, not computed with."""
    flat = np.round(np.asarray(values, dtype=np.float64).reshape(-1), 1)
    return [None if math.isnan(value) else value for value in flat.tolist()]
