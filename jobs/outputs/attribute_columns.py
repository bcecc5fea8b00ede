"""The columns of answers.parquet that say by attribute, or by item, what a query asks: nobody has to parse its text.

In a table each attribute of the queries has a column of text, null where a query does not name the attribute:

* the label of one code, as the schema writes it: ``male``, ``[30, 45)``, ``__null__``;
* ``!=male`` for a negated literal, and ``!=a & !=b`` for two of one attribute;
* a prefix, range or group as the query writes it: ``<40``, ``[18, 65)``, ``north | south``.

A column is named as its attribute; ``_attribute`` is appended to a name that answers.parquet has already. Conjunctions
of baskets have the columns ``items`` and ``negated``, and parities of baskets ``items``: numbers, or names if items
have names. Parities of a table have none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcore.queries import Conjunctions, Marginals, Parities, Products, Queries
from jobs.workload.query_text import row_labels
from pipelines.arrow import numbers_of
from pipelines.attributes import Attribute
from pipelines.layout import BasketLayout, Layout, TableLayout

FIXED: Final = (
    *("query", "kind", "answer", "stddev", "lower", "upper", "measured"),
    *("q_value", "guaranteed_lower", "guaranteed_upper"),
)
"""The columns of answers.parquet that are no attributes; those of the second line only where answers are estimates."""

_SUFFIX: Final = "_attribute"

ROWS_AT_ONCE: Final = 1 << 16
_NEGATED = pa.field("negated", pa.list_(pa.bool_()))


def column_of(attribute: str) -> str:
    """The column of answers.parquet that an attribute has: no other attribute has the same."""
    stem = attribute
    while stem.endswith(_SUFFIX):
        stem = stem.removesuffix(_SUFFIX)
    return f"{attribute}{_SUFFIX}" if stem in FIXED else attribute


def attribute_fields(queries: Queries, layout: Layout) -> list[pa.Field]:
    """The fields of ``attribute_columns``, in order."""
    if isinstance(layout, TableLayout):
        return [pa.field(column_of(attribute.name), pa.string()) for attribute in _asked(queries, layout)]
    items = pa.field("items", pa.list_(item_type(layout)))
    return [items] if isinstance(queries, Parities) else [items, _NEGATED]


def attribute_columns(queries: Queries, layout: Layout) -> Iterator[list[pa.Array]]:
    """Yields the columns in batches of at most ``ROWS_AT_ONCE`` queries, in the order of the queries.

    queries: The queries of a release.
    layout: The public layout of its data.
    """
    if isinstance(layout, TableLayout):
        yield from _of_table(queries, layout)
        return
    assert isinstance(queries, Conjunctions | Parities)
    for start in range(0, queries.size, ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        is_literal = queries.columns[rows] >= 0 if isinstance(queries, Parities) else queries.counted_in(rows)
        items = item_lists(queries.columns[rows], is_literal, layout)
        if isinstance(queries, Parities):
            yield [items]
        else:
            yield [items, _lists(queries.negated[rows], is_literal, pa.bool_())]


def item_type(layout: BasketLayout) -> pa.DataType:
    """The type of a column of items: their names, or their numbers."""
    return pa.int32() if layout.names is None else pa.string()


def items_column(codes: NDArray[np.int32], layout: BasketLayout) -> pa.Array:
    """Items by name, or by number where they have no names."""
    return pa.array(codes, pa.int32()) if layout.names is None else layout.names.take(codes).cast(pa.string())


def item_lists(codes: NDArray[np.int32], present: NDArray[np.bool_], layout: BasketLayout) -> pa.Array:
    """Each row of codes as a list of the items that are present, by name where they have names."""
    lists = _lists(codes, present, pa.int32())
    return pa.ListArray.from_arrays(lists.offsets, items_column(numbers_of(lists.values), layout))


def _asked(queries: Queries, layout: TableLayout) -> list[Attribute]:
    """The attributes that at least one query names, in the order of the schema."""
    match queries:
        case Marginals():
            names = {name for clique in queries.cliques for name in clique}
        case Products():
            names = {name for term in queries.terms for name in term.clique}
        case Conjunctions():
            groups = layout.view.group_of_column()
            names = {layout.schema.attributes[group].name for group in np.unique(groups[queries.columns])}
        case _:
            names = set()
    return [attribute for attribute in layout.schema.attributes if attribute.name in names]


def _of_table(queries: Queries, layout: TableLayout) -> Iterator[list[pa.Array]]:
    asked = _asked(queries, layout)
    match queries:
        case Marginals():
            labels = {attribute.name: pa.array(attribute.labels, pa.string()) for attribute in asked}
            for clique in queries.cliques:
                yield from _cells(asked, {name: labels[name] for name in clique})
        case Products():
            known = {attribute.name: attribute for attribute in asked}
            for term in queries.terms:
                pairs = zip(term.clique, term.matrices, strict=True)
                yield from _cells(asked, {name: row_labels(known[name], matrix) for name, matrix in pairs})
        case Conjunctions():
            for start in range(0, queries.size, ROWS_AT_ONCE):
                rows = slice(start, start + ROWS_AT_ONCE)
                literals = queries.columns[rows], queries.negated[rows], queries.counted_in(rows)
                yield _of_literals(asked, *literals, layout)
        case Parities():
            yield from ([] for _ in range(0, queries.size, ROWS_AT_ONCE))


def _cells(asked: Sequence[Attribute], labels: dict[str, pa.Array]) -> Iterator[list[pa.Array]]:
    """Yields one row per choice of one label of every attribute; the last attribute varies fastest."""
    sizes = [len(texts) for texts in labels.values()]
    cells = math.prod(sizes)
    for start in range(0, cells, ROWS_AT_ONCE):
        flat = np.arange(start, min(start + ROWS_AT_ONCE, cells))
        indices = dict(zip(labels, np.unravel_index(flat, sizes), strict=True)) if sizes else {}
        yield [
            labels[attribute.name].take(pa.array(indices[attribute.name]))
            if attribute.name in indices
            else pa.nulls(len(flat), pa.string())
            for attribute in asked
        ]


def _of_literals(
    asked: Sequence[Attribute],
    columns: NDArray[np.int32],
    negated: NDArray[np.bool_],
    counted: NDArray[np.bool_],
    layout: TableLayout,
) -> list[pa.Array]:
    labels = pa.array([label for attribute in layout.schema.attributes for label in attribute.labels], pa.string())
    groups = np.where(counted, layout.view.group_of_column()[columns], -1)
    texts = [
        pc.binary_join_element_wise(pc.if_else(pa.array(signs), "!=", ""), labels.take(pa.array(column)), "")
        for column, signs in zip(columns.T, negated.T, strict=True)
    ]
    positions = {attribute.name: position for position, attribute in enumerate(layout.schema.attributes)}
    return [
        reduce(
            _joined,
            (pc.if_else(pa.array(group == positions[attribute.name]), text, None)
             for text, group in zip(texts, groups.T, strict=True)),
        )
        for attribute in asked
    ]  # fmt: skip


def _joined(before: pa.Array, text: pa.Array) -> pa.Array:
    return pc.coalesce(pc.binary_join_element_wise(before, text, " & "), before, text)


def _lists(values: NDArray[np.int32] | NDArray[np.bool_], present: NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    """Each row as a list of the values that are present."""
    offsets = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values[present], kind))
