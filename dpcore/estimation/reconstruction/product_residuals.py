"""Answers of products from product residuals that were measured in one stack, with exact variances."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.least_squares import kronecker_times, unit_quantile
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals, Products
from dpcore.queries.residual_frames import ResidualFrame
from dpcore.uncertainty import Answers

Matrix = NDArray[np.float64]


@final
class ProductResiduals:
    """Answers of all product queries on cliques whose parts (the subsets of their attributes) have been measured.

    Part a is measured as y = weight * (x)_{i in a} B_i x + noise. Its estimate is the table (x)_{i in a} L_i y / weight
    over a, with L_i and u_i of ``ResidualFrame``. The marginal of b is the sum of these tables over a <= b, each spread
    over the attributes of b - a by u_i. No table has more attributes than b. Because 1'L_i = 0 and B_i u_i = 0, the
    parts are independent of each other, so this is least squares from all measured values together: the best linear
    unbiased estimate.

    Source: ResidualPlanner+ (the successor of Xiao, He, Zhang and Kifer, 2023), for u_i = 1 / n_i.
    """

    def __init__(self, measurement: Measurement) -> None:
        """
        measurement: Products with Gaussian noise. Each term is the residual of its clique, measured once; the term ()
            is the number of rows. An attribute has the same matrix in all terms.

        Raises ValueError for other queries or noise, for a repeated clique, for an attribute with two matrices, and for
        a matrix whose rows do not span exactly the residual of its attribute.
        """
        queries = measurement.queries
        if not isinstance(queries, Products) or measurement.noise is Noise.LAPLACE:
            description = f"{type(queries).__name__} with {measurement.noise} noise"
            raise ValueError(f"{description}; want residuals as Products with Gaussian noise")
        self.domain: Domain = queries.domain
        self._frames: dict[str, ResidualFrame] = {}
        self._tables: dict[Clique, Matrix] = {}
        self._scales: dict[Clique, float] = {}
        self._stddev, self._step = measurement.stddev, 1 / measurement.denominator
        self._width = unit_quantile(Noise.GAUSSIAN)
        starts = np.cumsum([term.size for term in queries.terms])[:-1]
        for term, values in zip(queries.terms, np.split(measurement.values, starts), strict=True):
            if term.clique in self._tables:
                raise ValueError(f"the residual of {term.clique} was measured twice; want each one once")
            for name, matrix in zip(term.clique, term.matrices, strict=True):
                self._add_frame(name, matrix)
            scale = measurement.denominator / term.weight
            inverses = [self._frames[name].inverse for name in term.clique]
            self._tables[term.clique] = scale * kronecker_times(inverses, values)
            self._scales[term.clique] = scale

    def marginal(self, clique: Clique) -> Matrix:
        """The table of a clique, float64 [*domain.shape(clique)] with the attributes in the order of the domain.

        Entries may be negative. Any two tables agree on the attributes that they share.

        Raises ValueError if a part of the clique was not measured.
        """
        names = self.domain.canonical(clique)
        return self._table(names, [None] * len(names)).reshape(self.domain.shape(names))

    def variances(self, clique: Clique, factors: Sequence[Matrix | None] = ()) -> Matrix:
        """The variances of the answers (W_1 x ... x W_k) times the marginal of a clique.

        clique: The attributes b, in any order.
        factors: The matrix W_i of each attribute, float64 [rows, size of the attribute]. None stands for the single
            values of an attribute, and () for the single values of all attributes.

        Returns float64 [rows of W_1, ..., rows of W_k]. The variance of the answer with the rows w_i is the sum over
        a <= b of stddev_a^2 prod_{i in a} |w_i L_i|^2 prod_{i in b - a} (w_i u_i)^2, where stddev_a is the exact
        standard deviation of the measured values.

        Raises ValueError if a part of the clique was not measured, and for factors that do not fit.
        """
        return self._variances(clique, factors or [None] * len(clique))[0]

    def answers(self, queries: Marginals | Products) -> Answers:
        """The answers of marginals, or of products on marginals, with intervals, in the order of the queries.

        An interval is that of a normal variable with the answer's standard deviation. It is widened on each side by the
        largest change of the answer if one value of each residual moves by one step of the noise's grid.

        Raises ValueError for another domain, and if a part of a clique was not measured.
        """
        if queries.domain != self.domain:
            raise ValueError("queries over another domain than the residuals; want one")
        parts = [self._clique_answers(*term) for term in _terms_of(queries)]
        values, stddev, widths = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
        return Answers(values, stddev, values - widths, values + widths, measured=True)

    def stddev(self, queries: Marginals | Products) -> Matrix:
        """The standard deviation of each answer, without computing the answers: float64 [queries.size]."""
        pieces = [
            scale * np.sqrt(self._variances(clique, factors)[0].ravel())
            for clique, factors, scale in _terms_of(queries)
        ]
        return np.concatenate(pieces)

    def _add_frame(self, name: str, matrix: NDArray[np.int64]) -> None:
        if (frame := self._frames.get(name)) is not None:
            if not np.array_equal(frame.matrix, matrix):
                raise ValueError(f"residuals of {name!r} by two matrices; want one in all terms")
            return
        try:
            self._frames[name] = ResidualFrame.of(matrix)
        except ValueError as error:
            raise ValueError(f"a residual of {name!r}: {error}") from None

    def _clique_answers(
        self, clique: Clique, factors: Sequence[Matrix | None], scale: float
    ) -> tuple[Matrix, Matrix, Matrix]:
        variances, step = self._variances(clique, factors)
        stddev = scale * np.sqrt(variances.ravel())
        values = self._table(clique, factors)
        checked = self._checked_factors(clique, factors)
        if any(factor is not None for factor in checked):
            matrices = [
                np.eye(len(self._mean(name))) if factor is None else factor
                for name, factor in zip(clique, checked, strict=True)
            ]
            values = kronecker_times(matrices, values)
        return scale * values, stddev, self._width * stddev + scale * step

    def _table(self, clique: Clique, factors: Sequence[Matrix | None]) -> Matrix:
        """The clique's table, raveled in the clique's order; length 1 along attributes without a measured residual."""
        self._checked_factors(clique, factors)
        means = [self._mean(name) for name in clique]
        order = {name: index for index, name in enumerate(clique)}
        # The tables are keyed by the attributes whose residual they contain, among those not yet merged. Along an
        # unmerged attribute that is not in its key, a table has length 1.
        tables: dict[frozenset[str], Matrix] = {}
        for part in self._parts(clique):
            table = self._tables[part].reshape(self.domain.shape(part))
            moved = table.transpose(np.argsort([order[name] for name in part]))
            shape = [len(mean) if name in part else 1 for name, mean in zip(clique, means, strict=True)]
            tables[frozenset(part)] = moved.reshape(shape)
        for axis, (name, mean) in enumerate(zip(clique, means, strict=True)):
            broadcast_mean = mean.reshape([-1 if index == axis else 1 for index in range(len(clique))])
            added = {names: table * broadcast_mean for names, table in tables.items() if name not in names}
            for names in added:
                if (residual := tables.get(names | {name})) is not None:
                    added[names] = added[names] + residual
            tables = added
        return tables[frozenset()].ravel()

    def _variances(self, clique: Clique, factors: Sequence[Matrix | None]) -> tuple[Matrix, float]:
        """The variances, and the largest change of an answer if one value of each residual moves by one grid step."""
        by_name = dict(zip(clique, self._checked_factors(clique, factors), strict=True))
        means = {name: _times(by_name[name], self._mean(name)) for name in clique}
        residual_norms = {
            name: _row_norms(_times(by_name[name], self._frames[name].inverse))
            for name in clique
            if name in self._frames
        }
        total, steps = np.zeros([len(means[name]) for name in clique]), 0.0
        for part in self._parts(clique):
            rows, step = [], self._scales[part] * self._step
            for name in clique:
                squares, largest = residual_norms[name] if name in part else _row_norms(means[name][:, None])
                rows.append(squares)
                step *= largest
            total += (self._scales[part] * self._stddev) ** 2 * reduce(np.multiply.outer, rows, np.ones(()))
            steps += step
        return total, steps

    def _mean(self, name: str) -> Matrix:
        """u of an attribute; a single 1 if its residual was not measured."""
        return self._frames[name].mean if name in self._frames else np.ones(1)

    def _checked_factors(self, clique: Clique, factors: Sequence[Matrix | None]) -> list[Matrix | None]:
        """The factors; those of attributes without a measured residual must have equal columns and are cut to one."""
        sizes = self.domain.shape(clique)
        columns = [size if factor is None else factor.shape[-1] for factor, size in zip(factors, sizes, strict=False)]
        if len(factors) != len(clique) or columns != list(sizes):
            raise ValueError(f"factors of {columns} columns for {clique}; want one each, of {list(sizes)}")
        checked: list[Matrix | None] = []
        for name, factor, size in zip(clique, factors, sizes, strict=True):
            unmeasured = name not in self._frames and size > 1
            if unmeasured and (factor is None or (factor != factor[:, :1]).any()):
                raise ValueError(f"the residual of {(name,)} was not measured; want that of every part of {clique}")
            checked.append(factor[:, :1] if unmeasured and factor is not None else factor)
        return checked

    def _parts(self, clique: Clique) -> list[Clique]:
        """The parts of a clique. Raises ValueError if one was not measured."""
        names = [name for name in self.domain.canonical(clique) if name in self._frames]
        parts = [part for order in range(len(names) + 1) for part in combinations(names, order)]
        for part in parts:
            if part not in self._tables:
                raise ValueError(f"the residual of {part} was not measured; want that of every part of {clique}")
        return parts


def _terms_of(queries: Marginals | Products) -> list[tuple[Clique, list[Matrix | None], float]]:
    """The clique, the factors and the scale of each term of the queries."""
    if isinstance(queries, Marginals):
        return [(clique, [None] * len(clique), 1.0) for clique in queries.cliques]
    return [
        (term.clique, [matrix.astype(np.float64) for matrix in term.matrices], term.weight / queries.denominator)
        for term in queries.terms
    ]


def _times(factor: Matrix | None, columns: Matrix) -> Matrix:
    return columns if factor is None else np.asarray(factor @ columns)


def _row_norms(rows: Matrix) -> tuple[Matrix, float]:
    """The squared norms of rows, and their largest absolute entry."""
    return (rows**2).sum(axis=1), float(np.abs(rows).max())
