"""The three numbers that describe what one attribute's queries contribute to the error of joint measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.measurement import Noise
from dpcore.queries.decomposition import Decomposition

Matrix = NDArray[np.float64]
_MIN_RELATIVE_EIGENVALUE: Final = 1e-11  # Squared singular values below this, relative to the largest, count as 0.
_MAX_UNSPANNED: Final = 1e-6  # A smaller part of the workload's squared norm outside A's row space is rounding.


@dataclass(frozen=True, eq=False)
class AttributeAlgebra:
    """One attribute that is measured through the same queries A in every marginal that contains it.

    Let Q stack theta_b (x)_{i in b} A_i (x)_{other i} 1' over some marginals b. With u_i, alpha_i and Y_i of
    ``Decomposition``, a generalised inverse of Q'Q is the sum over subsets a of
    (x)_{i in a} Y_i (x)_{other i} u_i u_i' / lam_a, where lam_a is the sum over b >= a of
    theta_b^2 prod_{i in b - a} alpha_i. The error of a workload marginal b is then the sum over a <= b of
    (prod_{i in a} t_i) (prod_{i in b - a} s0_i) / lam_a.

    size: The number n of the attribute's codes.
    matrix: A, float64 [p, n], of sensitivity 1; None if the codes themselves are measured, A = I.
    alpha: The fraction of a measured marginal's precision that counts towards the marginal without this attribute, in
        [0, 1].
    t: The contribution of the attribute's residual to the workload's error.
    s0: The contribution of the attribute's mean to the workload's error. If the attribute is measured alone, the
        squared error of all answers at unit noise is tr(G (A'A)^-1) = t + s0 / alpha.
    """

    size: int
    matrix: Matrix | None
    alpha: float
    t: float
    s0: float

    @classmethod
    def codes(cls, size: int) -> AttributeAlgebra:
        """An attribute whose single codes are both the workload and the strategy.

        size: The number of codes, >= 1.
        """
        return cls(size, None, 1 / size, size - 1.0, 1 / size)

    @classmethod
    def of(cls, matrix: Matrix, workload: Matrix, noise: Noise) -> AttributeAlgebra:
        """An attribute that is measured through a matrix.

        matrix: A, float64 [p, n], of any scale; it is scaled to sensitivity 1.
        workload: The Gram matrix G = W'W of the workload's queries about the attribute, float64 [n, n].
        noise: The law of the noise. The sensitivity is the largest L1 (Laplace) or L2 (Gaussian) norm of a column.

        Raises ValueError if the answers of A do not determine those of W, and if A or W is 0.
        """
        norms = np.abs(matrix).sum(axis=0) if noise is Noise.LAPLACE else np.sqrt((matrix**2).sum(axis=0))
        if not norms.max() > 0:
            raise ValueError("a strategy of zeros; want a query that reads a value")
        scaled = matrix / norms.max()
        if not np.trace(workload) > 0:
            raise ValueError("a workload of zeros; want a query that reads a value")
        _, singular_values, rows = np.linalg.svd(scaled, full_matrices=False)
        rows = rows[singular_values > np.sqrt(_MIN_RELATIVE_EIGENVALUE) * singular_values[0]]
        spanned = float(np.einsum("ij,ij->", rows @ workload, rows))
        if float(np.trace(workload)) - spanned > _MAX_UNSPANNED * float(np.trace(workload)):
            raise ValueError("a strategy that cannot answer the workload; want rows that span those of the workload")
        decomposition = Decomposition.of(scaled.T @ scaled)
        t, s0 = decomposition.against(workload)
        return cls(len(workload), scaled, decomposition.alpha, t, s0)
