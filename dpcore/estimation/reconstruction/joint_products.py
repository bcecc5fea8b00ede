"""Answers from overlapping measured products, by least squares from all of them together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.least_squares import kronecker_times, unit_quantile
from dpcore.frozen import frozen_bytes
from dpcore.measurement import Measurement
from dpcore.queries import Marginals, Products
from dpcore.queries.decomposition import Decomposition
from dpcore.uncertainty import Answers

Matrix = NDArray[np.float64]
Factors = Sequence[NDArray[np.int64] | None]
_MIN_VARIANCE: Final = 1e-18  # Smaller variances are treated as this, so that precisions are finite.
_ROUNDING: Final = 1e-11  # Numbers below this relative size count as 0.
_TOLERANCE: Final = 1e-6  # A part of a query outside the measured span below this relative size is rounding.


@final
class JointProducts:
    """The best linear unbiased answers from products that measure each attribute through the same matrix A_i.

    Let u_i, alpha_i and Y_i be the ``Decomposition`` of A_i'A_i, and p_b the precision of the measured term of b. A
    generalised inverse of the Gram matrix of all measurements is the sum over subsets a of
    (x)_{i in a} Y_i (x)_{other i} u_i u_i' / lam_a, with lam_a = sum over b >= a of p_b prod_{i in b - a} alpha_i. The
    values of each term b are therefore projected to every a <= b, and the projections of all terms to a are added up.
    The marginal of c is the sum of these tables over a <= c, each spread by u_i over the attributes of c - a. No table
    has more attributes than one measured clique or one clique of the queries.

    Source: this project; for marginals of codes thesis of McKenna (2022), section 3.9, case 2.
    """

    def __init__(self, measurements: Sequence[Measurement]) -> None:
        """
        measurements: Products over one domain, with any number of terms and with noise of any law and scale. All terms
            that name an attribute have the same matrix for it, up to a factor.

        Raises ValueError if there are no measurements, and for other queries, domains or matrices that differ.
        """
        stacks = [measurement.queries for measurement in measurements if isinstance(measurement.queries, Products)]
        if not stacks or len(stacks) < len(measurements) or any(stack.domain != stacks[0].domain for stack in stacks):
            raise ValueError(f"{len(measurements)} measurements; want one or more, of products over one domain")
        self.domain: Domain = stacks[0].domain
        self._width = max(unit_quantile(measurement.noise) for measurement in measurements)
        self._axes: dict[str, _Axis] = {}
        self._terms: list[_Term] = []
        for stack, measurement in zip(stacks, measurements, strict=True):
            starts = np.cumsum([term.size for term in stack.terms])[:-1]
            for term, values in zip(stack.terms, np.split(measurement.values, starts), strict=True):
                scale = term.weight / stack.denominator
                for name, matrix in zip(term.clique, term.matrices, strict=True):
                    scale *= self._add_axis(name, matrix)
                precision = scale**2 / max(measurement.stddev**2, _MIN_VARIANCE)
                self._terms.append(_Term(term.clique, values, scale, precision, 1 / (stack.denominator * scale)))
        self._information_of_part: dict[Clique, tuple[float, float]] = {}
        self._norms: dict[tuple[str, tuple[int, ...] | None, bytes], _QueryNorms] = {}

    def answers(self, queries: Marginals | Products) -> Answers:
        """The answers of marginals, or of products on marginals, with intervals, in the order of the queries.

        The standard deviations follow exactly from those of the measurements. An interval is that of a variable with
        the answer's standard deviation and, among the measurements' laws, the law with the widest interval. It is
        widened on each side by the largest change of the answer if one value of each measured term moves by one step
        of the noise's grid.

        Raises ValueError for queries over another domain, and for an answer that the measured values do not determine.
        """
        terms = self._terms_of(queries)
        variances_and_steps = [self._variances(clique, factors) for clique, factors, _ in terms]
        tables = self._tables({part for clique, _, _ in terms for part in self._parts(clique)})
        values = [scale * self._answer(clique, factors, tables) for clique, factors, scale in terms]
        scales = [scale for _, _, scale in terms]
        stddev = [c * np.sqrt(variances.ravel()) for c, (variances, _) in zip(scales, variances_and_steps, strict=True)]
        grid_changes = [
            np.full(len(term_values), c * step)
            for term_values, c, (_, step) in zip(values, scales, variances_and_steps, strict=True)
        ]
        estimate, deviation = np.concatenate(values), np.concatenate(stddev)
        widths = self._width * deviation + np.concatenate(grid_changes)
        return Answers(estimate, deviation, estimate - widths, estimate + widths, measured=True)

    def stddev(self, queries: Marginals | Products) -> NDArray[np.float64]:
        """The standard deviation of each answer, which does not depend on the measured values: float64 [queries.size].

        Raises ValueError as ``answers`` does.
        """
        pairs = [(scale, self._variances(clique, factors)[0]) for clique, factors, scale in self._terms_of(queries)]
        return np.concatenate([scale * np.sqrt(variances.ravel()) for scale, variances in pairs])

    def _terms_of(self, queries: Marginals | Products) -> list[tuple[Clique, Factors, float]]:
        """The clique, the matrices and the scale of each term of the queries."""
        if queries.domain != self.domain:
            raise ValueError("queries over another domain than what was measured; want one")
        if isinstance(queries, Marginals):
            return [(clique, [None] * len(clique), 1.0) for clique in queries.cliques]
        return [(term.clique, term.matrices, term.weight / queries.denominator) for term in queries.terms]

    def _add_axis(self, name: str, matrix: NDArray[np.int64]) -> float:
        """Registers a measured matrix, scaled to L1 sensitivity 1; returns the L1 sensitivity that was divided out."""
        sensitivity = float(np.abs(matrix).sum(axis=0).max())
        if name not in self._axes:
            self._axes[name] = _Axis.of(matrix / sensitivity)
        axis = self._axes[name]
        if axis.matrix.shape != matrix.shape or np.abs(axis.matrix - matrix / sensitivity).max() > _ROUNDING:
            raise ValueError(f"attribute {name!r} was measured through two matrices; want one in all terms")
        return sensitivity

    def _axis(self, name: str) -> _Axis:
        """The axis of an attribute; an attribute that was not measured gets the matrix of the total."""
        if name not in self._axes:
            self._axes[name] = _Axis.of(np.ones((1, *self.domain.shape((name,)))))
        return self._axes[name]

    def _parts(self, clique: Clique) -> list[Clique]:
        """The subsets of those attributes of the clique whose measured queries distinguish values."""
        names = [name for name in clique if self._axis(name).varies]
        return [part for order in range(len(names) + 1) for part in combinations(names, order)]

    def _information(self, part: Clique) -> tuple[float, float]:
        """lam_a, and the largest change of an entry of a's table if one value of each term moves by one grid step."""
        if part not in self._information_of_part:
            precision = change = 0.0
            names = set(part)
            for term in self._terms:
                if names.issubset(term.clique):
                    rest = [self._axes[name] for name in term.clique if name not in names]
                    precision += term.precision * math.prod(axis.split.alpha for axis in rest)
                    change += term.precision * term.step * math.prod(axis.largest_total for axis in rest)
            self._information_of_part[part] = precision, change / precision if precision > 0 else 0.0
        return self._information_of_part[part]

    def _tables(self, needed: set[Clique]) -> dict[Clique, Matrix]:
        """The tables of these parts, which include all subsets of each; parts without information are absent."""
        tables: dict[Clique, Matrix] = {}
        for term in self._terms:
            shape = [len(self._axes[name].totals) for name in term.clique]
            projections: dict[Clique, Matrix] = {(): (term.values / term.scale).reshape(shape)}
            for name in term.clique:
                # The attribute's axis is the first one: it is summed out, or projected and moved to the end.
                axis, extended = self._axes[name], [part for part in projections if (*part, name) in needed]
                projected = {
                    (*part, name): np.moveaxis(np.tensordot(axis.inverse, projections[part], (1, 0)), 0, -1)
                    for part in extended
                }
                summed = {part: np.tensordot(axis.totals, tensor, (0, 0)) for part, tensor in projections.items()}
                projections = summed | projected
            for part, projection in projections.items():
                if (information := self._information(part)[0]) > 0:
                    tables[part] = tables.get(part, 0.0) + (term.precision / information) * projection
        return tables

    def _answer(self, clique: Clique, factors: Factors, part_tables: dict[Clique, Matrix]) -> Matrix:
        """The answers of one term of the queries, float64 [answers]."""
        # The tables are keyed by the attributes whose residual they contain, among those not yet merged. Along an
        # unmerged attribute that is not in its key, a table has length 1.
        tables: dict[Clique, Matrix] = {}
        sizes = self.domain.shape(clique)
        for part in self._parts(clique):
            shape = [size if name in part else 1 for name, size in zip(clique, sizes, strict=True)]
            tables[part] = part_tables[part].reshape(shape) if part in part_tables else np.zeros([1] * len(clique))
        for index, name in enumerate(clique):
            mean = self._axis(name).split.u.reshape([-1 if axis == index else 1 for axis in range(len(clique))])
            added = {part: table * mean for part, table in tables.items() if name not in part}
            for part, table in added.items():
                residual = tables.get(tuple(other for other in clique if other in part or other == name))
                added[part] = table if residual is None else table + residual
            tables = added
        if all(factor is None for factor in factors):
            return tables[()].ravel()
        return kronecker_times([np.asarray(factor, dtype=np.float64) for factor in factors], tables[()])

    def _variances(self, clique: Clique, factors: Factors) -> tuple[Matrix, float]:
        """The variances, and the largest change of an answer if one value of each term moves by one grid step."""
        norms = {name: self._query_norms(name, factor) for name, factor in zip(clique, factors, strict=True)}
        total, steps = np.zeros([len(query.residual) for query in norms.values()]), 0.0
        for part in self._parts(clique):
            rows = [query.residual if name in part else query.mean for name, query in norms.items()]
            if not all(row.any() for row in rows):
                continue
            information, step = self._information(part)
            if not information > 0:
                raise ValueError(
                    f"the measured products do not determine the answers about {clique}; want ones that do"
                )
            total += reduce(np.multiply.outer, rows, np.ones(())) / information
            largest = [query.residual_step if name in part else query.mean_step for name, query in norms.items()]
            steps += step * math.prod(largest)
        return total, steps

    def _query_norms(self, name: str, factor: NDArray[np.int64] | None) -> _QueryNorms:
        """The norms of one attribute's queries; None stands for its codes."""
        key = (name, None, b"") if factor is None else (name, factor.shape, frozen_bytes(factor))
        if key not in self._norms:
            matrix = np.eye(self.domain.shape((name,))[0]) if factor is None else factor.astype(np.float64)
            self._norms[key] = _QueryNorms.of(matrix, self._axis(name), name)
        return self._norms[key]


