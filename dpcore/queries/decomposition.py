"""The split of one attribute's queries into a part that depends on the total alone and a residual part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
_ROUNDING: Final = 1e-11  # Numbers below this size, relative to the largest, count as 0.


@dataclass(frozen=True, eq=False)
class Decomposition:
    """The split of R^n into the line of u and the vectors v with 1'v = 0, orthogonal to each other under X = A'A.

    u: float64 [n], the vector with 1'u = 1 that minimises u'Xu. It satisfies u'Xv = 0 for all v with 1'v = 0.
    alpha: u'Xu = 1 / (1'X^-1 1). It is 0 if the total is not a linear function of A x.
    inverse: Y, float64 [n, n], with Y 1 = 0: the pseudo-inverse of X on the vectors v. If X is invertible, then
        Y = X^-1 - u u' / alpha.
    """

    u: NDArray[np.float64]
    alpha: float
    inverse: Matrix

    @classmethod
    def of(cls, gram: Matrix) -> Decomposition:
        """The decomposition of X = ``gram``, float64 [n, n], symmetric and positive semidefinite."""
        n = len(gram)
        basis = _zero_sums(n)
        values, vectors = np.linalg.eigh(basis.T @ gram @ basis)
        kept = values > _ROUNDING * max(float(np.trace(gram)), float(gram.sum()) / n)
        roots = basis @ (vectors[:, kept] / np.sqrt(values[kept]))
        inverse = roots @ roots.T
        uniform = np.full(n, 1 / n)
        u = uniform - inverse @ (gram @ uniform)
        alpha = float(u @ gram @ u)
        return cls(u, alpha if alpha > _ROUNDING * float(uniform @ gram @ uniform) else 0.0, inverse)

    def against(self, workload: Matrix) -> tuple[float, float]:
        """The errors (t, s0) = (tr(G Y), u'Gu) of a workload with Gram matrix G = W'W, float64 [n, n]."""
        size = float(np.trace(workload))
        t, s0 = float(np.einsum("ij,ij->", workload, self.inverse)), float(self.u @ workload @ self.u)
        rounding = _ROUNDING * size
        return (
            t if t > rounding * float(np.trace(self.inverse)) else 0.0,
            s0 if s0 > rounding * float(self.u @ self.u) else 0.0,
        )


def _zero_sums(n: int) -> Matrix:
    """Orthonormal columns, each of sum 0: float64 [n, n - 1]."""
    full, _ = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, : n - 1]]))
    return full[:, 1:]
