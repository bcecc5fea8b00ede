"""Conjunctions of literals over 0/1 columns."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.frozen import frozen


@dataclass(frozen=True, eq=False)
class Conjunctions:
    """m conjunctions of k literals each; a record satisfies a conjunction if all of its literals hold.

    view: The 0/1 columns that the literals refer to.
    columns: int32 [m, k], the column of each literal, distinct within a row.
    negated: bool [m, k], True for a literal that holds if its column is 0.

    Raises ValueError for arrays of different shapes, an unknown column, and a column that is repeated within a row.
    """

    view: BinaryView
    columns: NDArray[np.int32]
    negated: NDArray[np.bool_]

    def __post_init__(self) -> None:
        columns, negated = frozen(self.columns, np.int32), frozen(self.negated, np.bool_)
        if columns.ndim != 2 or columns.shape != negated.shape or columns.size == 0:
            raise ValueError(f"columns {columns.shape} and negated {negated.shape}; want one non-empty shape [m, k]")
        if columns.min() < 0 or columns.max() >= self.view.columns:
            raise ValueError(f"a literal names a column outside 0..{self.view.columns - 1}")
        ordered = np.sort(columns, axis=1)
        if (ordered[:, 1:] == ordered[:, :-1]).any():
            raise ValueError("a conjunction names a column twice; want distinct columns")
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "negated", negated)

    @classmethod
    def single_columns(cls, view: BinaryView) -> Conjunctions:
        """The positive literal of every column: the one-way marginals."""
        columns = np.arange(view.columns, dtype=np.int32)[:, None]
        return cls(view, columns, np.zeros_like(columns, dtype=np.bool_))

    @property
    def size(self) -> int:
        """Length of the answer vector, m."""
        return int(self.columns.shape[0])

    @property
    def description(self) -> str:
        """A short description for plans and certificates."""
        return f"{self.size:,} conjunctions of {self.order}"

    @property
    def order(self) -> int:
        """The number k of literals of each conjunction."""
        return int(self.columns.shape[1])

    def digest(self) -> str:
        """A digest of the queries. It is cached, because mechanisms use it in every round."""
        cached: str | None = self.__dict__.get("_digest")
        if cached is None:
            head = json.dumps(["conjunctions", self.view.columns, self.view.groups, self.columns.shape])
            content = hashlib.sha256(head.encode())
            content.update(self.columns.astype("<i4").tobytes())
            content.update(np.packbits(self.negated).tobytes())
            cached = content.hexdigest()
            object.__setattr__(self, "_digest", cached)
        return cached
