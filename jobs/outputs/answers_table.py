"""answers.parquet: one row per query: its text, the answer and its error bar, and what it asks of each attribute."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.queries import Conjunctions, Marginals, Parities, Products, Queries
from dpcore.uncertainty import Answers
from jobs.outputs.attribute_columns import ROWS_AT_ONCE, attribute_columns, attribute_fields
from jobs.workload.query_text import columns_as_text, items_as_text, labels_of, literal_texts, rows_as_text
from pipelines.layout import BasketLayout, Layout, TableLayout

SCHEMA = pa.schema(
    [
        pa.field("query", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("answer", pa.float64(), nullable=False),
        pa.field("stddev", pa.float64()),
        pa.field("lower", pa.float64()),
        pa.field("upper", pa.float64()),
        pa.field("measured", pa.bool_(), nullable=False),
    ]
)
ESTIMATES = pa.schema(
    [
        pa.field("query", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("answer", pa.float64(), nullable=False),
        pa.field("measured", pa.float64()),
        pa.field("stddev", pa.float64()),
        pa.field("lower", pa.float64()),
        pa.field("upper", pa.float64()),
        pa.field("q_value", pa.float64()),
        pa.field("guaranteed_lower", pa.float64()),
        pa.field("guaranteed_upper", pa.float64()),
    ]
)
"""The columns of a release whose answers are estimates: ``measured`` is the noisy value itself, null without one."""
KINDS = {Marginals: "marginal", Conjunctions: "conjunction", Parities: "parity", Products: "linear"}


def write_answers(path: Path, queries: Queries, answers: Answers, layout: Layout) -> None:
    """Writes the answers in the order of the queries. The same answers always give the same bytes.

    path: The new file.
    queries: The n queries of the release.
    answers: Answers and error bars of the queries, float64 [n] each, in counts.
    layout: The public layout of the data, which names the columns.
    """
    kind = KINDS[type(queries)]
    written = 0
    schema = schema_of(queries, layout, answers)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        batches = zip(query_texts(queries, layout), attribute_columns(queries, layout), strict=True)
        for texts, asked in batches:
            rows = slice(written, written + len(texts))
            written = rows.stop
            columns = [
                texts,
                pa.repeat(pa.scalar(kind), len(texts)),
                *_numbers(answers, rows),
                *asked,
            ]
            writer.write_batch(pa.record_batch(columns, schema=schema))


def schema_of(queries: Queries, layout: Layout, answers: Answers) -> pa.Schema:
    """The columns of a release's answers.parquet.

    Those of ``SCHEMA``, or of ``ESTIMATES`` if the answers are estimates, and one for each attribute of the queries.
    """
    fixed = SCHEMA if answers.estimation is None else ESTIMATES
    return pa.schema([*fixed, *attribute_fields(queries, layout)])


def fixed_schema(names: Sequence[str]) -> pa.Schema:
    """The columns that are no attributes, ``SCHEMA`` or ``ESTIMATES``, of an answers.parquet with these columns."""
    return ESTIMATES if list(names[: len(ESTIMATES)]) == ESTIMATES.names else SCHEMA


def attribute_names(names: Sequence[str]) -> list[str]:
    """The columns of attributes or items among the columns of an answers.parquet."""
    return list(names[len(fixed_schema(names)) :])


def _numbers(answers: Answers, rows: slice) -> list[pa.Array]:
    """The columns of some rows from ``answer`` to the last one that is no attribute."""
    bars = [_null_for_nan(bar[rows]) for bar in (answers.stddev, answers.lower, answers.upper)]
    values, more = pa.array(answers.values[rows]), answers.estimation
    if more is None:
        return [values, *bars, pa.array(answers.measured & ~np.isnan(answers.stddev[rows]))]
    further = (more.q_values, more.guaranteed_lower, more.guaranteed_upper)
    return [values, _null_for_nan(more.measured[rows]), *bars, *(_null_for_nan(column[rows]) for column in further)]


def query_texts(queries: Queries, layout: Layout) -> Iterator[pa.Array]:
    """Yields the queries as text, in order and in batches, as ``jobs.workload.query_text`` writes them.

    The marginal over no attributes, which is the number of rows, is written as 'all'.
    """
    match queries:
        case Conjunctions() | Parities():
            for start in range(0, queries.size, ROWS_AT_ONCE):
                rows = slice(start, start + ROWS_AT_ONCE)
                if isinstance(queries, Parities):
                    yield _parities(queries.columns[rows], layout)
                else:
                    yield _conjunctions(queries.columns[rows], queries.negated[rows], queries.counted_in(rows), layout)
        case Marginals():
            if isinstance(layout, TableLayout):
                yield from _marginals(queries, layout)
        case Products():
            if isinstance(layout, TableLayout):
                yield from _products(queries, layout)


def _marginals(queries: Marginals, layout: TableLayout) -> Iterator[pa.Array]:
    labels = labels_of(layout)
    for clique in queries.cliques:
        yield from _cross_product([literal_texts(name, labels[name], "=") for name in clique])


def _products(queries: Products, layout: TableLayout) -> Iterator[pa.Array]:
    attributes = {attribute.name: attribute for attribute in layout.schema.attributes}
    for term in queries.terms:
        alone, pairs = len(term.clique) == 1, zip(term.clique, term.matrices, strict=True)
        yield from _cross_product([rows_as_text(attributes[name], matrix, alone) for name, matrix in pairs])


def _cross_product(literals: list[pa.Array]) -> Iterator[pa.Array]:
    """Yields one conjunction per choice of one literal from every list; the last list varies fastest.

    A null literal is left out of its conjunction.
    """
    sizes = [len(texts) for texts in literals]
    for start in range(0, math.prod(sizes), ROWS_AT_ONCE):
        flat_indices = np.arange(start, min(start + ROWS_AT_ONCE, math.prod(sizes)))
        indices = np.unravel_index(flat_indices, sizes) if sizes else ()
        parts = [texts.take(pa.array(index)) for texts, index in zip(literals, indices, strict=True)]
        yield pc.fill_null(reduce(_and_non_null, parts), "all") if parts else pa.array(["all"])


def _and_non_null(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.coalesce(pc.binary_join_element_wise(left, right, " & "), left, right)


def _conjunctions(
    columns: NDArray[np.int32], negated: NDArray[np.bool_], counted: NDArray[np.bool_], layout: Layout
) -> pa.Array:
    if isinstance(layout, TableLayout):
        positive, negative = columns_as_text(layout, "="), columns_as_text(layout, "!=")
        literals = [
            pc.if_else(pa.array(signs), negative.take(pa.array(column)), positive.take(pa.array(column)))
            for column, signs in zip(columns.T, negated.T, strict=True)
        ]
    else:
        literals = [
            pc.binary_join_element_wise(pc.if_else(pa.array(signs), "!", ""), items_as_text(column, layout), "")
            for column, signs in zip(columns.T, negated.T, strict=True)
        ]
    if not counted.all():
        literals = [pc.if_else(pa.array(kept), text, None) for kept, text in zip(counted.T, literals, strict=True)]
    return pc.binary_join_element_wise(*literals, " & ", null_handling="skip")


def _parities(columns: NDArray[np.int32], layout: Layout) -> pa.Array:
    literals = pa.nulls(0) if isinstance(layout, BasketLayout) else columns_as_text(layout, "=")
    texts = []
    for column in columns.T:
        if isinstance(layout, BasketLayout):
            texts.append(items_as_text(column, layout))
        else:
            texts.append(literals.take(pa.array(column, mask=column < 0)))
    joined = pc.binary_join_element_wise(*texts, " ^ ", null_handling="skip")
    return pc.binary_join_element_wise("even(", joined, ")", "")


def _null_for_nan(values: NDArray[np.float64]) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))
