"""Integer queries about one attribute's residual, and the reconstruction of its values from their answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

_MIN_PIVOT: Final = 1e-10  # Relative to the largest pivot; linearly dependent rows leave a pivot of rounding size.
_TOLERANCE: Final = 1e-9  # Relative size of B u that counts as rounding.


@dataclass(frozen=True, eq=False)
class ResidualFrame:
    """The counts x of an attribute of n values, split as x = (1'x) u + L B x: the total spread by u, plus a residual.

    matrix: B, int64 [p, n], of rank n - 1.
    mean: u, float64 [n], the vector with B u = 0 and 1'u = 1.
    inverse: L, float64 [n, p], with L B = I - u 1' and 1'L = 0. Among all such matrices its rows have the least norms,
        so L y is the best linear unbiased estimate of the residual from y = B x + iid noise.
    cost: The largest squared column norm of B, exact.
    """

    matrix: NDArray[np.int64]
    mean: NDArray[np.float64]
    inverse: NDArray[np.float64]
    cost: int

    @classmethod
    def of(cls, matrix: NDArray[np.int64]) -> ResidualFrame:
        """The frame of an integer matrix B, int64 [p, n].

        u and L are solved for from the integers, so they are exact up to the rounding of doubles: with M = [B; c 1'] of
        rank n, the pseudo-inverse is M^+ = [L, u / c].

        Raises ValueError unless B has rank n - 1 and the total is not a linear function of B x.
        """
        from scipy.linalg import solve_triangular  # Workers, which make no frames, need not import it.

        size = matrix.shape[1]
        cost = int((matrix**2).sum(axis=0).max()) if matrix.size else 0
        scale = float(np.sqrt(cost / size)) or 1.0
        stacked = np.vstack([matrix.astype(np.float64), np.full((1, size), scale)])
        if len(stacked) < size:
            raise ValueError(f"{len(matrix)} queries of the residual of {size} values; want {size - 1} or more")
        orthonormal, triangle = np.linalg.qr(stacked)
        pivots = np.abs(triangle.diagonal())
        if pivots.min() <= _MIN_PIVOT * pivots.max():
            raise ValueError(f"queries that miss a part of the residual; want {size - 1} independent rows")
        pseudo_inverse = solve_triangular(triangle, orthonormal.T)
        inverse, mean = np.ascontiguousarray(pseudo_inverse[:, :-1]), pseudo_inverse[:, -1] * scale
        if np.abs(matrix @ mean).max(initial=0.0) > _TOLERANCE * scale * np.abs(mean).max():
            raise ValueError("queries that depend on the total; want those of a residual alone")
        mean /= mean.sum()
        for array in (inverse, mean):
            array.flags.writeable = False
        return cls(matrix, mean, inverse, cost)
