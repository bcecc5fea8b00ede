"""Matrices of queries by their structure: what tests and benchmarks compare strategies with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcore.frozen import frozen
from tests.support.linear_operators import ImplicitMatrix, Real


class StructuredMatrix(ImplicitMatrix):
    """A matrix with its normal operator and its pseudo-inverse, of the parts where the structure allows it."""

    def gram_operator(self) -> StructuredMatrix:
        """A'A without writing it out."""
        return Normal(self)

    def pseudo_inverse(self) -> StructuredMatrix:
        """A^+: of the parts where the structure allows it. Raises ValueError where A must be written out and cannot."""
        return Dense(np.asarray(np.linalg.pinv(self.dense()), dtype=np.float64))


@dataclass(frozen=True, eq=False)
class Dense(StructuredMatrix):
    """A matrix that is written out: float64 [m, n]."""

    matrix: Real

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", frozen(self.matrix, np.float64))

    @property
    def shape(self) -> tuple[int, int]:
        m, n = self.matrix.shape
        return m, n

    def _times(self, columns: Real) -> Real:
        return np.asarray(self.matrix @ columns)

    def _transposed_times(self, columns: Real) -> Real:
        return np.asarray(self.matrix.T @ columns)

    def _gram(self) -> Real:
        return np.asarray(self.matrix.T @ self.matrix)

    def column_norms(self, order: Literal[1, 2]) -> Real:
        return np.asarray(np.linalg.norm(self.matrix, ord=order, axis=0))


@dataclass(frozen=True, eq=False)
class Identity(StructuredMatrix):
    """Each value alone: I of this size."""

    size: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    def _times(self, columns: Real) -> Real:
        return columns.copy()

    _transposed_times = _times

    def _gram(self) -> Real:
        return np.eye(self.size)

    def gram_operator(self) -> StructuredMatrix:
        return self

    def pseudo_inverse(self) -> StructuredMatrix:
        return self

    def column_norms(self, order: Literal[1, 2]) -> Real:
        return np.ones(self.size)


@dataclass(frozen=True, eq=False)
class Permuted(StructuredMatrix):
    """The same queries of reordered values: column j is column permutation[j] of ``matrix``.

    Raises ValueError for what is no permutation of the columns.
    """

    matrix: ImplicitMatrix
    permutation: NDArray[np.int64]

    def __post_init__(self) -> None:
        object.__setattr__(self, "permutation", frozen(self.permutation, np.int64))
        if not np.array_equal(np.sort(self.permutation), np.arange(self.matrix.shape[1])):
            raise ValueError(f"not a permutation of {self.matrix.shape[1]} columns; want each column once")

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    @cached_property
    def _inverse(self) -> NDArray[np.int64]:
        return np.argsort(self.permutation)

    def _times(self, columns: Real) -> Real:
        return self.matrix.matmat(columns[self._inverse])

    def _transposed_times(self, columns: Real) -> Real:
        return self.matrix.rmatmat(columns)[self.permutation]

    def _gram(self) -> Real:
        return self.matrix.gram()[np.ix_(self.permutation, self.permutation)]

    def column_norms(self, order: Literal[1, 2]) -> Real:
        return self.matrix.column_norms(order)[self.permutation]


@dataclass(frozen=True, eq=False)
class Kronecker(StructuredMatrix):
    """A_1 x ... x A_k, the last factor fastest. Raises ValueError without a factor.

    Source: McKenna (2022), Algorithm 1, for the products; Proposition 11 for the pseudo-inverse.
    """

    factors: Sequence[StructuredMatrix]

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", tuple(self.factors))
        if not self.factors:
            raise ValueError("a Kronecker product of no factors; want one or more")

    @property
    def shape(self) -> tuple[int, int]:
        return math.prod(one.shape[0] for one in self.factors), math.prod(one.shape[1] for one in self.factors)

    def _times(self, columns: Real) -> Real:
        return self._along(columns, transposed=False)

    def _transposed_times(self, columns: Real) -> Real:
        return self._along(columns, transposed=True)

    def _along(self, columns: Real, transposed: bool) -> Real:
        """One factor at a time: what comes in stands first, what has come out last."""
        left = columns.T
        for factor in self.factors:
            size = factor.shape[0 if transposed else 1]
            values = left.reshape(columns.shape[1], size, -1).transpose(1, 0, 2).reshape(size, -1)
            made = factor.rmatmat(values) if transposed else factor.matmat(values)
            left = made.reshape(len(made), columns.shape[1], -1).transpose(1, 2, 0)
        return np.asarray(left.reshape(columns.shape[1], -1).T)

    def _gram(self) -> Real:
        return reduce(_kron, [factor.gram() for factor in self.factors])

    def gram_operator(self) -> StructuredMatrix:
        return Kronecker([factor.gram_operator() for factor in self.factors])

    def pseudo_inverse(self) -> StructuredMatrix:
        return Kronecker([factor.pseudo_inverse() for factor in self.factors])

    def column_norms(self, order: Literal[1, 2]) -> Real:
        return reduce(_kron, [factor.column_norms(order) for factor in self.factors])


@dataclass(frozen=True, eq=False)
class Stacked(StructuredMatrix):
    """weights[0] A_1 above weights[1] A_2 and so on. Raises ValueError unless all have as many columns and a weight.

    weights: Real, one a part.
    """

    parts: Sequence[ImplicitMatrix]
    weights: Sequence[float]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        object.__setattr__(self, "weights", tuple(float(weight) for weight in self.weights))
        if len({part.shape[1] for part in self.parts}) != 1 or len(self.weights) != len(self.parts):
            raise ValueError("want one part or more, all over the same values, and a weight for each")

    @property
    def shape(self) -> tuple[int, int]:
        return sum(part.shape[0] for part in self.parts), self.parts[0].shape[1]

    def _times(self, columns: Real) -> Real:
        return np.vstack([w * part.matmat(columns) for w, part in zip(self.weights, self.parts, strict=True)])

    def _transposed_times(self, columns: Real) -> Real:
        pieces = np.split(columns, np.cumsum([part.shape[0] for part in self.parts])[:-1])
        each = zip(self.weights, self.parts, pieces, strict=True)
        return np.asarray(sum(weight * part.rmatmat(piece) for weight, part, piece in each))

    def _gram(self) -> Real:
        return np.asarray(sum(w**2 * part.gram() for w, part in zip(self.weights, self.parts, strict=True)))

    def column_norms(self, order: Literal[1, 2]) -> Real:
        each = zip(self.weights, self.parts, strict=True)
        powers = np.asarray(sum(abs(weight) ** order * part.column_norms(order) ** order for weight, part in each))
        return powers if order == 1 else np.sqrt(powers)


@dataclass(frozen=True, eq=False)
class Normal(StructuredMatrix):
    """A'A, applied as A' after A."""

    matrix: ImplicitMatrix

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape[1], self.matrix.shape[1]

    def _times(self, columns: Real) -> Real:
        return self.matrix.rmatmat(self.matrix.matmat(columns))

    _transposed_times = _times

    def _gram(self) -> Real:
        once = self.matrix.gram()
        return np.asarray(once @ once)

    def column_norms(self, order: Literal[1, 2]) -> Real:
        return np.asarray(np.linalg.norm(self.matrix.gram(), ord=order, axis=0))


def _kron(left: Real, right: Real) -> Real:
    return np.asarray(np.kron(left, right))
