"""Parquet files of synthetic rows: codes become values of the layout's columns."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcore.estimation.model import BasketRows, SyntheticRows, TableRows
from pipelines.attributes import Attribute
from pipelines.layout import BasketLayout, Layout, TableLayout

_LARGEST_INT8: Final = 128  # Codes whose numbers fit into one signed byte.


def part_name(part: int) -> str:
    """File name of one part of the rows, numbered from 0."""
    return f"part-{part:05d}.parquet"


def write_file(table: pa.Table, layout: Layout, file: Path | BinaryIO) -> None:
    """Writes rows to Parquet.

    table: The result of ``rows_table``.
    layout: The public layout of the data.
    file: A path, or an open file.

    Numbers of units are stored as differences, because they ascend, and all other columns with a dictionary. The file
    does not store the Arrow schema, so that its readers see plain values and not Arrow's dictionaries.
    """
    numbered = [layout.unit] if table.schema.field(layout.unit).type == pa.int64() else []
    pq.write_table(
        table,
        file,
        compression="zstd",
        use_dictionary=[name for name in table.column_names if name not in numbered],
        column_encoding=dict.fromkeys(numbered, "DELTA_BINARY_PACKED"),
        store_schema=False,
    )


def rows_table(rows: SyntheticRows, start: int, layout: Layout) -> pa.Table:
    """Converts sampled rows to the layout's columns. Units are numbered from ``start``.

    Attributes of the table are dictionary arrays: each value is made once and not once per row.
    """
    match rows, layout:
        case TableRows(), TableLayout():
            return _decoded(rows, start, layout)
        case BasketRows(), BasketLayout():
            unit = pa.array(rows.unit.astype(np.int64) + start)
            items = pa.array(rows.item)
            if layout.names is not None:
                items = pa.DictionaryArray.from_arrays(items, layout.names.array.cast(pa.string()))
            return pa.table({layout.unit: unit, layout.item: items})
        case _:
            raise TypeError(f"{type(rows).__name__} for {type(layout).__name__}; want rows of the layout's shape")


def _decoded(rows: TableRows, start: int, layout: TableLayout) -> pa.Table:
    columns: dict[str, pa.Array] = {layout.unit: pa.array(np.arange(start, start + len(rows.codes), dtype=np.int64))}
    for attribute in layout.schema.attributes:
        if attribute.name in rows.domain:
            codes = pa.array(np.ascontiguousarray(rows.codes[:, rows.domain.index(attribute.name)]))
            columns[attribute.column] = _values(attribute, codes)
    return pa.table(columns)


def _values(attribute: Attribute, codes: pa.Array) -> pa.DictionaryArray:
    """The value of each code. Codes of one value share an entry of the dictionary, and codes of null have none."""
    values = attribute.decode(np.arange(attribute.size)).dictionary_encode()
    # One byte per row where that is enough; the entries are as many as the codes or fewer.
    indices = values.indices.cast(pa.int8() if attribute.size <= _LARGEST_INT8 else pa.int32())
    return pa.DictionaryArray.from_arrays(indices.take(codes), values.dictionary)
