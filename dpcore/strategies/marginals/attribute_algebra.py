"""What marginals of one attribute's queries, measured with different others, tell together: a few numbers a side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.measurement import Noise
from dpcore.queries.decomposition import Decomposition

Matrix = NDArray[np.float64]
_LEAST: Final = 1e-11  # Of the largest squared singular value: what is below it is taken for 0.
_UNREACHED: Final = 1e-6  # Of the workload's squared norm.


@dataclass(frozen=True, eq=False)
class AttributeAlgebra:
    """One attribute, measured through the same queries A in each marginal that it is part of.

    Where Q stacks theta_b (x)_{i in b} A_i (x)_{other i} 1' for some marginals b, an inverse of Q'Q is the sum over
    subsets a of (x)_{i in a} Y_i (x)_{other i} u_i u_i' / lam_a, where lam_a is the sum over b >= a of theta_b^2 times
    prod over i in b but not in a of alpha_i. The error of a marginal b of the workload is then the sum over a <= b of
    prod over i in a of t_i, times prod over i in b but not in a of s0_i, over lam_a.

    size: n, its number of codes.
    matrix: A, float64 [p, n], of sensitivity 1; None for the codes themselves, A = I.
    alpha: How much of a squared weight is left for what does not depend on the attribute: in [0, 1].
    t, s0: Parts of the workload's error that do depend on it, and that do not. Their sum, s0 divided by alpha, is
        tr(G (A'A)^-1), the squared error of all answers at unit noise where the attribute is measured alone.
    """

    size: int
    matrix: Matrix | None
    alpha: float
    t: float
    s0: float

    @classmethod
    def codes(cls, size: int) -> AttributeAlgebra:
        """An attribute that is asked for its codes and measured by them."""
        return cls(size, None, 1 / size, size - 1.0, 1 / size)

    @classmethod
    def of(cls, matrix: Matrix, workload: Matrix, noise: Noise) -> AttributeAlgebra:
        """An attribute measured through a matrix.

        matrix: A, float64 [p, n]; scaled to sensitivity 1, the largest L1 (Laplace) or L2 norm (Gaussians) of a column.
        workload: G = W'W of the queries that are asked, float64 [n, n].

        Raises ValueError for a workload that A does not tell, or an A of zeros.
        """
        norms = np.abs(matrix).sum(axis=0) if noise is Noise.LAPLACE else np.sqrt((matrix**2).sum(axis=0))
        if not norms.max() > 0:
            raise ValueError("a strategy of zeros; want a query that reads a value")
        scaled = matrix / norms.max()
        if not np.trace(workload) > 0:
            raise ValueError("a workload of zeros; want a query that reads a value")
        _, sizes, rows = np.linalg.svd(scaled, full_matrices=False)
        rows = rows[sizes > np.sqrt(_LEAST) * sizes[0]]
        told = float(np.einsum("ij,ij->", rows @ workload, rows))
        if float(np.trace(workload)) - told > _UNREACHED * float(np.trace(workload)):
            raise ValueError("a strategy that cannot answer the workload; want rows that span those of the workload")
        parts = Decomposition.of(scaled.T @ scaled)
        t, s0 = parts.against(workload)
        return cls(len(workload), scaled, parts.alpha, t, s0)

    def decomposition(self) -> Decomposition:
        """u and Y of A, to reconstruct answers: n^2 numbers."""
        return Decomposition.of(np.eye(self.size) if self.matrix is None else self.matrix.T @ self.matrix)
