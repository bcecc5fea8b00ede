"""What the footer of a Parquet file says about its row groups, checked before pyarrow is asked.

pyarrow checks a column chunk only when it is asked for one, and then ends the whole process if the footer contradicts
itself. Everything that it would check is therefore checked here, on the bytes of the footer.

Source: parquet.thrift of the Apache Parquet format; the numbers of fields below are those of that file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from pipelines.source.thrift import Struct, read_struct

_REQUIRED: Final = 0
_REPEATED: Final = 2
_BYTE_ARRAY: Final = 6
_DEEPEST: Final = 64


class FooterError(ValueError):
    """A footer contradicts itself, or its bytes are no footer."""


class ColumnChunk(NamedTuple):
    """A column of a row group.

    path: Its name, and the names of the groups that it is in.
    kind: Its physical type, as a number of the format.
    sizes: Number of its values, and of its compressed and uncompressed bytes.
    statistics: Minimum and maximum as they are stored, and the number of nulls; None without a minimum or a maximum.
    """

    path: tuple[bytes, ...]
    kind: int
    sizes: tuple[int, int, int]
    statistics: tuple[bytes, bytes, int | None] | None


class RowGroup(NamedTuple):
    """A row group: the number of its rows, and its columns."""

    rows: int
    columns: tuple[ColumnChunk, ...]


class _Leaf(NamedTuple):
    """A column of the schema. levels: Largest repetition and definition."""

    kind: int
    levels: tuple[int, int]


def read_row_groups(footer: bytes) -> tuple[RowGroup, ...]:
    """The row groups of a file. SENSITIVE.

    footer: The footer as it is in the file.

    Raises: FooterError for a footer that pyarrow would not survive, or that is none.
    """
    try:
        file = read_struct(footer)
        leaves = list(_leaves(file[2]))
        return tuple(_row_group(group, leaves) for group in file.get(4, []))
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        raise FooterError("the footer contradicts itself, or a field is missing") from error


def _leaves(elements: Sequence[Struct]) -> Iterator[_Leaf]:
    """The columns of a schema, which is a tree in depth-first order whose root is no column."""
    remaining = [(int(elements[0].get(5, 0)), 0, 0)]  # Children to come, repetition and definition level.
    for element in elements[1:]:
        while remaining[-1][0] == 0:
            remaining.pop()
        children, repetition, definition = remaining[-1]
        remaining[-1] = (children - 1, repetition, definition)
        how = element.get(3, _REQUIRED)
        levels = (repetition + (how == _REPEATED), definition + (how != _REQUIRED))
        if element.get(5):
            remaining.append((int(element[5]), *levels))
            if element[5] < 0 or len(remaining) > _DEEPEST:
                raise ValueError(f"columns are nested more than {_DEEPEST} deep, or a group has fewer than 0")
        elif 1 in element:  # Without a type it is a group without children.
            yield _Leaf(int(element[1]), levels)
    if any(children for children, *_ in remaining):
        raise ValueError("a group of the schema lacks children")


def _row_group(group: Struct, leaves: Sequence[_Leaf]) -> RowGroup:
    if len(group[1]) != len(leaves):
        raise ValueError("a row group has more or fewer columns than the schema")
    chunks = tuple(_chunk(chunk[3], leaf) for chunk, leaf in zip(group[1], leaves, strict=True))
    return RowGroup(int(group[3]), chunks)


def _chunk(column: Struct, leaf: _Leaf) -> ColumnChunk:
    if column[1] != leaf.kind:
        raise ValueError("a column has another type than the schema says")
    _check_size_statistics(column.get(16, {}), leaf)
    sizes = (int(column[5]), int(column[7]), int(column[6]))
    return ColumnChunk(tuple(map(_bytes, column[3])), leaf.kind, sizes, _statistics(column.get(12, {})))


def _check_size_statistics(sizes: Struct, leaf: _Leaf) -> None:
    for field, level in zip((2, 3), leaf.levels, strict=True):
        if sizes.get(field) and len(sizes[field]) != level + 1:
            raise ValueError("a histogram of levels has more or fewer counts than there are levels")
    if 1 in sizes and leaf.kind != _BYTE_ARRAY:
        raise ValueError("the bytes of texts are counted for a column without texts")


def _statistics(found: Struct) -> tuple[bytes, bytes, int | None] | None:
    """Minimum, maximum and number of nulls. The older fields count where the newer ones are missing."""
    for smallest, largest in ((6, 5), (2, 1)):
        if smallest in found and largest in found:
            return _bytes(found[smallest]), _bytes(found[largest]), _number(found.get(3))
    return None


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):  # bytes() of a number would allocate as many zeros.
        raise TypeError("a number in place of bytes")
    return value


def _number(value: Any) -> int | None:
    return None if value is None else int(value)
