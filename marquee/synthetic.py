"""Rows from the model of a release, or from its synthetic rows. They cost no budget."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.model import TableRows
from dpcore.queries import Marginals
from pipelines.attributes import Attribute
from pipelines.generate.row_files import rows_table
from pipelines.layout import Layout, TableLayout

LARGEST_DRAW: Final = 5_000_000
"""Largest number of rows that are drawn for one sample, of which a condition keeps some."""

Codes = Mapping[str, NDArray[np.int64]]


def codes_of(where: Mapping[str, Any] | None, layout: Layout) -> dict[str, NDArray[np.int64]]:
    """The codes that a condition allows, by attribute, int64 [allowed codes].

    where: For each attribute, a value or a list of values: labels, values of the schema, or numbers within a bin.
    layout: The public layout of the data.

    Raises: ConfigError for an unknown attribute or value, and for a condition on baskets.
    """
    if not where:
        return {}
    if not isinstance(layout, TableLayout):
        raise ConfigError("where is about attributes, and the release is about baskets; want no where")
    attributes = {attribute.name: attribute for attribute in layout.schema.attributes}
    for name in where:
        if name not in attributes:
            raise ConfigError(f"where names the unknown attribute {name!r}; want one of {list(attributes)}")
    return {name: _codes(attributes[name], wanted) for name, wanted in where.items()}


def _codes(attribute: Attribute, wanted: Any) -> NDArray[np.int64]:
    values = wanted if isinstance(wanted, list | tuple | set) else [wanted]
    return np.array(sorted({_code(attribute, value) for value in values}), dtype=np.int64)


def _code(attribute: Attribute, value: Any) -> int:
    """The code of a label, of None, or of a number or value that the schema lists."""
    if value is None:
        return attribute.null_code
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if text in attribute.labels:
        return attribute.labels.index(text)
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    if attribute.edges and numeric and attribute.edges[0] <= value <= attribute.edges[-1]:
        return min(int(np.searchsorted(attribute.edges, value, side="right")), attribute.known) - 1
    raise ConfigError(
        f"where has {value!r} for attribute {attribute.name!r}; want one of {list(attribute.labels[:20])}"
    )


def drawn_rows(model: GraphicalModel, n: int, where: Codes, layout: TableLayout, seed: int) -> pa.Table:
    """Independent rows from a model, which satisfy a condition.

    model: The model of the release.
    n: Number of rows, at least 0.
    where: The result of ``codes_of``.
    layout: The public layout of the data.
    seed: Public seed. The same arguments give the same rows.

    Raises: ConfigError when the condition is too rare, or about an attribute that the model lacks.
    """
    generator = np.random.default_rng(seed)
    parts, missing, drawn = [], n, 0
    share = _share(model, where)
    while missing:
        units = min(max(1_000, math.ceil(1.2 * missing / max(share, 1e-9))), LARGEST_DRAW - drawn)
        if units < 1:
            raise ConfigError(
                f"where keeps too few of {LARGEST_DRAW:,} rows of the model; want a more common condition, or fewer "
                "rows"
            )
        codes = model.sample(units, generator).codes
        for name, allowed in where.items():
            codes = codes[np.isin(codes[:, model.domain.index(name)], allowed)]
        parts.append(codes[:missing])
        missing, drawn = missing - len(parts[-1]), drawn + units
    joined = np.concatenate(parts) if parts else model.sample(0, generator).codes
    return _plain(rows_table(TableRows(model.domain, joined), 0, layout)).drop_columns([layout.unit])


def _share(model: GraphicalModel, where: Codes) -> float:
    """The probability, in the model, that a row satisfies a condition."""
    for name in where:
        if name not in model.domain:
            raise ConfigError(
                f"where names {name!r}, which the model of this release lacks; want some of {list(model.domain.names)}"
            )
    if not where or not model.total:
        return 1.0
    clique = model.domain.canonical(where)
    table = model.answer(Marginals(model.domain, (clique,))).reshape(model.domain.shape(clique))
    return float(table[np.ix_(*(where[name] for name in clique))].sum() / model.total)


def chosen_rows(published: ds.Dataset, n: int, where: Codes, layout: Layout, seed: int) -> pa.Table:
    """Rows that are chosen at random among the synthetic rows of a release, each at most once.

    published: The synthetic rows of the release.

    The other arguments are those of ``drawn_rows``.

    Raises: ConfigError when too few rows satisfy the condition.
    """
    rows = published.to_table()
    if isinstance(layout, TableLayout):
        for attribute in layout.schema.attributes:
            if attribute.name in where:
                allowed = attribute.decode(where[attribute.name])
                rows = rows.filter(pc.is_in(rows[attribute.column], value_set=allowed))
    if len(rows) < n:
        raise ConfigError(
            f"n is {n:,}, but {len(rows):,} synthetic rows of the release satisfy the condition; want at most as many"
        )
    picked = np.sort(np.random.default_rng(seed).choice(len(rows), size=n, replace=False))
    return rows.take(pa.array(picked))


def _plain(table: pa.Table) -> pa.Table:
    """The table with values in place of Arrow's dictionaries."""
    columns: Sequence[pa.ChunkedArray] = table.columns
    decoded = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column for column in columns
    ]
    return pa.table(decoded, names=table.column_names)
