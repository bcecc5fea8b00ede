"""Losses: convex functions of the marginals of a model, with gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.graphical.fitting.linear_measurements import linear_measurements
from dpcore.estimation.graphical.fitting.measurement_matrix import MeasurementMatrix
from dpcore.measurement import Measurement
from dpcore.queries import Marginals


class Loss(Protocol):
    """A convex function of the marginals of some cliques, with a continuous gradient.

    queries: The marginals; no clique lies inside another.
    curvature: A finite number with d^T H d <= curvature |d|_1^2 for all differences d of two joint tables with the same
        total, where H is the Hessian of the loss as a function of the joint table in counts.

    Implemented by ``SquaredLoss``, ``sample_likelihood.SampleLogLikelihood``, and the sums of losses of
    ``dpcore.mechanisms.query_game.dual_query_pgm``.
    """

    @property
    def queries(self) -> Marginals: ...

    @property
    def curvature(self) -> float: ...

    def __call__(self, marginals: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Returns the value and the gradient at marginals in counts, both arrays float64 [queries.size]."""
        ...


@final
class SquaredLoss:
    """1/2 sum over measurements of |A_j mu_j - y_j|^2 / sigma_j^2: the negative log-likelihood of Gaussian noise.

    domain: Attributes of the model.
    measurements: Measurements of marginals, or of products on marginals; at least one.

    Source: thesis, section 4.2, and Algorithm 6, which prints the weights 1 / sigma in place of 1 / sigma^2.
    """

    def __init__(self, domain: Domain, measurements: Sequence[Measurement]) -> None:
        self.matrix = MeasurementMatrix(
            domain, [part for measurement in measurements for part in linear_measurements(measurement)]
        )
        self.queries = self.matrix.queries
        self.curvature = sum(measurement.curvature for measurement in self.matrix.measurements)

    def __call__(self, marginals: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        residual = self.matrix.apply(marginals) - self.matrix.values
        weighted = self.matrix.precisions * residual
        return self.matrix.constant + 0.5 * float(residual @ weighted), self.matrix.apply_transpose(weighted)
