"""OPT_x under Laplace noise: one product of p-Identity strategies for all terms of a union of Kronecker products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from dpcore.domain import Domain
from dpcore.queries import Product, Products, rounded_rows
from dpcore.strategies.one_attribute.p_identity import p_identity_matrix

Real = NDArray[np.float64]
Integers = NDArray[np.int64]

LARGEST_SIZE: Final = 1 << 10  # Values of an attribute: more would take minutes.
_VALUES_PER_ROW: Final = 8  # Of a Theta that starts from a Weyl sequence.
_GOLDEN: Final = 0.6180339887498949
_MAX_THETA: Final = 1e3  # As in ``p_identity``.
_WORKLOAD_STARTS: Final = (0.5, 1.0)  # Weights of the workload's rows in the starts that are made of them.
_WEYL_STARTS: Final = 3
_MAX_TOTAL_BITS: Final = 27  # Bits of all attributes together: answers and noise then stay far within 64 bits.
_MAX_BITS: Final = 14  # Bits of one attribute's entries.
_MIN_GAIN_PER_BIT: Final = 1e-7  # Relative gain of the error per bit: less is not worth longer integers.


@final
@dataclass(frozen=True, eq=False)
class KroneckerStrategy:
    """One product A_1 x ... x A_k for all terms of a workload.

    queries: Products of one term, over the attributes that the workload names.
    inverses: float64 [n_i, p_i], A_i^+ of each of these attributes, denominators included. Their Kronecker product
        takes the measured values to a table whose answers to the workload are unbiased and of least variance.
    variance: The weighted sum of the variances of all answers where each measured value has noise of variance 1.
    sensitivity: The largest L1 norm of a column: adding or removing one record moves the values by at most this.
    """

    queries: Products
    inverses: tuple[Real, ...]
    variance: float
    sensitivity: float

    @property
    def error(self) -> float:
        """sensitivity^2 times ``variance``: the squared error at unit noise."""
        return self.sensitivity**2 * self.variance

    def reconstruction(self, term: Product) -> tuple[Real, ...]:
        """W_i A_i^+, float64 [m_i, p_i], one matrix per attribute of ``queries``.

        term: The product W_1 x ... x W_k. The Kronecker product of the matrices takes the measured values to its
            answers, without the term's weight.
        """
        domain, (measured,) = self.queries.domain, self.queries.terms
        matrices = [_term_matrix(domain, term, name) for name in measured.clique]
        return tuple(matrix @ inverse for matrix, inverse in zip(matrices, self.inverses, strict=True))


def kronecker_strategy(queries: Products, weights: Real | None = None) -> KroneckerStrategy:
    """The best integer product strategy found from a few starts for a union of products.

    queries: The workload.
    weights: float64 [terms], non-negative weights of the squared error of each term; None weighs all terms by 1.

    Minimises sum_j w_j prod_i tr(W_ij'W_ij (A_i'A_i)^-1) over p-Identity strategies A_i, all of them at once, by
    L-BFGS-B on its logarithm. Each Theta starts from the distinct rows of the workload that read several values, where
    there are fewer of them than values, or from a Weyl sequence. The same queries give the same strategy.

    Raises ValueError for attributes of more than LARGEST_SIZE values, for weights that are negative, not finite or all
    0, and for a workload that names no attribute.

    Source: thesis of McKenna (2022), Definitions 14, 19 and 20, here with all attributes at once.
    """
    given = np.ones(len(queries.terms)) if weights is None else np.asarray(weights, dtype=np.float64)
    if given.shape != (len(queries.terms),) or not (np.isfinite(given) & (given >= 0)).all() or not given.any():
        raise ValueError(f"weights of shape {given.shape}; want one per term, finite and >= 0, not all of them 0")
    weighted = given * np.array([float(term.weight) ** 2 for term in queries.terms])
    named = queries.domain.canonical({name for term in queries.terms for name in term.clique})
    if not named:
        raise ValueError("a workload of totals alone; want a query about an attribute")
    if max(queries.domain.shape(named)) > LARGEST_SIZE:
        raise ValueError(f"an attribute of more than {LARGEST_SIZE:,} values; want wider bins")
    axes = [_Axis.of(queries, name) for name in named]
    optima = [_descended(axes, weighted, start) for start in _starts(axes)]
    best = min(optima, key=lambda optimum: optimum[1])[0]
    return _rounded(queries.domain, named, axes, weighted, [p_identity_matrix(theta) for theta in best])


@dataclass(frozen=True, eq=False)
class _Axis:
    """The workload's queries about one attribute.

    grams: float64 [distinct, n, n], the distinct Gram matrices of the terms' queries.
    of_term: intp [terms], the index of each term's Gram matrix.
    rows: float64 [rows, n], the distinct queries that read several values, scaled to a largest entry of 1.
    """

    grams: Real
    of_term: NDArray[np.intp]
    rows: Real

    @classmethod
    def of(cls, queries: Products, name: str) -> _Axis:
        """The workload's queries about the attribute ``name``."""
        indices: dict[bytes, int] = {}
        grams: list[Real] = []
        of_term, matrices = [], []
        for term in queries.terms:
            matrix = _term_matrix(queries.domain, term, name)
            gram = matrix.T @ matrix
            index = indices.setdefault(gram.tobytes(), len(grams))
            if index == len(grams):
                grams.append(gram.astype(np.float64))
                matrices.append(matrix)
            of_term.append(index)
        rows = np.unique(np.vstack(matrices), axis=0)
        several = rows[np.count_nonzero(rows, axis=1) > 1].astype(np.float64)
        return cls(np.stack(grams), np.array(of_term), several / np.abs(several).max(axis=1, initial=1)[:, None])

    @property
    def size(self) -> int:
        """The number of values of the attribute."""
        return len(self.grams[0])

    def errors(self, inverse: Real) -> Real:
        """tr(G_j X^-1) for each term, float64 [terms].

        inverse: X^-1, float64 [n, n], with X the Gram matrix of the attribute's strategy.
        """
        return np.asarray(np.einsum("tij,ij->t", self.grams, inverse)[self.of_term])


