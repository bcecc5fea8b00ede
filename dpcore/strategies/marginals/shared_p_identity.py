"""p-Identity strategies of attributes that occur in several products, each optimised with the others fixed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.measurement import Noise
from dpcore.strategies.marginals.attribute_algebra import AttributeAlgebra, Matrix
from dpcore.strategies.marginals.strategy import MarginalsStrategy
from dpcore.strategies.marginals.subset_sums import Vector, subset_index, subset_products, superset_sums
from dpcore.strategies.one_attribute.p_identity import p_identity_matrix

Search = Callable[[Mapping[str, AttributeAlgebra]], MarginalsStrategy]

_MAX_THETA: Final = 1e3  # The same bound as in ``p_identity``.
_STEPS: Final = 100  # Maximum number of L-BFGS-B iterations per attribute and round.
_ROUNDS: Final = 4  # Maximum number of rounds over the attributes.
_MIN_GAIN: Final = 1e-4  # The rounds stop after one whose relative gain is smaller than this.


def shared_thetas(
    domain: Domain,
    clique_weights: Mapping[Clique, float],
    starts: Mapping[str, Matrix],
    workloads: Mapping[str, Matrix],
    others: Mapping[str, AttributeAlgebra],
    search: Search,
) -> dict[str, Matrix]:
    """Theta of each attribute's p-Identity strategy, at a local minimum of the error of the best products.

    domain: The domain of the workload.
    clique_weights: The cliques of the workload, with positive weights of their squared errors.
    starts: The initial Theta of each attribute to optimise, float64 [p, n], non-negative.
    workloads: The Gram matrix W'W of each of these attributes' queries, float64 [n, n].
    others: The attributes that are neither optimised nor measured by their codes.
    search: Finds the products to measure, and their weights, for given strategies of all attributes.

    The search for products alternates with a descent in each Theta. The result is never worse than the starts.

    Returns Theta of each attribute of ``starts``, float64 [p, n].
    """
    names = [name for name in domain.names if any(name in clique for clique in clique_weights)]
    thetas, best, error = dict(starts), dict(starts), math.inf
    for _round in range(_ROUNDS):
        algebras = {name: AttributeAlgebra.codes(size) for name, size in zip(names, domain.shape(names), strict=True)}
        algebras |= others
        algebras |= {name: _algebra(theta, workloads[name]) for name, theta in thetas.items()}
        strategy = search(algebras)
        if not strategy.error < error * (1 - _MIN_GAIN):
            break
        best, error = dict(thetas), strategy.error
        measured = dict(zip(strategy.cliques, strategy.weights.tolist(), strict=True))
        for name, theta in thetas.items():
            partial_error = ErrorInAttribute.of(
                names, [algebras[other] for other in names], clique_weights, measured, name
            )
            thetas[name], _ = shared_p_identity(theta, workloads[name], partial_error)
            algebras[name] = _algebra(thetas[name], workloads[name])
    return best


def _algebra(theta: Matrix, workload: Matrix) -> AttributeAlgebra:
    return AttributeAlgebra.of(p_identity_matrix(theta), workload, Noise.LAPLACE)


@dataclass(frozen=True, eq=False)
class ErrorInAttribute:
    """The error of a whole strategy as a function of one attribute's alpha, t and s0, with everything else fixed.

    error = slope t + sum_k (energy_without_k + energy_with_k s0) / (weight_without_k + weight_with_k alpha), where k
    runs over the subsets of the other attributes.

    slope: The derivative of the error in t.
    energy_without: float64 [k], energies of the workload marginals without the attribute.
    energy_with: float64 [k], energies of the workload marginals with the attribute.
    weight_without: float64 [k], squared weights of the measured marginals without the attribute.
    weight_with: float64 [k], squared weights of the measured marginals with the attribute.
    """

    slope: float
    energy_without: Vector
    energy_with: Vector
    weight_without: Vector
    weight_with: Vector

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        algebras: Sequence[AttributeAlgebra],
        clique_weights: Mapping[Clique, float],
        measured: Mapping[Clique, float],
        name: str,
    ) -> ErrorInAttribute:
        """The function for one attribute.

        names: All attributes of the workload.
        algebras: The algebra of each attribute.
        clique_weights: The cliques of the workload, with the weights of their squared errors.
        measured: The weight of each measured product, which has sensitivity 1.
        name: The attribute that varies.
        """
        index, ones = names.index(name), np.ones(len(names))
        s0 = np.array([algebra.s0 for algebra in algebras])
        t = np.array([algebra.t for algebra in algebras])
        alpha = np.array([algebra.alpha for algebra in algebras])
        s0[index], t[index], alpha[index] = 0.0, 1.0, 0.0
        energies = superset_sums(_vector_over_subsets(names, clique_weights, 1), s0) * subset_products(t, ones)
        sums = superset_sums(_vector_over_subsets(names, measured, 2), alpha)
        energy_without, energy_with = energies.reshape(1 << index, 2, -1).swapaxes(0, 1).reshape(2, -1)
        weight_without, weight_with = sums.reshape(1 << index, 2, -1).swapaxes(0, 1).reshape(2, -1)
        queried = energy_with > 0
        slope = float((energy_with[queried] / weight_with[queried]).sum())
        kept = (energy_without > 0) | queried
        return cls(slope, energy_without[kept], energy_with[kept], weight_without[kept], weight_with[kept])

    def error(self, alpha: float, t: float, s0: float) -> tuple[float, tuple[float, float, float]]:
        """The error, and its derivatives in alpha, t and s0.

        alpha, t, s0: The attribute's numbers, as in ``AttributeAlgebra``.
        """
        sums = self.weight_without + self.weight_with * alpha
        energies = self.energy_without + self.energy_with * s0
        error = self.slope * t + float((energies / sums).sum())
        by_alpha = -float((energies * self.weight_with / sums**2).sum())
        return error, (by_alpha, self.slope, float((self.energy_with / sums).sum()))


def shared_p_identity(start: Matrix, workload: Matrix, partial_error: ErrorInAttribute) -> tuple[Matrix, float]:
    """The p-Identity strategy of one attribute, at a local minimum of the error of the whole strategy.

    start: The initial Theta, float64 [p, n], non-negative.
    workload: G = W'W, float64 [n, n].
    partial_error: The error of the whole strategy as a function of this attribute.

    A = [I; Theta] diag(1 + 1'Theta)^-1 has sensitivity 1. Products without the attribute also measure its total. The
    optimum therefore measures several codes together less, and single codes more, than the best strategy for the
    attribute alone.

    Returns Theta, float64 [p, n], and the error of the whole strategy.

    Source: McKenna (2022), Definition 15, by L-BFGS-B on the logarithm of another error: this project's.
    """
    from scipy.optimize import minimize  # Only where it is called: most plans need none.

    p, n = start.shape
    optimum = minimize(
        _log_error, start.ravel(), args=(p, workload, partial_error), jac=True, method="L-BFGS-B",
        bounds=[(0, _MAX_THETA)] * (p * n), options={"maxcor": 20, "maxiter": _STEPS, "ftol": 1e-9},
    )  # fmt: skip
    return optimum.x.reshape(p, n), float(np.exp(optimum.fun))


def _log_error(
    flat: NDArray[np.float64], p: int, workload: Matrix, partial_error: ErrorInAttribute
) -> tuple[float, NDArray[np.float64]]:
    """The logarithm of the error and its gradient in Theta.

    With X = A'A, d alpha = u'dX u, dY = -Y dX Y and du = -Y dX u. The error therefore changes by tr(M dX), where
    M = e_alpha u u' - e_t Y G Y - e_s0 (Y G u u' + u u'G Y), and e_alpha, e_t and e_s0 are its derivatives. The inverse
    of X is diag(s) (I - Theta'R Theta) diag(s), with s = 1 + 1'Theta and R = (I + Theta Theta')^-1.
    """
    theta = flat.reshape(p, -1)
    n = theta.shape[1]
    s = 1 + theta.sum(axis=0)
    inverse = (np.eye(n) - theta.T @ np.linalg.solve(np.eye(p) + theta @ theta.T, theta)) * np.outer(s, s)
    sums = inverse.sum(axis=1)
    alpha = float(1 / sums.sum())
    u = alpha * sums
    y = inverse - np.outer(u, u) / alpha
    y_g = y @ workload
    error, (by_alpha, by_t, by_s0) = partial_error.error(alpha, float(np.trace(y_g)), float(u @ workload @ u))
    m = np.outer(u, by_alpha * u - by_s0 * (y_g @ u)) - by_t * (y_g @ y)
    m -= by_s0 * np.outer(y_g @ u, u)
    matrix = p_identity_matrix(theta)
    matrix_gradient = 2 * matrix @ m
    gradient = matrix_gradient[n:] / s - (matrix * matrix_gradient).sum(axis=0) / s
    return float(np.log(error)), np.asarray(gradient / error).ravel()


def _vector_over_subsets(names: Sequence[str], weights: Mapping[Clique, float], power: int) -> Vector:
    """The sums of weight^power by subset of the attributes: float64 [2^d]."""
    indices = {name: index for index, name in enumerate(names)}
    values = np.zeros(1 << len(names))
    for clique, weight in weights.items():
        values[subset_index([indices[name] for name in clique], len(names))] += weight**power
    return values
