"""Reads the Compact Protocol of Apache Thrift, in which the footers of Parquet files are written.

Every function takes the bytes and the index at which a value begins, and returns the value and the index behind it. The
cases that make up most of a footer are written out, because a dataset may have a million column chunks.

Source: the specification "Thrift Compact protocol encoding" of the Apache Thrift project.
"""

from __future__ import annotations

import struct
from typing import Any, Final

Struct = dict[int, Any]
"""The fields of a struct by their ids: bool, int, float, bytes, lists of these, and structs."""

_TRUE: Final = 1
_FALSE: Final = 2
_BYTE: Final = 3
_I16: Final = 4
_I64: Final = 6
_DOUBLE: Final = 7
_BINARY: Final = 8
_LIST: Final = 9
_SET: Final = 10
_MAP: Final = 11
_STRUCT: Final = 12
_UUID: Final = 13
_DEEPEST: Final = 64


def read_struct(data: bytes) -> Struct:
    """Reads the struct with which ``data`` begins. Every value takes a byte at least, so the work is bounded by these.

    Raises: ValueError for other bytes.
    """
    try:
        return _struct(data, 0, 0)[0]
    except IndexError:
        raise ValueError("the struct ends within a value") from None


def _struct(data: bytes, at: int, depth: int) -> tuple[Struct, int]:
    if depth > _DEEPEST:
        raise ValueError(f"values are nested more than {_DEEPEST} deep")
    fields: Struct = {}
    number = 0
    while True:
        head = data[at]
        at += 1
        kind = head & 15
        if kind == 0:
            return fields, at
        if head > 15:
            number += head >> 4
        else:
            number, at = _integer(data, at)
        if _I16 <= kind <= _I64:
            byte = data[at]
            at += 1
            if byte > 127:
                byte, at = _longer(data, at, byte & 127)
            fields[number] = (byte >> 1) ^ -(byte & 1)  # Zigzag coding of the sign.
        elif kind <= _FALSE:
            fields[number] = kind == _TRUE
        elif kind == _STRUCT:
            fields[number], at = _struct(data, at, depth + 1)
        else:
            fields[number], at = _value(data, at, kind, depth)


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    """A value that is no field, or whose field is no boolean."""
    if _I16 <= kind <= _I64:
        return _integer(data, at)
    if kind == _BINARY:
        size, at = _unsigned(data, at)
        return _bytes(data, at, size)
    if kind == _STRUCT:
        return _struct(data, at, depth + 1)
    if kind in (_LIST, _SET):
        return _list(data, at, depth + 1)
    if kind == _DOUBLE:
        content, at = _bytes(data, at, 8)
        return struct.unpack("<d", content)[0], at
    if kind in (_TRUE, _FALSE, _BYTE):
        return data[at], at + 1
    if kind == _MAP:
        return _map(data, at, depth + 1)
    if kind == _UUID:
        return _bytes(data, at, 16)
    raise ValueError(f"there is no type {kind}")


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    if depth > _DEEPEST:
        raise ValueError(f"values are nested more than {_DEEPEST} deep")
    head = data[at]
    kind, size, at = head & 15, head >> 4, at + 1
    if size == 15:
        size, at = _unsigned(data, at)
    _check_size(data, at, size)
    values: list[Any] = []
    for _ in range(size):
        value, at = _struct(data, at, depth + 1) if kind == _STRUCT else _value(data, at, kind, depth)
        values.append(value)
    return values, at


def _map(data: bytes, at: int, depth: int) -> tuple[list[tuple[Any, Any]], int]:
    size, at = _unsigned(data, at)
    if not size:
        return [], at
    kinds, at = data[at], at + 1
    _check_size(data, at, size)
    pairs = []
    for _ in range(size):
        key, at = _value(data, at, kinds >> 4, depth)
        value, at = _value(data, at, kinds & 15, depth)
        pairs.append((key, value))
    return pairs, at


def _check_size(data: bytes, at: int, size: int) -> None:
    if size > len(data) - at:
        raise ValueError("a list is longer than the data")


def _integer(data: bytes, at: int) -> tuple[int, int]:
    """A signed integer."""
    number, at = _unsigned(data, at)
    return (number >> 1) ^ -(number & 1), at


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned integer of up to ten bytes, seven bits each, the lowest first."""
    byte = data[at]
    return (byte, at + 1) if byte < 128 else _longer(data, at + 1, byte & 127)


def _longer(data: bytes, at: int, number: int) -> tuple[int, int]:
    """The rest of an integer whose first seven bits are ``number``."""
    for shift in range(7, 70, 7):
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
    raise ValueError("an integer is longer than ten bytes")


def _bytes(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    end = at + size
    if end > len(data):
        raise ValueError("bytes end after the data")
    return data[at:end], end
