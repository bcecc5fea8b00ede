"""OPT_x under Laplace noise: one product of p-Identity strategies for all terms of a union of Kronecker products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.queries import Product, Products, rounded_rows
from dpcore.strategies.one_attribute.p_identity import p_identity_matrix

Real = NDArray[np.float64]
Integers = NDArray[np.int64]

LARGEST_SIZE: Final = 1 << 10  # Largest number of values of an attribute; more would take minutes.
_VALUES_PER_ROW: Final = 8  # A Theta that starts from a Weyl sequence has one row per this many values.
_GOLDEN: Final = 0.6180339887498949  # The golden ratio minus 1, the step of the Weyl sequence.
_MAX_THETA: Final = 1e3  # The same bound as in ``p_identity``.
_WORKLOAD_STARTS: Final = (0.5, 1.0)  # Weights of the workload's rows, one start for each.
_WEYL_STARTS: Final = 3  # Number of starts from Weyl sequences.
_MAX_TOTAL_BITS: Final = 27  # Bits of all attributes together; answers and noise then stay far within 64 bits.
_MAX_BITS: Final = 14  # Bits of one attribute's entries.
_MIN_GAIN_PER_BIT: Final = 1e-7  # Smallest relative gain of the error per bit that is worth longer integers.


@final
@dataclass(frozen=True, eq=False)
class KroneckerStrategy:
    """One product strategy A_1 x ... x A_k for all terms of a workload.

    queries: Products of one term, over the attributes that the workload names.
    inverses: A_i^+ of each of these attributes, float64 [n_i, p_i], with denominators applied. Their Kronecker product
        maps the measured values to a table whose answers to the workload are the best linear unbiased ones.
    variance: The weighted sum of the variances of all answers if each measured value has noise of variance 1.
    sensitivity: The largest L1 norm of a column, which bounds the effect of adding or removing one record.
    """

    queries: Products
    inverses: tuple[Real, ...]
    variance: float
    sensitivity: float

    @property
    def error(self) -> float:
        """sensitivity^2 times ``variance``, the weighted squared error at unit noise."""
        return self.sensitivity**2 * self.variance

    def reconstruction(self, term: Product) -> tuple[Real, ...]:
        """W_i A_i^+, float64 [m_i, p_i], one matrix per attribute of ``queries``.

        term: The product W_1 x ... x W_k. The Kronecker product of the returned matrices maps the measured values to
            its answers, without the term's weight.
        """
        domain, (measured,) = self.queries.domain, self.queries.terms
        matrices = [_term_matrix(domain, term, name) for name in measured.clique]
        return tuple(matrix @ inverse for matrix, inverse in zip(matrices, self.inverses, strict=True))


def kronecker_strategy(queries: Products, weights: Real | None = None) -> KroneckerStrategy:
    """The best integer product strategy for a union of products, found from a few starts.

    queries: The workload.
    weights: float64 [terms], non-negative weights of the squared error of each term. By default all are 1.

    Minimises sum_j w_j prod_i tr(W_ij'W_ij (A_i'A_i)^-1) over the p-Identity strategies A_i of all attributes at once,
    by L-BFGS-B on its logarithm. Each Theta starts from a Weyl sequence, or from the distinct rows of the workload that
    read several values if there are fewer such rows than values. The same queries give the same strategy.

    Raises ValueError for attributes of more than LARGEST_SIZE values, for weights that are negative, not finite or all
    0, and for a workload that names no attribute.

    Source: thesis of McKenna (2022), Definitions 14, 19 and 20, here with all attributes at once.
    """
    weights = np.ones(len(queries.terms)) if weights is None else np.asarray(weights, dtype=np.float64)
    valid = weights.shape == (len(queries.terms),) and (np.isfinite(weights) & (weights >= 0)).all()
    if not valid or not weights.any():
        raise ValueError(f"weights of shape {weights.shape}; want one per term, finite and >= 0, not all of them 0")
    weighted = weights * np.array([float(term.weight) ** 2 for term in queries.terms])
    named = queries.domain.canonical({name for term in queries.terms for name in term.clique})
    if not named:
        raise ValueError("a workload of totals alone; want a query about an attribute")
    if max(queries.domain.shape(named)) > LARGEST_SIZE:
        raise ValueError(f"an attribute of more than {LARGEST_SIZE:,} values; want wider bins")
    axes = [_Axis.of(queries, name) for name in named]
    optima = [_local_minimum(axes, weighted, start) for start in _starts(axes)]
    best = min(optima, key=lambda optimum: optimum[1])[0]
    return _rounded_product(queries.domain, named, axes, weighted, [p_identity_matrix(theta) for theta in best])


@dataclass(frozen=True, eq=False)
class _Axis:
    """The workload's queries about one attribute.

    grams: float64 [distinct, n, n], the distinct Gram matrices of the terms' queries.
    gram_of_term: intp [terms], the index of each term's Gram matrix.
    rows: float64 [rows, n], the distinct queries that read several values, each scaled to a largest entry of 1.
    """

    grams: Real
    gram_of_term: NDArray[np.intp]
    rows: Real

    @classmethod
    def of(cls, queries: Products, name: str) -> _Axis:
        """The workload's queries about the attribute ``name``."""
        indices: dict[bytes, int] = {}
        grams: list[Real] = []
        gram_of_term, matrices = [], []
        for term in queries.terms:
            matrix = _term_matrix(queries.domain, term, name)
            gram = matrix.T @ matrix
            index = indices.setdefault(gram.tobytes(), len(grams))
            if index == len(grams):
                grams.append(gram.astype(np.float64))
                matrices.append(matrix)
            gram_of_term.append(index)
        rows = np.unique(np.vstack(matrices), axis=0)
        several = rows[np.count_nonzero(rows, axis=1) > 1].astype(np.float64)
        return cls(np.stack(grams), np.array(gram_of_term), several / np.abs(several).max(axis=1, initial=1)[:, None])

    @property
    def size(self) -> int:
        """The number of values of the attribute."""
        return len(self.grams[0])

    def errors(self, inverse: Real) -> Real:
        """tr(G_j X^-1) for each term, float64 [terms].

        inverse: X^-1, float64 [n, n], with X the Gram matrix of the attribute's strategy.
        """
        return np.asarray(np.einsum("tij,ij->t", self.grams, inverse)[self.gram_of_term])


