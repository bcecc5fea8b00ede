"""Parities: whether an even number of some 0/1 columns is 1."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.frozen import frozen

LARGEST_ORDER: Final = 3
NONE: Final = -1  # Pads the row of a parity with fewer columns than the longest one.
_LAST = np.iinfo(np.int32).max  # Stands for NONE while rows are sorted, so that padding comes last.


@dataclass(frozen=True, eq=False)
class Parities:
    """m parities of 1 to 3 columns each; a record satisfies a parity if an even number of its columns is 1.

    The value of a parity is 0 or 1. The paper uses -1 and 1, which doubles the sensitivity but adds no information: its
    answer is twice the answer here minus the number of records.

    view: The 0/1 columns that the parities refer to. A parity may contain several columns of one one-hot group.
    columns: int32 [m, k] with k <= 3, distinct within a row. Rows are sorted in ascending order; shorter parities are
        padded with NONE at the end.

    Raises ValueError for an empty array, an unknown column, and a parity without columns or with a repeated column.

    Source: full DualQuery paper, Definition A.1.
    """

    view: BinaryView
    columns: NDArray[np.int32]

    def __post_init__(self) -> None:
        columns = np.array(self.columns, dtype=np.int32, order="C")
        if columns.ndim != 2 or not 1 <= columns.shape[-1] <= LARGEST_ORDER or columns.size == 0:
            raise ValueError(f"columns {columns.shape}; want a non-empty shape [m, k] with k <= {LARGEST_ORDER}")
        if columns.min() < NONE or columns.max() >= self.view.columns:
            raise ValueError(f"a parity names a column outside 0..{self.view.columns - 1}")
        columns[columns == NONE] = _LAST
        columns.sort(axis=1)
        if (columns[:, 0] == _LAST).any():
            raise ValueError("a parity names no column; want 1 or more")
        if ((columns[:, 1:] == columns[:, :-1]) & (columns[:, 1:] != _LAST)).any():
            raise ValueError("a parity names a column twice; want distinct columns")
        columns[columns == _LAST] = NONE
        object.__setattr__(self, "columns", frozen(columns, np.int32))

    @classmethod
    def of_sets(cls, view: BinaryView, sets: Iterable[Iterable[int]]) -> Parities:
        """The parity of each set of columns."""
        listed = [list(columns) for columns in sets]
        width = max(map(len, listed), default=0)
        padded = [columns + [NONE] * (width - len(columns)) for columns in listed]
        return cls(view, np.array(padded, dtype=np.int32).reshape(len(listed), width))

    @property
    def size(self) -> int:
        """Length of the answer vector, m."""
        return int(self.columns.shape[0])

    @property
    def orders(self) -> NDArray[np.int64]:
        """The number of columns of each parity, int64 [m]."""
        return np.asarray(np.count_nonzero(self.columns != NONE, axis=1), dtype=np.int64)

    @property
    def description(self) -> str:
        """A short description for plans and certificates."""
        return f"{self.size:,} parities of at most {self.columns.shape[1]}"

    def digest(self) -> str:
        """A digest of the queries. It is cached, because mechanisms use it in every round."""
        cached: str | None = self.__dict__.get("_digest")
        if cached is None:
            head = json.dumps(["parities", self.view.columns, self.view.groups, self.columns.shape])
            content = hashlib.sha256(head.encode())
            content.update(self.columns.astype("<i4").tobytes())
            cached = content.hexdigest()
            object.__setattr__(self, "_digest", cached)
        return cached
