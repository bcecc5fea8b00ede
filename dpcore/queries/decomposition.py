"""Queries about one attribute, split into the part that the total decides and the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
_LEAST: Final = 1e-11  # Of the largest eigenvalue: what is below it is taken for 0.


@dataclass(frozen=True, eq=False)
class Decomposition:
    """R^n as the line of u and the vectors v with 1'v = 0, which X = A'A and 11' both keep apart: u'Xv = 0.

    u: float64 [n], 1'u = 1: u'Xu is least.
    alpha: u'Xu = 1 / (1'X^-1 1), 0 where the total is no linear function of A x.
    inverse: Y, float64 [n, n], Y 1 = 0: the inverse of X on the vectors v, X^-1 - u u' / alpha where X has one.
    """

    u: NDArray[np.float64]
    alpha: float
    inverse: Matrix

    @classmethod
    def of(cls, gram: Matrix) -> Decomposition:
        """gram: X, float64 [n, n], symmetric and positive semidefinite."""
        n = len(gram)
        basis = _zero_sums(n)
        values, vectors = np.linalg.eigh(basis.T @ gram @ basis)
        kept = values > _LEAST * max(float(np.trace(gram)), float(gram.sum()) / n)
        roots = basis @ (vectors[:, kept] / np.sqrt(values[kept]))
        inverse = roots @ roots.T
        flat = np.full(n, 1 / n)
        u = flat - inverse @ (gram @ flat)
        alpha = float(u @ gram @ u)
        return cls(u, alpha if alpha > _LEAST * float(flat @ gram @ flat) else 0.0, inverse)

    def against(self, workload: Matrix) -> tuple[float, float]:
        """(t, s0) of a workload with Gram matrix G = W'W, float64 [n, n]: tr(G Y) and u'Gu."""
        size = float(np.trace(workload))
        t, s0 = float(np.einsum("ij,ij->", workload, self.inverse)), float(self.u @ workload @ self.u)
        rounding = _LEAST * size
        return (
            t if t > rounding * float(np.trace(self.inverse)) else 0.0,
            s0 if s0 > rounding * float(self.u @ self.u) else 0.0,
        )


def _zero_sums(n: int) -> Matrix:
    """Orthonormal columns that sum to 0 each: float64 [n, n - 1]."""
    full, _ = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, : n - 1]]))
    return full[:, 1:]
