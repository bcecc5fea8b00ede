"""Real matrices given by products with vectors, Gram matrix and column norms, for tests and benchmarks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Real = NDArray[np.float64]
LARGEST_SQUARE: Final = 1 << 26  # Largest number of entries of a matrix that is written out: 512 MiB.


class ImplicitMatrix(ABC):
    """A real m x n matrix A, given by its products with vectors; Gram matrix and norms follow from its structure.

    ``scipy.sparse.linalg.aslinearoperator`` accepts it directly.
    """

    dtype = np.dtype(np.float64)

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(m, n)."""

    @abstractmethod
    def _times(self, columns: Real) -> Real:
        """A X for X float64 [n, k]."""

    @abstractmethod
    def _transposed_times(self, columns: Real) -> Real:
        """A'Y for Y float64 [m, k]."""

    @abstractmethod
    def _gram(self) -> Real:
        """A'A, float64 [n, n]."""

    @abstractmethod
    def column_norms(self, order: Literal[1, 2]) -> Real:
        """The L1 or L2 norm of every column, float64 [n]."""

    def matvec(self, x: ArrayLike) -> Real:
        """A x, float64 [m], for x [n]; [m, 1] for [n, 1]. Raises ValueError for any other shape."""
        return self._applied_to_vector(self._times, x, self.shape[1])

    def rmatvec(self, y: ArrayLike) -> Real:
        """A'y, float64 [n], for y [m]; [n, 1] for [m, 1]. Raises ValueError for any other shape."""
        return self._applied_to_vector(self._transposed_times, y, self.shape[0])

    def matmat(self, x: ArrayLike) -> Real:
        """A X, float64 [m, k], for X [n, k]. Raises ValueError for any other shape."""
        return self._times(_real(x, self.shape[1], 2))

    def rmatmat(self, y: ArrayLike) -> Real:
        """A'Y, float64 [n, k], for Y [m, k]. Raises ValueError for any other shape."""
        return self._transposed_times(_real(y, self.shape[0], 2))

    def sensitivity(self, order: Literal[1, 2]) -> float:
        """The sensitivity of A x, its largest column norm: L1 for Laplace noise, L2 for Gaussian noise.

        Source: McKenna (2022), Proposition 2, for neighbours that differ in one added record.
        """
        return float(self.column_norms(order).max())

    def gram(self) -> Real:
        """A'A, float64 [n, n]. Raises ValueError for more entries than LARGEST_SQUARE."""
        _check_entries(self.shape[1], self.shape[1])
        return self._gram()

    def dense(self) -> Real:
        """A, float64 [m, n]. Raises ValueError for more entries than LARGEST_SQUARE."""
        _check_entries(*self.shape)
        return self._times(np.eye(self.shape[1]))

    @staticmethod
    def _applied_to_vector(apply: Callable[[Real], Real], x: ArrayLike, size: int) -> Real:
        array = np.asarray(x, dtype=np.float64)
        answer = apply(_real(array[:, None] if array.ndim == 1 else array, size, 1))
        return answer[:, 0] if array.ndim == 1 else answer


def _real(x: ArrayLike, size: int, columns: int) -> Real:
    array = np.asarray(x, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != size or (columns == 1 and array.shape[1] != 1):
        raise ValueError(f"an array of shape {array.shape}; want {size} values{' per column' if columns > 1 else ''}")
    return array


def _check_entries(rows: int, columns: int) -> None:
    if rows * columns > LARGEST_SQUARE:
        raise ValueError(f"a matrix of {rows:,} x {columns:,}; want at most {LARGEST_SQUARE:,} entries written out")
