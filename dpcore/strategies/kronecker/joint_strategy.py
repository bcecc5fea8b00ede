"""OPT_x for unions of Kronecker products under Laplace noise: one product of p-Identity strategies for all terms."""

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

Real = NDArray[np.float64]
Integers = NDArray[np.int64]

LARGEST_SIZE: Final = 1 << 10  # Values of an attribute: more would take minutes.
_VALUES_A_ROW: Final = 8  # Of Theta, where it starts from nothing that is asked.
_GOLDEN: Final = 0.6180339887498949
_LARGEST: Final = 1e3  # Of Theta, as in ``p_identity``.
_ASKED: Final = (0.5, 1.0)  # Starts that weigh the rows of the workload so.
_FREE: Final = 3  # Starts from Weyl sequences.
_BITS: Final = 27  # Of all attributes together, so that answers and noise stay far within 64 bits.
_MOST_BITS: Final = 14
_WORTH: Final = 1e-7  # Of the error, a bit: less is not worth longer integers.


@final
@dataclass(frozen=True, eq=False)
class KroneckerStrategy:
    """One product A_1 x ... x A_k for all terms of a workload.

    queries: Products of one term, over the attributes that the workload names.
    inverses: float64 [n_i, p_i], A_i^+ of each of these attributes, with their denominator: their Kronecker product
        takes the measured values to a table whose answers to the workload are unbiased, of least variance.
    variance: Weighted sum of the variances of all answers where each measured value has noise of variance 1.
    sensitivity: The largest L1 norm of a column: how far one record that is added or removed moves the values.
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
        """W_i A_i^+, float64 [m_i, p_i] an attribute of ``queries``.

        Their Kronecker product takes the measured values to answers of W_1 x ... x W_k, without the term's weight.
        """
        domain, (measured,) = self.queries.domain, self.queries.terms
        asked = [_asked(domain, term, name) for name in measured.clique]
        return tuple(each @ inverse for each, inverse in zip(asked, self.inverses, strict=True))


def kronecker_strategy(queries: Products, weights: Real | None = None) -> KroneckerStrategy:
    """The best integer product of a few starts for a union of products.

    weights: float64 [terms], non-negative: of the squared error of each term; 1 where None.

    Minimises sum_j w_j prod_i tr(W_ij'W_ij (A_i'A_i)^-1) over p-Identity strategies A_i, all of them at once, by
    L-BFGS-B on its logarithm. Starts have the distinct rows of the workload that read several values for Theta, where
    they are fewer than values, or Weyl sequences. The same queries give the same strategy.

    Source: thesis of McKenna (2022), Definitions 14, 19 and 20, here with all attributes at once.

    Raises ValueError for attributes of more than LARGEST_SIZE values, for weights that are no such numbers or all 0,
    and for a workload that names no attribute.
    """
    given = np.ones(len(queries.terms)) if weights is None else np.asarray(weights, dtype=np.float64)
    if given.shape != (len(queries.terms),) or not (np.isfinite(given) & (given >= 0)).all() or not given.any():
        raise ValueError(f"weights of shape {given.shape}; want one a term, finite and >= 0, not all of them 0")
    weighted = given * np.array([float(term.weight) ** 2 for term in queries.terms])
    named = queries.domain.canonical({name for term in queries.terms for name in term.clique})
    if not named:
        raise ValueError("a workload of totals alone; want a query about an attribute")
    if max(queries.domain.shape(named)) > LARGEST_SIZE:
        raise ValueError(f"an attribute of more than {LARGEST_SIZE:,} values; want wider bins")
    axes = [_Axis.of(queries, name) for name in named]
    found = [_descended(axes, weighted, start) for start in _starts(axes)]
    best = min(found, key=lambda one: one[1])[0]
    return _rounded(queries.domain, named, axes, weighted, [_p_identity(theta) for theta in best])


@dataclass(frozen=True, eq=False)
class _Axis:
    """One attribute. grams: float64 [distinct, n, n] of the terms' queries. of_term: intp [terms], which is whose.

    rows: float64 [rows, n], the distinct ones that read several values.
    """

    grams: Real
    of_term: NDArray[np.intp]
    rows: Real

    @classmethod
    def of(cls, queries: Products, name: str) -> _Axis:
        places: dict[bytes, int] = {}
        grams: list[Real] = []
        of_term, asked = [], []
        for term in queries.terms:
            matrix = _asked(queries.domain, term, name)
            gram = matrix.T @ matrix
            place = places.setdefault(gram.tobytes(), len(grams))
            if place == len(grams):
                grams.append(gram.astype(np.float64))
                asked.append(matrix)
            of_term.append(place)
        rows = np.unique(np.vstack(asked), axis=0)
        several = rows[np.count_nonzero(rows, axis=1) > 1].astype(np.float64)
        return cls(np.stack(grams), np.array(of_term), several / np.abs(several).max(axis=1, initial=1)[:, None])

    @property
    def size(self) -> int:
        return len(self.grams[0])

    def errors(self, inverse: Real) -> Real:
        """tr(G_j X^-1) of each term, float64 [terms]. inverse: X^-1, float64 [n, n]."""
        return np.asarray(np.einsum("tij,ij->t", self.grams, inverse)[self.of_term])


def _asked(domain: Domain, term: Product, name: str) -> Integers:
    """What a term asks of one attribute: the sum over it where it does not name it."""
    if name in term.clique:
        return term.matrices[term.clique.index(name)]
    return np.ones((1, domain.size((name,))), dtype=np.int64)


def _starts(axes: Sequence[_Axis]) -> list[list[Real]]:
    """Theta of each attribute to begin with: the same on every run, as a plan and a run ask for the same strategy."""
    asked = [[_of_rows(axis, weight) for axis in axes] for weight in _ASKED]
    return asked + [[_weyl(axis, start) for axis in axes] for start in range(1, _FREE + 1)]


def _of_rows(axis: _Axis, weight: float) -> Real:
    return np.asarray(weight * axis.rows) if 0 < len(axis.rows) < axis.size else _weyl(axis, 0)


def _weyl(axis: _Axis, start: int) -> Real:
    p = max(1, axis.size // _VALUES_A_ROW)
    places = np.arange(1, p * axis.size + 1) * (1 + 0.1 * start)
    return np.asarray(np.modf(places * _GOLDEN)[0].reshape(p, axis.size))


def _p_identity(theta: Real) -> Real:
    return np.asarray(np.vstack([np.eye(theta.shape[1]), theta]) / (1 + theta.sum(axis=0)))


def _descended(axes: Sequence[_Axis], weights: Real, start: list[Real]) -> tuple[list[Real], float]:
    """Theta of each attribute where the error is locally least, and its logarithm."""
    shapes = [theta.shape for theta in start]
    flat = np.concatenate([np.abs(theta).ravel() for theta in start])
    found = minimize(
        _log_error, flat, args=(axes, weights, shapes), jac=True, method="L-BFGS-B", bounds=[(0, _LARGEST)] * len(flat),
        options={"maxcor": 20, "maxiter": 1000, "ftol": 1e-9},
    )  # fmt: skip
    return _split(found.x, shapes), float(found.fun)


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
    for axis, own, (s, small, within) in zip(axes, errors, states, strict=True):
        left = np.divide(products, own, out=np.zeros(len(own)), where=own > 0)
        others = np.bincount(axis.of_term, weights=left, minlength=len(axis.grams))
        workload = np.tensordot(others, axis.grams, axes=1)
        through = (small * s) @ workload * s
        gradients.append((-2 * through @ within + 2 * ((workload * within) @ s)).ravel())
    return math.log(total), np.concatenate(gradients) / total


def _split(flat: Real, shapes: Sequence[tuple[int, ...]]) -> list[Real]:
    stops = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    return [each.reshape(shape) for each, shape in zip(np.split(flat, stops), shapes, strict=True)]


@dataclass(frozen=True, eq=False)
class _Grid:
    """A strategy of one attribute on a grid. errors: float64 [terms], at sensitivity 1."""

    matrix: Integers
    denominator: int
    errors: Real

    @property
    def bits(self) -> float:
        return math.log2(self.denominator)

    @classmethod
    def of(cls, axis: _Axis, matrix: Real, bits: int) -> _Grid | None:
        """None where rounding takes some value out of reach."""
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
    """The product on the grid, from codes alone on: bits, which all attributes share, go where they help most."""
    grids = []
    for axis, matrix in zip(axes, matrices, strict=True):
        codes = _Grid.of(axis, np.eye(axis.size), 0)
        made = [codes, *(_Grid.of(axis, matrix, bits) for bits in range(_MOST_BITS + 1))]
        grids.append([one for one in made if one is not None])
    kept = [each[0] for each in grids]
    while (finer := _finer(grids, kept, weights)) is not None:
        kept = finer
    real = [one.matrix / one.denominator for one in kept]
    sensitivity = math.prod(float(np.abs(each).sum(axis=0).max()) for each in real)
    measured = Product(named, tuple(one.matrix for one in kept))
    queries = Products(domain, (measured,), math.prod(one.denominator for one in kept))
    inverses = tuple(np.asarray(np.linalg.pinv(each), dtype=np.float64) for each in real)
    return KroneckerStrategy(queries, inverses, _error(kept, weights) / sensitivity**2, sensitivity)


def _finer(grids: Sequence[Sequence[_Grid]], kept: list[_Grid], weights: Real) -> list[_Grid] | None:
    """With one attribute on a finer grid, that which lowers the error most a bit; None where none helps or has room."""
    now, used = math.log(_error(kept, weights)), sum(one.bits for one in kept)
    best, most = None, 0.0
    for place, each in enumerate(grids):
        for one in each:
            ahead = [*kept[:place], one, *kept[place + 1 :]]
            more = one.bits - kept[place].bits
            gain = (now - math.log(_error(ahead, weights))) / max(more, 1e-3)
            if used + more <= _BITS and gain > max(most, _WORTH):
                best, most = ahead, gain
    return best


def _error(grids: Sequence[_Grid], weights: Real) -> float:
    return float(weights @ np.prod([one.errors for one in grids], axis=0))