def _term_matrix(domain: Domain, term: Product, name: str) -> Integers:
    """A term's query matrix for one attribute; a row of ones if the term does not name the attribute."""
    if name in term.clique:
        return term.matrices[term.clique.index(name)]
    return np.ones((1, domain.size((name,))), dtype=np.int64)


def _starts(axes: Sequence[_Axis]) -> list[list[Real]]:
    """Starting values of Theta, one list per start and one array per attribute.

    The starts are fixed, because a plan and its run must find the same strategy.
    """
    from_workload = [[_workload_start(axis, weight) for axis in axes] for weight in _WORKLOAD_STARTS]
    return from_workload + [[_weyl(axis, start) for axis in axes] for start in range(1, _WEYL_STARTS + 1)]


def _workload_start(axis: _Axis, weight: float) -> Real:
    """A start made of the workload's rows if there are fewer of them than values, and a Weyl sequence otherwise."""
    return np.asarray(weight * axis.rows) if 0 < len(axis.rows) < axis.size else _weyl(axis, 0)


def _weyl(axis: _Axis, start: int) -> Real:
    """A start with quasi-random entries in [0, 1); ``start`` selects the sequence."""
    p = max(1, axis.size // _VALUES_PER_ROW)
    positions = np.arange(1, p * axis.size + 1) * (1 + 0.1 * start)
    return np.asarray(np.modf(positions * _GOLDEN)[0].reshape(p, axis.size))


def _local_minimum(axes: Sequence[_Axis], weights: Real, start: list[Real]) -> tuple[list[Real], float]:
    """Theta of each attribute at a local minimum of the error, and the logarithm of that error."""
    from scipy.optimize import minimize  # Only where it is called: most plans need none.

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
    """log sum_j w_j prod_i e_ij and its gradient, with e_ij = s'(G_ij o K)s as in ``p_identity``.

    The gradient for one attribute treats the other attributes as weights of its Gram matrices: with
    V = sum_j w_j (prod over other i of e_ij) G_ij it is -2 R Theta C K + 1 (x) 2 (V o K) s. Here s = 1 + 1'Theta,
    K = (I + Theta'Theta)^-1, R = (I + Theta Theta')^-1 and C = diag(s) V diag(s).
    """
    states, errors = [], []
    for axis, theta in zip(axes, _split(flat, shapes), strict=True):
        s = 1 + theta.sum(axis=0)
        r_theta = np.linalg.solve(np.eye(len(theta)) + theta @ theta.T, theta)
        k = np.eye(axis.size) - theta.T @ r_theta
        states.append((s, r_theta, k))
        errors.append(axis.errors(s[:, None] * k * s))
    products = weights * np.prod(errors, axis=0)
    total = float(products.sum())
    gradients = []
    for axis, axis_errors, (s, r_theta, k) in zip(axes, errors, states, strict=True):
        other_errors = np.divide(products, axis_errors, out=np.zeros(len(axis_errors)), where=axis_errors > 0)
        gram_weights = np.bincount(axis.gram_of_term, weights=other_errors, minlength=len(axis.grams))
        workload = np.tensordot(gram_weights, axis.grams, axes=1)
        r_theta_c = (r_theta * s) @ workload * s
        gradients.append((-2 * r_theta_c @ k + 2 * ((workload * k) @ s)).ravel())
    return math.log(total), np.concatenate(gradients) / total


def _split(flat: Real, shapes: Sequence[tuple[int, ...]]) -> list[Real]:
    stops = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    return [part.reshape(shape) for part, shape in zip(np.split(flat, stops), shapes, strict=True)]


@dataclass(frozen=True, eq=False)
class _RoundedStrategy:
    """A strategy of one attribute, rounded to the multiples of 1 / denominator.

    matrix: int64 [p, n], the entries times the denominator.
    denominator: The common denominator of the entries.
    errors: float64 [terms], tr(G_j X^-1) of each term, scaled to sensitivity 1.
    """

    matrix: Integers
    denominator: int
    errors: Real

    @property
    def bits(self) -> float:
        """The logarithm of the denominator to base 2."""
        return math.log2(self.denominator)

    @classmethod
    def of(cls, axis: _Axis, matrix: Real, bits: int) -> _RoundedStrategy | None:
        """The rounded matrix, or None if the rounded queries no longer determine every value."""
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


def _rounded_product(
    domain: Domain, named: tuple[str, ...], axes: Sequence[_Axis], weights: Real, matrices: Sequence[Real]
) -> KroneckerStrategy:
    """The product of rounded strategies.

    The attributes share a budget of bits. Each starts with the identity; the replacement with the largest gain per bit
    comes first.
    """
    options = []
    for axis, matrix in zip(axes, matrices, strict=True):
        identity = _RoundedStrategy.of(axis, np.eye(axis.size), 0)
        candidates = [identity, *(_RoundedStrategy.of(axis, matrix, bits) for bits in range(_MAX_BITS + 1))]
        options.append([candidate for candidate in candidates if candidate is not None])
    chosen = [candidates[0] for candidates in options]
    while (refined := _refined(options, chosen, weights)) is not None:
        chosen = refined
    real = [rounded.matrix / rounded.denominator for rounded in chosen]
    sensitivity = math.prod(float(np.abs(matrix).sum(axis=0).max()) for matrix in real)
    measured = Product(named, tuple(rounded.matrix for rounded in chosen))
    queries = Products(domain, (measured,), math.prod(rounded.denominator for rounded in chosen))
    inverses = tuple(np.asarray(np.linalg.pinv(matrix), dtype=np.float64) for matrix in real)
    return KroneckerStrategy(queries, inverses, _error(chosen, weights) / sensitivity**2, sensitivity)


def _refined(
    options: Sequence[Sequence[_RoundedStrategy]], chosen: list[_RoundedStrategy], weights: Real
) -> list[_RoundedStrategy] | None:
    """The choice with one attribute's strategy replaced by the option that lowers the error most per bit.

    None if no replacement helps or fits into the bits.
    """
    log_error, used_bits = math.log(_error(chosen, weights)), sum(rounded.bits for rounded in chosen)
    best, best_gain = None, 0.0
    for axis, candidates in enumerate(options):
        for candidate in candidates:
            changed = [*chosen[:axis], candidate, *chosen[axis + 1 :]]
            more_bits = candidate.bits - chosen[axis].bits
            gain = (log_error - math.log(_error(changed, weights))) / max(more_bits, 1e-3)
            if used_bits + more_bits <= _MAX_TOTAL_BITS and gain > max(best_gain, _MIN_GAIN_PER_BIT):
                best, best_gain = changed, gain
    return best


def _error(chosen: Sequence[_RoundedStrategy], weights: Real) -> float:
    """The weighted squared error of all terms at unit noise and sensitivity 1."""
    return float(weights @ np.prod([rounded.errors for rounded in chosen], axis=0))
