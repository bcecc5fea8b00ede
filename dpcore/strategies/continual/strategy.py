"""A strategy for a series of counts: an integer matrix whose rows are measured step by step."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dpcore.frozen import frozen
from dpcore.measurement import Noise

Real = NDArray[np.float64]
_LARGEST_RESIDUAL = 1e-6  # Largest error with which an estimate may answer its query, relative to the largest entry.


@dataclass(frozen=True, eq=False)
class ContinualStrategy:
    """A strategy A = matrix / denominator for a series of T steps, each row of which is measured at one step.

    Let x_s be the counts of step s. At step t, the rows that belong to it are applied to x_1 .. x_t and measured with
    independent noise. Every step can be estimated as soon as it is over: the rows up to a step span all steps so far.

    matrix: int64 [p, T].
    denominator: The common denominator of the entries, >= 1.
    step_of_row: int64 [p], ascending, the step (from 0) at which each row is measured. A row reads no later step.

    Raises ValueError for a row that reads a later step than its own, for rows out of order, and for a step that has no
    row of its own, so that nothing new could be estimated after it.
    """

    matrix: NDArray[np.int64]
    denominator: int
    step_of_row: NDArray[np.int64]

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", frozen(self.matrix, np.int64))
        object.__setattr__(self, "step_of_row", frozen(self.step_of_row, np.int64))
        rows, steps = self.matrix.shape
        if self.denominator < 1 or self.step_of_row.shape != (rows,) or (np.diff(self.step_of_row) < 0).any():
            raise ValueError(f"{rows} rows over {self.denominator}, not ordered by step; want them in order")
        if not np.array_equal(np.unique(self.step_of_row), np.arange(steps)):
            raise ValueError(f"a step without a row of its own; want one or more rows for each of {steps} steps")
        later = np.arange(steps)[None] > self.step_of_row[:, None]
        if self.matrix[later].any():
            raise ValueError("a row that reads a later step than its own; want rows of the steps so far")

    def to_text(self) -> str:
        """The strategy as text, from which ``from_text`` makes the same one on every machine."""
        parts = [self.step_of_row.astype("<i8").tobytes(), self.matrix.astype("<i8").tobytes()]
        packed = base64.b64encode(zlib.compress(b"".join(parts))).decode()
        return json.dumps([self.denominator, *self.matrix.shape, packed])

    @classmethod
    def from_text(cls, text: str) -> ContinualStrategy:
        """The strategy that ``to_text`` wrote. Raises ValueError for any other text."""
        try:
            denominator, rows, steps, packed = json.loads(text)
            content = zlib.decompress(base64.b64decode(packed, validate=True))
            numbers = np.frombuffer(content, dtype="<i8").astype(np.int64)
            return cls(numbers[rows:].reshape(rows, steps), denominator, numbers[:rows])
        except (TypeError, zlib.error) as error:
            raise ValueError("a text that is no strategy; want one of to_text") from error

    @property
    def steps(self) -> int:
        """The number T of steps."""
        return int(self.matrix.shape[1])

    def rows_of(self, step: int) -> range:
        """The rows that are measured at a step (from 0)."""
        first, end = np.searchsorted(self.step_of_row, [step, step + 1])
        return range(int(first), int(end))

    def squared_sensitivity(self, noise: Noise) -> float:
        """|A|^2, where |A| is the largest column norm: L1 under Laplace noise, and L2 under Gaussian noise."""
        real = self.matrix / self.denominator
        if noise is Noise.LAPLACE:
            return float(np.abs(real).sum(axis=0).max() ** 2)
        return float((real**2).sum(axis=0).max())

    def reconstruction(self, queries: Real) -> Real:
        """R with (queries) x = R (A x), each query from the rows up to the last step that it reads: float64 [m, p].

        queries: float64 [m, T], one query about the series per row.

        Every row of R is the unbiased estimate of least variance from what has been measured when the query ends. It
        never changes later, and the estimates of step t are the same whether or not later steps exist.

        Raises ValueError if the strategy is too close to singular for doubles.

        Source: Honaker (2015), "Efficient use of differentially private binary trees", for estimates from a tree as it
        grows; for a square matrix R is W A^-1.
        """
        answers = np.zeros((len(queries), len(self.matrix)))
        ends = last_steps(queries)
        for end in np.unique(ends).tolist():
            asked = ends == end
            answers[asked, : self._rows_until(end)] = self._estimates(queries[asked, : end + 1], end)
        error = np.abs(answers @ self._real - queries).max(initial=0.0)
        if not error <= _LARGEST_RESIDUAL * max(1.0, np.abs(queries).max(initial=0.0)):
            raise ValueError("a strategy too close to singular for doubles; want another strategy")
        return answers

    def _estimates(self, queries: Real, end: int) -> Real:
        rows = self._rows_until(end)
        measured = self._real[:rows, : end + 1]
        if rows == end + 1:  # A is lower triangular so far.
            return np.asarray(scipy.linalg.solve_triangular(measured, queries.T, trans="T", lower=True).T)
        factor = scipy.linalg.cho_factor(measured.T @ measured)
        return np.asarray(scipy.linalg.cho_solve(factor, queries.T).T @ measured.T)

    def _rows_until(self, end: int) -> int:
        return int(np.searchsorted(self.step_of_row, end, side="right"))

    @cached_property
    def _real(self) -> Real:
        return np.asarray(self.matrix / self.denominator)


def last_steps(queries: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.int64]:
    """The last step (from 0) that each query reads, int64 [m]; 0 for a query of no step.

    queries: float64 or int64 [m, T].
    """
    reads = queries != 0
    return np.where(reads.any(axis=1), queries.shape[1] - 1 - reads[:, ::-1].argmax(axis=1), 0).astype(np.int64)