def _term_matrix(domain: Domain, term: Product, name: str) -> Integers:
    """A term's query matrix for one attribute: the sum over all values where the term does not name the attribute."""
    if name in term.clique:
        return term.matrices[term.clique.index(name)]
    return np.ones((1, domain.size((name,))), dtype=np.int64)


def _starts(axes: Sequence[_Axis]) -> list[list[Real]]:
    """Starting values of Theta, one list per start and one array per attribute.

    They are the same on every run, because a plan and its run must find the same strategy.
    """
    from_workload = [[_workload_start(axis, weight) for axis in axes] for weight in _WORKLOAD_STARTS]
    return from_workload + [[_weyl(axis, start) for axis in axes] for start in range(1, _WEYL_STARTS + 1)]


def _workload_start(axis: _Axis, weight: float) -> Real:
    return np.asarray(weight * axis.rows) if 0 < len(axis.rows) < axis.size else _weyl(axis, 0)


def _weyl(axis: _Axis, start: int) -> Real:
    p = max(1, axis.size // _VALUES_PER_ROW)
    positions = np.arange(1, p * axis.size + 1) * (1 + 0.1 * start)
    return np.asarray(np.modf(positions * _GOLDEN)[0].reshape(p, axis.size))


def _descended(axes: Sequence[_Axis], weights: Real, start: list[Real]) -> tuple[list[Real], float]:
    """Theta of each attribute at a local minimum of the error, and the logarithm of that error."""
    shapes = [theta.shape for theta in start]
    flat = np.concatenate([np.abs(theta).ravel() for theta in start])
    optimum = minimize(
        _log_error, flat, args=(axes, weights, shapes), jac=True, method="L-BFGS-B",
        bounds=[(0, _MAX_THETA)] * len(flat), options={"maxcor": 20, "maxiter": 1000, "ftol": 1e-9},
    )  # fmt: skip
    return _split(optimum.x, shapes), float(optimum.fun)


def _log_error(
    flat: Real, axes: Sequence[_Axis], weights: Real, shapes: Sequence[tuple[int, ...]]
) -> tuple[float, Real]:
    """log sum_j w_j prod_i e_ij, with e_ij = s'(G_ij o K)s as in ``p_identity``, and its gradient.

    For one attribute the others are weights of its Grams: V = sum_j w_j prod_{others} e_ij G_ij, and the gradient is
    -2 R Theta C K + 1 (x) 2 (V o K) s with s = 1 + 1'Theta, K = (I + Theta'Theta)^-1, R = (I + Theta Theta')^-1 and
    C = diag(s) V diag(s).
    """
    states, errors = [], []
    for axis, theta in zip(axes, _split(flat, shapes), strict=True):
        s = 1 + theta.sum(axis=0)
        small = np.linalg.solve(np.eye(len(theta)) + theta @ theta.T, theta)
        within = np.eye(axis.size) - theta.T @ small
        states.append((s, small, within))
        errors.append(axis.errors(s[:, None] * within * s))
    products = weights * np.prod(errors, axis=0)
    total = float(products.sum())
    gradients = []
    for axis, axis_errors, (s, small, within) in zip(axes, errors, states, strict=True):
        other_errors = np.divide(products, axis_errors, out=np.zeros(len(axis_errors)), where=axis_errors > 0)
        gram_weights = np.bincount(axis.of_term, weights=other_errors, minlength=len(axis.grams))
        workload = np.tensordot(gram_weights, axis.grams, axes=1)
        through = (small * s) @ workload * s
        gradients.append((-2 * through @ within + 2 * ((workload * within) @ s)).ravel())
    return math.log(total), np.concatenate(gradients) / total


def _split(flat: Real, shapes: Sequence[tuple[int, ...]]) -> list[Real]:
    stops = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    return [part.reshape(shape) for part, shape in zip(np.split(flat, stops), shapes, strict=True)]


@dataclass(frozen=True, eq=False)
class _Grid:
    """A strategy of one attribute, rounded to a grid.

    matrix: int64 [p, n], its entries in steps of the grid.
    denominator: Steps of the grid per unit.
    errors: float64 [terms], tr(G_j X^-1) of each term at sensitivity 1.
    """

    matrix: Integers
    denominator: int
    errors: Real

    @property
    def bits(self) -> float:
        """The bits of the denominator."""
        return math.log2(self.denominator)

    @classmethod
    def of(cls, axis: _Axis, matrix: Real, bits: int) -> _Grid | None:
        """The rounded matrix; None where rounding leaves some value without a query that determines it."""
        rounded, denominator = rounded_rows(matrix / np.abs(matrix).max(), bits)
        rounded = rounded[rounded.any(axis=1)]
        if len(rounded) < axis.size:
            return None
        common = math.gcd(denominator, int(np.gcd.reduce(rounded, axis=None)))
        rounded, denominator = rounded // common, denominator // common
        real = rounded / denominator
        gram = real.T @ real
        if np.linalg.cond(gram) > 1e12:
            return None
        errors = axis.errors(np.asarray(np.linalg.inv(gram), dtype=np.float64))
        return cls(rounded, denominator, errors * float(np.abs(real).sum(axis=0).max()) ** 2)


def _rounded(
    domain: Domain, named: tuple[str, ...], axes: Sequence[_Axis], weights: Real, matrices: Sequence[Real]
) -> KroneckerStrategy:
    """The product of rounded strategies.

    All attributes share the bits. Each starts with its codes, and bits go one by one where they lower the error most.
    """
    grids = []
    for axis, matrix in zip(axes, matrices, strict=True):
        codes = _Grid.of(axis, np.eye(axis.size), 0)
        candidates = [codes, *(_Grid.of(axis, matrix, bits) for bits in range(_MAX_BITS + 1))]
        grids.append([grid for grid in candidates if grid is not None])
    chosen = [candidates[0] for candidates in grids]
    while (refined := _refined(grids, chosen, weights)) is not None:
        chosen = refined
    real = [grid.matrix / grid.denominator for grid in chosen]
    sensitivity = math.prod(float(np.abs(matrix).sum(axis=0).max()) for matrix in real)
    measured = Product(named, tuple(grid.matrix for grid in chosen))
    queries = Products(domain, (measured,), math.prod(grid.denominator for grid in chosen))
    inverses = tuple(np.asarray(np.linalg.pinv(matrix), dtype=np.float64) for matrix in real)
    return KroneckerStrategy(queries, inverses, _error(chosen, weights) / sensitivity**2, sensitivity)


def _refined(grids: Sequence[Sequence[_Grid]], chosen: list[_Grid], weights: Real) -> list[_Grid] | None:
    """The choice with one attribute on another grid, the one that lowers the error most per bit.

    None where no change helps, or none has room in the bits.
    """
    log_error, used_bits = math.log(_error(chosen, weights)), sum(grid.bits for grid in chosen)
    best, best_gain = None, 0.0
    for axis, candidates in enumerate(grids):
        for grid in candidates:
            changed = [*chosen[:axis], grid, *chosen[axis + 1 :]]
            more_bits = grid.bits - chosen[axis].bits
            gain = (log_error - math.log(_error(changed, weights))) / max(more_bits, 1e-3)
            if used_bits + more_bits <= _MAX_TOTAL_BITS and gain > max(best_gain, _MIN_GAIN_PER_BIT):
                best, best_gain = changed, gain
    return best


def _error(grids: Sequence[_Grid], weights: Real) -> float:
    """The weighted squared error of all terms at unit noise and sensitivity 1."""
    return float(weights @ np.prod([grid.errors for grid in grids], axis=0))