@final
@dataclass(frozen=True, eq=False)
class _Term:
    """One measured term.

    clique: The attributes of the term.
    values: The measured values, in counts; values / scale is (x)_i A_i x with noise.
    scale: The factor between the measured matrices and (x)_i A_i.
    precision: The precision 1 / variance of values / scale.
    step: The step of the noise's grid in values / scale.
    """

    clique: Clique
    values: Matrix
    scale: float
    precision: float
    step: float


@final
@dataclass(frozen=True, eq=False)
class _Axis:
    """The measured matrix A of one attribute.

    matrix: A, float64 [p, n], of L1 sensitivity 1.
    split: The decomposition (u, alpha, Y) of A'A.
    totals: A u, float64 [p].
    inverse: Y A', float64 [n, p].
    """

    matrix: Matrix
    split: Decomposition
    totals: Matrix
    inverse: Matrix

    @classmethod
    def of(cls, matrix: Matrix) -> _Axis:
        """The axis of a matrix of L1 sensitivity 1."""
        size = matrix.shape[1]
        if len(matrix) == size and np.array_equal(matrix, np.eye(size)):
            split = Decomposition(np.full(size, 1 / size), 1 / size, np.eye(size) - 1 / size)
        else:
            split = Decomposition.of(matrix.T @ matrix)
        totals = matrix @ split.u if split.alpha > 0 else np.zeros(len(matrix))
        return cls(matrix, split, totals, split.inverse @ matrix.T)

    @property
    def varies(self) -> bool:
        """Whether the matrix distinguishes values of the attribute."""
        return bool(self.split.inverse.any())

    @property
    def largest_total(self) -> float:
        """The largest absolute entry of ``totals``."""
        return float(np.abs(self.totals).max())


