"""What one attribute's query matrix contributes to the error of jointly measured marginals: three numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.measurement import Noise
from dpcore.queries.decomposition import Decomposition

Matrix = NDArray[np.float64]
_MIN_RELATIVE_EIGENVALUE: Final = 1e-11  # Squared singular values below this part of the largest count as 0.
_MAX_UNSPANNED: Final = (
    1e-6  # Part of the workload's squared norm outside the strategy's range that counts as rounding.
)


@dataclass(frozen=True, eq=False)
class AttributeAlgebra:
    """One attribute, measured through the same queries A in each marginal that it is part of.

    Where Q stacks theta_b (x)_{i in b} A_i (x)_{other i} 1' for some marginals b, an inverse of Q'Q is the sum over
    subsets a of (x)_{i in a} Y_i (x)_{other i} u_i u_i' / lam_a, where lam_a is the sum over b >= a of theta_b^2 times
    prod over i in b but not in a of alpha_i. The error of a marginal b of the workload is then the sum over a <= b of
    prod over i in a of t_i, times prod over i in b but not in a of s0_i, over lam_a.

    size: The number n of the attribute's codes.
    matrix: A, float64 [p, n], of sensitivity 1; None for the codes themselves, A = I.
    alpha: The part of a squared weight that also measures what does not depend on the attribute, in [0, 1].
    t: The part of the workload's error that depends on the attribute.
    s0: The part of the workload's error that does not depend on the attribute. t + s0 / alpha is tr(G (A'A)^-1), the
        squared error of all answers at unit noise where the attribute is measured alone.
    """

    size: int
    matrix: Matrix | None
    alpha: float
    t: float
    s0: float

    @classmethod
    def codes(cls, size: int) -> AttributeAlgebra:
        """An attribute whose workload and strategy are its codes.

        size: The number of codes, >= 1.
        """
        return cls(size, None, 1 / size, size - 1.0, 1 / size)

    @classmethod
    def of(cls, matrix: Matrix, workload: Matrix, noise: Noise) -> AttributeAlgebra:
        """An attribute that is measured through a matrix.

        matrix: A, float64 [p, n]. It is scaled to sensitivity 1.
        workload: G = W'W of the workload's queries W about the attribute, float64 [n, n].
        noise: The law of the noise: the sensitivity is the largest L1 (Laplace) or L2 norm (Gaussians) of a column.

        Raises ValueError for a workload that the answers of A do not determine, and for an A or a W of zeros.
        """
        norms = np.abs(matrix).sum(axis=0) if noise is Noise.LAPLACE else np.sqrt((matrix**2).sum(axis=0))
        if not norms.max() > 0:
            raise ValueError("a strategy of zeros; want a query that reads a value")
        scaled = matrix / norms.max()
        if not np.trace(workload) > 0:
            raise ValueError("a workload of zeros; want a query that reads a value")
        _, sizes, rows = np.linalg.svd(scaled, full_matrices=False)
        rows = rows[sizes > np.sqrt(_MIN_RELATIVE_EIGENVALUE) * sizes[0]]
        spanned = float(np.einsum("ij,ij->", rows @ workload, rows))
        if float(np.trace(workload)) - spanned > _MAX_UNSPANNED * float(np.trace(workload)):
            raise ValueError("a strategy that cannot answer the workload; want rows that span those of the workload")
        parts = Decomposition.of(scaled.T @ scaled)
        t, s0 = parts.against(workload)
        return cls(len(workload), scaled, parts.alpha, t, s0)
