"""answers.parquet: one row a query, as text, with its answer and error bar."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.queries import Conjunctions, CountingQueries, Marginals
from dpcore.uncertainty import Answers
from pipelines.layout import Layout, TableLayout

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
_ROWS_AT_ONCE = 1 << 18
_NEEDS_QUOTES = frozenset('&!="')


def write_answers(path: Path, queries: CountingQueries, answers: Answers, layout: Layout) -> None:
    """Writes the answers in the order of the queries; equal answers give equal bytes."""
    kind = "marginal" if isinstance(queries, Marginals) else "conjunction"
    done = 0
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        for texts in query_texts(queries, layout):
            rows = slice(done, done + len(texts))
            done = rows.stop
            columns = [
                texts,
                pa.repeat(pa.scalar(kind), len(texts)),
                pa.array(answers.values[rows]),
                *(_known(bar[rows]) for bar in (answers.stddev, answers.lower, answers.upper)),
                pa.repeat(pa.scalar(answers.measured), len(texts)),
            ]
            writer.write_batch(pa.record_batch(columns, schema=SCHEMA))


def query_texts(queries: CountingQueries, layout: Layout) -> Iterator[pa.Array]:
    """The queries as text, in order, some at a time: 'sex=male & race=White', 'a=x & b!=y', '12 & !845'."""
    if isinstance(queries, Conjunctions):
        for start in range(0, queries.size, _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            yield _conjunctions(queries.columns[rows], queries.negated[rows], layout)
    elif isinstance(layout, TableLayout):
        labels = _labels(layout)
        for clique in queries.cliques:
            sizes = queries.domain.shape(clique)
            for start in range(0, queries.domain.size(clique), _ROWS_AT_ONCE):
                cells = np.arange(start, min(start + _ROWS_AT_ONCE, queries.domain.size(clique)))
                codes = np.unravel_index(cells, sizes) if clique else ()
                literals = [
                    _named(name, labels[name], "=").take(pa.array(code))
                    for name, code in zip(clique, codes, strict=True)
                ]
                yield _joined(literals) if literals else pa.array(["all"])


def _conjunctions(columns: NDArray[np.int32], negated: NDArray[np.bool_], layout: Layout) -> pa.Array:
    if isinstance(layout, TableLayout):
        labels = _labels(layout)
        positive = pa.concat_arrays([_named(name, texts, "=") for name, texts in labels.items()])
        negative = pa.concat_arrays([_named(name, texts, "!=") for name, texts in labels.items()])
        literals = [
            pc.if_else(pa.array(signs), negative.take(pa.array(column)), positive.take(pa.array(column)))
            for column, signs in zip(columns.T, negated.T, strict=True)
        ]
    else:
        literals = [
            pc.binary_join_element_wise(pc.if_else(pa.array(signs), "!", ""), pa.array(column).cast(pa.string()), "")
            for column, signs in zip(columns.T, negated.T, strict=True)
        ]
    return _joined(literals)


def _joined(literals: list[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*literals, " & ")


def _named(name: str, labels: pa.Array, sign: str) -> pa.Array:
    return pc.binary_join_element_wise(pa.repeat(pa.scalar(_quoted(name)), len(labels)), labels, sign)


def _labels(layout: TableLayout) -> dict[str, pa.Array]:
    """The meaning of each code of each attribute, in the order of the domain."""
    return {
        attribute.name: pa.array([_quoted(label) for label in attribute.labels])
        for attribute in layout.schema.attributes
    }


def _quoted(text: str) -> str:
    """Text that would be misread beside & and = stands in quotes."""
    plain = text == text.strip() and text and not _NEEDS_QUOTES & set(text)
    return text if plain else json.dumps(text, ensure_ascii=False)


def _known(values: NDArray[np.float64]) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))
