"""p-Identity strategies of attributes that are measured in several products, each optimised with the others fixed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from dpcore.domain import Clique, Domain
from dpcore.measurement import Noise
from dpcore.strategies.marginals.attribute_algebra import AttributeAlgebra, Matrix
from dpcore.strategies.marginals.strategy import MarginalsStrategy
from dpcore.strategies.marginals.subset_sums import Vector, subset_index, subset_products, superset_sums
from dpcore.strategies.one_attribute.p_identity import p_identity_matrix

Search = Callable[[Mapping[str, AttributeAlgebra]], MarginalsStrategy]

_MAX_THETA: Final = 1e3  # As for ``p_identity``.
_STEPS: Final = 100
_ROUNDS: Final = 4
_MIN_GAIN: Final = 1e-4  # A round whose relative gain is smaller is the last one.


def shared_thetas(
    domain: Domain,
    clique_weights: Mapping[Clique, float],
    starts: Mapping[str, Matrix],
    workloads: Mapping[str, Matrix],
    others: Mapping[str, AttributeAlgebra],
    search: Search,
) -> dict[str, Matrix]:
    """Theta of p-Identity strategies at a local minimum of the error of the best products of them.

    domain: The domain of the workload.
    clique_weights: The cliques of the workload, with positive weights of the squared errors of their answers.
    starts: The Theta that each optimised attribute starts from, float64 [p, n], non-negative.
    workloads: W'W of these attributes' queries, float64 [n, n].
    others: Attributes that are not optimised, and not measured by their codes.
    search: Finds the products to measure, and their weights, for given strategies of all attributes.

    Searches for products and descents of each Theta alternate. The result is never worse than the starts.

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
    """The error of a whole strategy as a function of one attribute's alpha, t and s0, all else being fixed.

    error = slope t + sum_k (fixed_k + spread_k s0) / (apart_k + within_k alpha), with one k per subset of the other
    attributes.

    slope: The derivative of the error in t.
    fixed: float64 [k], energies of workload marginals without the attribute.
    spread: float64 [k], energies of workload marginals with it.
    apart: float64 [k], squared weights of measured marginals without the attribute.
    within: float64 [k], squared weights of measured marginals with it.
    """

    slope: float
    fixed: Vector
    spread: Vector
    apart: Vector
    within: Vector

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

        names, algebras: All attributes of the workload, with their strategies.
        clique_weights: Weights of the squared errors of each clique of the workload.
        measured: The weight of each measured product, of sensitivity 1.
        name: The attribute.
        """
        index, ones = names.index(name), np.ones(len(names))
        s0 = np.array([algebra.s0 for algebra in algebras])
        t = np.array([algebra.t for algebra in algebras])
        alpha = np.array([algebra.alpha for algebra in algebras])
        s0[index], t[index], alpha[index] = 0.0, 1.0, 0.0
        energies = superset_sums(_vector_over_subsets(names, clique_weights, 1), s0) * subset_products(t, ones)
        sums = superset_sums(_vector_over_subsets(names, measured, 2), alpha)
        fixed, spread = energies.reshape(1 << index, 2, -1).swapaxes(0, 1).reshape(2, -1)
        apart, within = sums.reshape(1 << index, 2, -1).swapaxes(0, 1).reshape(2, -1)
        read, kept = spread > 0, (fixed > 0) | (spread > 0)
        slope = float((spread[read] / within[read]).sum())
        return cls(slope, fixed[kept], spread[kept], apart[kept], within[kept])

    def error(self, alpha: float, t: float, s0: float) -> tuple[float, tuple[float, float, float]]:
        """The error, and its derivatives in alpha, t and s0.

        alpha, t, s0: As in ``AttributeAlgebra``, of the attribute.
        """
        sums, energies = self.apart + self.within * alpha, self.fixed + self.spread * s0
        error = self.slope * t + float((energies / sums).sum())
        by_alpha = -float((energies * self.within / sums**2).sum())
        return error, (by_alpha, self.slope, float((self.spread / sums).sum()))


def shared_p_identity(start: Matrix, workload: Matrix, partial_error: ErrorInAttribute) -> tuple[Matrix, float]:
    """The p-Identity strategy of one attribute at a local minimum of the error of the whole strategy.

    start: The Theta that the descent starts from, float64 [p, n], non-negative.
    workload: G = W'W, float64 [n, n].
    partial_error: The error of the whole strategy as a function of this attribute.

    A = [I; Theta] diag(1 + 1'Theta)^-1 has sensitivity 1. Products without the attribute also measure the total, so
    that the optimum has fewer queries of several codes, and more of single codes, than for the attribute alone.

    Returns Theta, float64 [p, n], and the error of the whole strategy.

    Source: McKenna (2022), Definition 15, by L-BFGS-B on the logarithm of another error: this project's.
    """
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

    With X = A'A: d alpha = u'dX u, dY = -Y dX Y and du = -Y dX u. So the error changes by tr(M dX), where M = e_alpha
    u u' - e_t Y G Y - e_s0 (Y G u u' + u u'G Y) and e are its derivatives in alpha, t and s0. X^-1 is diag(s)
    (I - Theta'R Theta) diag(s) with s = 1 + 1'Theta and R = (I + Theta Theta')^-1.
    """
    theta = flat.reshape(p, -1)
    n = theta.shape[1]
    s = 1 + theta.sum(axis=0)
    inverse = (np.eye(n) - theta.T @ np.linalg.solve(np.eye(p) + theta @ theta.T, theta)) * np.outer(s, s)
    sums = inverse.sum(axis=1)
    alpha = float(1 / sums.sum())
    u = alpha * sums
    y = inverse - np.outer(u, u) / alpha
    read = y @ workload
    error, (by_alpha, by_t, by_s0) = partial_error.error(alpha, float(np.trace(read)), float(u @ workload @ u))
    pull = np.outer(u, by_alpha * u - by_s0 * (read @ u)) - by_t * (read @ y)
    pull -= by_s0 * np.outer(read @ u, u)
    matrix = p_identity_matrix(theta)
    changes = 2 * matrix @ pull
    gradient = changes[n:] / s - (matrix * changes).sum(axis=0) / s
    return float(np.log(error)), np.asarray(gradient / error).ravel()


def _vector_over_subsets(names: Sequence[str], weights: Mapping[Clique, float], power: int) -> Vector:
    indices = {name: index for index, name in enumerate(names)}
    values = np.zeros(1 << len(names))
    for clique, weight in weights.items():
        values[subset_index([indices[name] for name in clique], len(names))] += weight**power
    return values
