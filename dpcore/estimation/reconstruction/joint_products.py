"""Answers from noisy products on several marginals, by least squares from all of them together."""

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
_LEAST_VARIANCE: Final = 1e-18  # Of noise that is as good as none.
_LEAST: Final = 1e-11  # Of the largest that there can be: what is below it is taken for 0.
_CLOSE: Final = 1e-6


@final
class JointProducts:
    """The best linear unbiased answers from products that read each attribute through the same matrix A_i.

    With X_i = A_i'A_i split into u_i, alpha_i and Y_i (``Decomposition``), and p_b the precision of the measured term
    of b, an inverse of the Gram matrix of all that was measured is the sum over subsets a of (x)_{i in a} Y_i
    (x)_{other i} u_i u_i' / lam_a, with lam_a = sum over b >= a of p_b prod_{i in b - a} alpha_i. So the values of each
    term are brought to the attributes of each a <= b, where all that the terms tell about a is added up. The marginal
    of c is the sum over a <= c of these tables, each spread by u_i over the attributes of c - a. No table over more
    attributes than those of one measured or one asked clique is made.

    Source: this project; for marginals of codes thesis of McKenna (2022), section 3.9, case 2.
    """

    def __init__(self, measurements: Sequence[Measurement]) -> None:
        """
        measurements: Products over one domain, any number of terms each, with noise of any law and scale. All terms
            that read an attribute have the same matrix for it, up to a factor.

        Raises ValueError without measurements, for other queries, different domains, or different matrices.
        """
        queries = [one.queries for one in measurements if isinstance(one.queries, Products)]
        if not queries or len(queries) < len(measurements) or any(one.domain != queries[0].domain for one in queries):
            raise ValueError(f"{len(measurements)} measurements; want one or more, of products over one domain")
        self.domain: Domain = queries[0].domain
        self._width = max(unit_quantile(one.noise) for one in measurements)
        self._axes: dict[str, _Axis] = {}
        self._terms: list[_Term] = []
        for one, measured in zip(queries, measurements, strict=True):
            starts = np.cumsum([term.size for term in one.terms])[:-1]
            for term, values in zip(one.terms, np.split(measured.values, starts), strict=True):
                scale = term.weight / one.denominator
                for name, matrix in zip(term.clique, term.matrices, strict=True):
                    scale *= self._measured(name, matrix)
                precision = scale**2 / max(measured.stddev**2, _LEAST_VARIANCE)
                self._terms.append(_Term(term.clique, values, scale, precision, 1 / (one.denominator * scale)))
        self._sums: dict[Clique, tuple[float, float]] = {}
        self._reads: dict[tuple[str, tuple[int, ...] | None, bytes], _Read] = {}

    def answers(self, queries: Marginals | Products) -> Answers:
        """Answers of marginals, or of products on marginals, with intervals; in the order of the queries.

        The standard deviations are exact for those of the measurements. An interval is that of a variable of the
        answer's standard deviation, of the law with the widest one, widened on each side by what a step of the noise's
        grid in one value of each measured term can move the answer.

        Raises ValueError for queries over another domain, and for an answer that the measured values do not tell.
        """
        terms = self._asked(queries)
        spreads = [self._spread(clique, factors) for clique, factors, _ in terms]
        tables = self._tables({part for clique, _, _ in terms for part in self._parts(clique)})
        values = [scale * self._answer(clique, factors, tables) for clique, factors, scale in terms]
        scales = [scale for _, _, scale in terms]
        stddev = [c * np.sqrt(variances.ravel()) for c, (variances, _) in zip(scales, spreads, strict=True)]
        moved = [np.full(len(one), c * step) for one, c, (_, step) in zip(values, scales, spreads, strict=True)]
        estimate, deviation = np.concatenate(values), np.concatenate(stddev)
        widths = self._width * deviation + np.concatenate(moved)
        return Answers(estimate, deviation, estimate - widths, estimate + widths, measured=True)

    def stddev(self, queries: Marginals | Products) -> NDArray[np.float64]:
        """Of each answer, whatever the measured values are; float64 [queries.size].

        Raises ValueError as ``answers`` does.
        """
        spreads = [(scale, self._spread(clique, factors)[0]) for clique, factors, scale in self._asked(queries)]
        return np.concatenate([scale * np.sqrt(variances.ravel()) for scale, variances in spreads])

    def _asked(self, queries: Marginals | Products) -> list[tuple[Clique, Factors, float]]:
        """Clique, matrices and scale of each part."""
        if queries.domain != self.domain:
            raise ValueError("queries over another domain than what was measured; want one")
        if isinstance(queries, Marginals):
            return [(clique, [None] * len(clique), 1.0) for clique in queries.cliques]
        return [(term.clique, term.matrices, term.weight / queries.denominator) for term in queries.terms]

    def _measured(self, name: str, matrix: NDArray[np.int64]) -> float:
        """The size of a measured matrix, which the attribute's own is of size 1."""
        size = float(np.abs(matrix).sum(axis=0).max())
        if name not in self._axes:
            self._axes[name] = _Axis.of(matrix / size)
        axis = self._axes[name]
        if axis.matrix.shape != matrix.shape or np.abs(axis.matrix - matrix / size).max() > _LEAST:
            raise ValueError(f"attribute {name!r} was measured through two matrices; want one in all terms")
        return size

    def _axis(self, name: str) -> _Axis:
        """Nothing but the total is known about an attribute that was not measured."""
        if name not in self._axes:
            self._axes[name] = _Axis.of(np.ones((1, *self.domain.shape((name,)))))
        return self._axes[name]

    def _parts(self, clique: Clique) -> list[Clique]:
        """Subsets of which something beyond smaller subsets is known."""
        names = [name for name in clique if self._axis(name).varies]
        return [part for order in range(len(names) + 1) for part in combinations(names, order)]

    def _known(self, part: Clique) -> tuple[float, float]:
        """lam_a, and the sum of what a step of one value of each term moves what is known about a, at most."""
        if part not in self._sums:
            precision = moved = 0.0
            held = set(part)
            for term in self._terms:
                if held.issubset(term.clique):
                    rest = [self._axes[name] for name in term.clique if name not in held]
                    precision += term.precision * math.prod(axis.split.alpha for axis in rest)
                    moved += term.precision * term.step * math.prod(axis.largest_total for axis in rest)
            self._sums[part] = precision, moved / precision if precision > 0 else 0.0
        return self._sums[part]

    def _tables(self, needed: set[Clique]) -> dict[Clique, Matrix]:
        """What is known about each of these sets of attributes, with every subset of each; others are left out."""
        tables: dict[Clique, Matrix] = {}
        for term in self._terms:
            shape = [len(self._axes[name].totals) for name in term.clique]
            found: dict[Clique, Matrix] = {(): (term.values / term.scale).reshape(shape)}
            for name in term.clique:
                # The axis comes first: it goes, or moves to the end.
                axis, grown = self._axes[name], [part for part in found if (*part, name) in needed]
                more = {
                    (*part, name): np.moveaxis(np.tensordot(axis.inverse, found[part], (1, 0)), 0, -1) for part in grown
                }
                found = {part: np.tensordot(axis.totals, one, (0, 0)) for part, one in found.items()} | more
            for part, one in found.items():
                if (known := self._known(part)[0]) > 0:
                    tables[part] = tables.get(part, 0.0) + (term.precision / known) * one
        return tables

    def _answer(self, clique: Clique, factors: Factors, known: dict[Clique, Matrix]) -> Matrix:
        """float64 [answers of the clique]."""
        # One table for each subset of the attributes that are still to be added, of length 1 along these others.
        tables: dict[Clique, Matrix] = {}
        sizes = self.domain.shape(clique)
        for part in self._parts(clique):
            shape = [size if name in part else 1 for name, size in zip(clique, sizes, strict=True)]
            tables[part] = known[part].reshape(shape) if part in known else np.zeros([1] * len(clique))
        for place, name in enumerate(clique):
            spread = self._axis(name).split.u.reshape([-1 if place == other else 1 for other in range(len(clique))])
            added = {part: table * spread for part, table in tables.items() if name not in part}
            for part, table in added.items():
                within = tables.get(tuple(other for other in clique if other in part or other == name))
                added[part] = table if within is None else table + within
            tables = added
        if all(factor is None for factor in factors):
            return tables[()].ravel()
        return kronecker_times([np.asarray(one, dtype=np.float64) for one in factors], tables[()])

    def _spread(self, clique: Clique, factors: Factors) -> tuple[Matrix, float]:
        """Variances of answers, and the largest sum of what one step of one value of each term moves an answer."""
        reads = {name: self._read(name, factor) for name, factor in zip(clique, factors, strict=True)}
        total, steps = np.zeros([len(one.within) for one in reads.values()]), 0.0
        for part in self._parts(clique):
            rows = [one.within if name in part else one.across for name, one in reads.items()]
            if not all(one.any() for one in rows):
                continue
            known, moved = self._known(part)
            if not known > 0:
                raise ValueError(f"what was measured does not tell the answers about {clique}; want products that do")
            total += reduce(np.multiply.outer, rows, np.ones(())) / known
            largest = [one.within_step if name in part else one.across_step for name, one in reads.items()]
            steps += moved * math.prod(largest)
        return total, steps

    def _read(self, name: str, factor: NDArray[np.int64] | None) -> _Read:
        key = (name, None, b"") if factor is None else (name, factor.shape, frozen_bytes(factor))
        if key not in self._reads:
            matrix = np.eye(self.domain.shape((name,))[0]) if factor is None else factor.astype(np.float64)
            self._reads[key] = _Read.of(matrix, self._axis(name), name)
        return self._reads[key]