@final
@dataclass(frozen=True, eq=False)
class _QueryNorms:
    """Norms of the rows w of a query matrix for one attribute, relative to the measured matrix A.

    residual: w'Yw, float64 [rows].
    mean: (w'u)^2, float64 [rows].
    residual_step: The largest absolute entry of w'YA' over all rows.
    mean_step: The largest absolute w'u.
    """

    residual: Matrix
    mean: Matrix
    residual_step: float
    mean_step: float

    @classmethod
    def of(cls, rows: Matrix, axis: _Axis, name: str) -> _QueryNorms:
        """The norms of the rows. Raises ValueError if the measured matrix does not determine their answers."""
        split, squared_norms = axis.split, (rows**2).sum(axis=1)
        unspanned = rows - np.outer(rows @ split.u, np.ones(rows.shape[1])) - (rows @ axis.inverse) @ axis.matrix
        if np.abs(unspanned).max() > _TOLERANCE * np.abs(rows).max():
            raise ValueError(f"the measured queries do not determine those about {name!r}; want ones that they span")
        residual = np.maximum(((rows @ split.inverse) * rows).sum(axis=1), 0.0)
        mean = (rows @ split.u) ** 2
        residual[residual < _ROUNDING * squared_norms * np.trace(split.inverse)] = 0.0
        mean[mean < _ROUNDING * squared_norms * (split.u @ split.u)] = 0.0
        return cls(residual, mean, float(np.abs(rows @ axis.inverse).max()), math.sqrt(float(mean.max(initial=0.0))))
