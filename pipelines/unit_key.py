"""Units that several columns identify together: the key of each row. TRUSTED.

The privacy unit is the set of all rows with the same values in all of these columns. Two facts make it one unit for
every engine, every file and every release:
    * The columns are taken in the order of their names, so the same columns are the same unit in whatever order a
      config lists them.
    * The key of a row is the sequence of the values, each behind its length in bytes. A reader can split it again, so
      different values never have the same key: 'a' and 'bc' give '1:a2:bc', and 'ab' and 'c' give '2:ab1:c'.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.arrow import numbers_of
from pipelines.encode import unit_column


def with_key(batch: pa.RecordBatch, unit: str, parts: Sequence[str]) -> pa.RecordBatch:
    """The rows with the combined column behind the others. SENSITIVE.

    batch: Rows with the columns of the unit, each of integers or text.
    unit: Name of the combined column.
    parts: Columns of the unit, in the order of their names; none for a single column, which needs no other.

    Returns: The batch; the key, large_string [rows], is null in rows where any of the columns is.
    """
    if not parts:
        return batch
    return batch.append_column(unit, _key([_bytes(batch.column(part)) for part in parts]))


def _key(values: Sequence[pa.Array]) -> pa.Array:
    """The values of each row, each behind its length; null where any is null."""
    nothing = pa.scalar(b"", pa.large_binary())
    pieces = [piece for value in values for piece in (_lengths(value), value)]
    joined = pc.binary_join_element_wise(*pieces, nothing, null_handling="emit_null")
    # Text need not be valid UTF-8, so it is not checked; units are hashed and compared as bytes.
    return joined.view(pa.large_string())


def _lengths(values: pa.Array) -> pa.Array:
    """The length of each value in bytes, and a colon."""
    known = pc.unique(pc.binary_length(values).drop_null())
    prefixes = pa.array([b"%d:" % length for length in numbers_of(known).tolist()], pa.large_binary())
    return prefixes.take(pc.index_in(pc.binary_length(values), value_set=known))


def _bytes(column: pa.Array) -> pa.Array:
    """Integers in decimal digits, and text, as large_binary."""
    values = unit_column(column)
    text = values.cast(pa.large_string()) if pa.types.is_integer(values.type) else values
    return text.view(pa.large_binary())
