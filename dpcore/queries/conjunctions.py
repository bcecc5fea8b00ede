"""Conjunctions of literals over 0/1 columns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.frozen import frozen


@dataclass(frozen=True, eq=False)
class Conjunctions:
    """m conjunctions of at most k literals each; a record satisfies a conjunction if all of its literals hold.

    A conjunction of fewer than k literals repeats its last one up to the width k: a & b of width 4 is (a, b, b, b).
    Records satisfy it as they would without the repetitions. Formulas that multiply or add over literals must count
    each literal once; ``orders`` and ``counted`` say which ones.

    view: The 0/1 columns that the literals refer to.
    columns: int32 [m, k], the column of each literal, distinct within a row except for the repetitions.
    negated: bool [m, k], True for a literal that holds if its column is 0.

    Raises ValueError for arrays of different shapes, an unknown column, and a column that is repeated within a row
    otherwise than as its last literal.
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
        repeated = (ordered[:, 1:] == ordered[:, :-1]).sum(axis=1)
        if repeated.any() and (repeated != _repetitions(columns, negated)).any():
            raise ValueError(
                "a conjunction names a column twice; want distinct columns, or the last literal repeated at the end"
            )
        orders = np.full(columns.shape[:1], columns.shape[1]) - repeated if repeated.any() else None
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "negated", negated)
        object.__setattr__(self, "_mixed_orders", None if orders is None else frozen(orders, np.int64))

    @classmethod
    def single_columns(cls, view: BinaryView) -> Conjunctions:
        """The positive literal of every column: the one-way marginals."""
        columns = np.arange(view.columns, dtype=np.int32)[:, None]
        return cls(view, columns, np.zeros_like(columns, dtype=np.bool_))

    @classmethod
    def joined(cls, parts: Sequence[Conjunctions]) -> Conjunctions:
        """The conjunctions of all parts, in their order, at the width of the widest.

        parts: One or more, over the same columns.
        """
        width = max(part.order for part in parts)
        literals = [np.minimum(np.arange(width), part.order - 1) for part in parts]
        columns = np.concatenate([part.columns[:, index] for part, index in zip(parts, literals, strict=True)])
        negated = np.concatenate([part.negated[:, index] for part, index in zip(parts, literals, strict=True)])
        return cls(parts[0].view, columns, negated)

    def only(self, rows: NDArray[np.int64]) -> Conjunctions:
        """Some of the conjunctions, at the same width.

        rows: Their indices, int64 [rows], in the wanted order.
        """
        return Conjunctions(self.view, self.columns[rows], self.negated[rows])

    @property
    def size(self) -> int:
        """Length of the answer vector, m."""
        return int(self.columns.shape[0])

    @property
    def description(self) -> str:
        """A short description for plans and certificates."""
        lowest, highest = int(self.orders.min()), int(self.orders.max())
        orders = f"{highest}" if lowest == highest else f"{lowest} to {highest}"
        return f"{self.size:,} conjunctions of {orders}"

    @property
    def order(self) -> int:
        """The width k, an upper bound on the number of literals of each conjunction."""
        return int(self.columns.shape[1])

    @property
    def orders(self) -> NDArray[np.int64]:
        """The number of literals of each conjunction, a repeated one counted once; int64 [m]."""
        mixed: NDArray[np.int64] | None = self.__dict__["_mixed_orders"]
        return np.broadcast_to(np.int64(self.order), (self.size,)) if mixed is None else mixed

    @property
    def is_mixed(self) -> bool:
        """Whether some conjunction has fewer literals than the width."""
        return self.__dict__["_mixed_orders"] is not None

    @property
    def counted(self) -> NDArray[np.bool_]:
        """True for each literal but the repetitions; bool [m, k]."""
        return self.counted_in(slice(None))

    def counted_in(self, rows: slice) -> NDArray[np.bool_]:
        """``counted`` for some of the conjunctions; bool [rows, k]."""
        return np.asarray(np.arange(self.order) < self.orders[rows, None])

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


def _repetitions(columns: NDArray[np.int32], negated: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The number of literals at the end of each row that repeat the literal before them, int64 [m]."""
    same = (columns[:, 1:] == columns[:, :-1]) & (negated[:, 1:] == negated[:, :-1])
    return np.asarray(np.logical_and.accumulate(same[:, ::-1], axis=1).sum(axis=1), dtype=np.int64)