@final
@dataclass(frozen=True, eq=False)
class _Term:
    """One measured term. values / scale: (x)_i A_i x with noise of this precision, on a grid of these steps."""

    clique: Clique
    values: Matrix
    scale: float
    precision: float
    step: float


@final
@dataclass(frozen=True, eq=False)
class _Axis:
    """matrix: A, float64 [p, n]. totals: A u. inverse: Y A'."""

    matrix: Matrix
    split: Decomposition
    totals: Matrix
    inverse: Matrix

    @classmethod
    def of(cls, matrix: Matrix) -> _Axis:
        size = matrix.shape[1]
        if len(matrix) == size and np.array_equal(matrix, np.eye(size)):
            split = Decomposition(np.full(size, 1 / size), 1 / size, np.eye(size) - 1 / size)
        else:
            split = Decomposition.of(matrix.T @ matrix)
        totals = matrix @ split.u if split.alpha > 0 else np.zeros(len(matrix))
        return cls(matrix, split, totals, split.inverse @ matrix.T)

    @property
    def varies(self) -> bool:
        return bool(self.split.inverse.any())

    @property
    def largest_total(self) -> float:
        return float(np.abs(self.totals).max())


@final
@dataclass(frozen=True, eq=False)
class _Read:
    """Of rows w that are asked of one attribute: w'Yw and (w'u)^2, and the largest entries of w'YA' and w'u."""

    within: Matrix
    across: Matrix
    within_step: float
    across_step: float

    @classmethod
    def of(cls, rows: Matrix, axis: _Axis, name: str) -> _Read:
        split, sizes = axis.split, (rows**2).sum(axis=1)
        missed = rows - np.outer(rows @ split.u, np.ones(rows.shape[1])) - (rows @ axis.inverse) @ axis.matrix
        if np.abs(missed).max() > _CLOSE * np.abs(rows).max():
            raise ValueError(f"queries about {name!r} that its measured ones do not tell; want others")
        within = np.maximum(((rows @ split.inverse) * rows).sum(axis=1), 0.0)
        across = (rows @ split.u) ** 2
        within[within < _LEAST * sizes * np.trace(split.inverse)] = 0.0
        across[across < _LEAST * sizes * (split.u @ split.u)] = 0.0
        return cls(within, across, float(np.abs(rows @ axis.inverse).max()), math.sqrt(float(across.max(initial=0.0))))
