"""Public names of items: which code each name has, and which name each code. TRUSTED. No value makes it fail."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from pipelines.arrow import integers, nulls_of, numbers_of, texts
from pipelines.hashing import hash_texts, key_of

UNKNOWN: Final = -1
"""Stands for an item that is not listed, and for a missing one."""

_KEY: Final = bytes(16)  # The names are public, so the key of their hashes is too.


@final
@dataclass(frozen=True, eq=False)
class ItemNames:
    """A public list of items. The position of a name in the list is the code of the item.

    A column of text names items by these texts. A column of integers names the items that are written as these decimal
    numbers: 17 names item ``17``, and neither ``017`` nor ``17.0``.

    array: The names, Arrow large_string [items] without nulls.

    Raises: ConfigError when there is no name, or a name occurs twice.
    """

    array: pa.Array

    def __post_init__(self) -> None:
        if not len(self.array):
            raise ConfigError("the list of items is empty; want at least one item")
        repeated = self.first_repeated
        if repeated is not None:
            name = self.array[repeated].as_py()
            raise ConfigError(f"item {name!r} is listed a second time as number {repeated + 1}; want distinct items")

    @classmethod
    def of(cls, names: Sequence[str]) -> ItemNames:
        """The list of these names."""
        return cls(texts(list(names)))

    @classmethod
    def of_bytes(cls, names: Sequence[bytes]) -> ItemNames:
        """The list of these names, which are UTF-8."""
        stops = np.cumsum([0, *map(len, names)], dtype=np.int64)
        buffers = [None, pa.py_buffer(stops), pa.py_buffer(b"".join(names))]
        return cls(pa.Array.from_buffers(pa.large_string(), len(names), buffers))

    @property
    def size(self) -> int:
        """Number of items."""
        return len(self.array)

    @property
    def first_repeated(self) -> int | None:
        """Position of the first name that is equal to an earlier one; None if all are distinct."""
        if pc.count_distinct(self.array).as_py() == len(self.array):
            return None
        codes = numbers_of(self.array.dictionary_encode().indices)
        seen = np.maximum.accumulate(np.concatenate([[-1], codes[:-1]]))
        return int(np.flatnonzero(codes <= seen)[0])

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the names in their order."""
        offsets, data = text_parts(self.array)
        return hashlib.sha256(np.diff(offsets).astype("<i8").tobytes() + data.tobytes()).hexdigest()

    def __eq__(self, value: object) -> bool:
        return isinstance(value, ItemNames) and self.digest == value.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[type[ItemNames], tuple[pa.Array]]:
        return ItemNames, (self.array,)  # Without the index, which workers make for themselves.

    def codes_of(self, column: pa.Array) -> NDArray[np.int32]:
        """Code of each item, int32 [rows]; UNKNOWN for items that are not listed, and for null.

        column: Integers or text, perhaps as a dictionary.
        """
        if not pa.types.is_dictionary(column.type):
            if pa.types.is_string_view(column.type):
                column = column.cast(pa.large_string())
            column = column.dictionary_encode()
        code_of = np.full(len(column.dictionary) + 1, UNKNOWN, dtype=np.int32)
        code_of[:-1] = self._codes_of_distinct(column.dictionary)
        indices = numbers_of(column.indices)
        if column.indices.null_count:
            indices = np.where(nulls_of(column.indices), len(column.dictionary), indices)
        codes: NDArray[np.int32] = code_of[indices]
        return codes

    def _codes_of_distinct(self, values: pa.Array) -> NDArray[np.int32]:
        """The codes of some values, by binary search for their hashes; equal hashes are compared as text."""
        values = values.cast(pa.large_string())
        hashes, codes = self._index
        wanted = _hashes(pc.fill_null(values, ""))
        matches = np.minimum(np.searchsorted(hashes, wanted), len(hashes) - 1)
        distinct_codes = np.where(hashes[matches] == wanted, codes[matches], UNKNOWN).astype(np.int32)
        for step in range(1, self._longest_run):  # Listed names whose hashes are equal: almost never any.
            later = np.minimum(matches + step, len(hashes) - 1)
            same = nulls_of(values) | self._differs(distinct_codes, values)
            distinct_codes = np.where(same & (hashes[later] == wanted), codes[later], distinct_codes).astype(np.int32)
        distinct_codes[nulls_of(values) | self._differs(distinct_codes, values)] = UNKNOWN
        return distinct_codes

    def _differs(self, codes: NDArray[np.int32], values: pa.Array) -> NDArray[np.bool_]:
        named = self.array.take(integers(np.maximum(codes, 0)))
        return ~numbers_of(pc.fill_null(pc.equal(named, values), False))

    @cached_property
    def _index(self) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
        """The hashes of the names in ascending order, uint64 [items], and the code of each, int32 [items]."""
        hashes = _hashes(self.array)
        order = np.argsort(hashes, kind="stable")
        return hashes[order], order.astype(np.int32)

    @cached_property
    def _longest_run(self) -> int:
        """The largest number of names with one hash."""
        starts = np.flatnonzero(np.diff(self._index[0], prepend=self._index[0][:1] - np.uint64(1)))
        return int(np.diff(np.append(starts, self.size)).max())

    def take(self, codes: NDArray[np.integer]) -> pa.Array:
        """The names of codes, Arrow large_string [codes]."""
        return self.array.take(integers(codes))


def text_parts(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The offsets and the bytes of an array of large_string, both starting at its first text."""
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    buffer = array.buffers()[2]
    data = np.frombuffer(buffer, dtype=np.uint8) if buffer is not None and buffer.size else np.empty(0, dtype=np.uint8)
    return offsets - offsets[0], data[offsets[0] : offsets[-1]]


def _hashes(array: pa.Array) -> NDArray[np.uint64]:
    if not len(array):
        return np.empty(0, dtype=np.uint64)
    offsets, data = text_parts(array)
    return hash_texts(data, offsets, key_of(_KEY))
