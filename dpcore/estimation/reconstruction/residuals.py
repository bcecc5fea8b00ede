"""Marginals, and products on marginals, from measured residuals of marginals, with exact variances."""

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
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals, Product, Products
from dpcore.uncertainty import Answers

Matrix = NDArray[np.float64]
_TOLERANCE: Final = 1e-9  # Largest rounding error of M^+ M as a projection.
_MIN_VARIANCE: Final = 1e-18  # Smaller variances are treated as this, so that precisions are finite.


@final
class Residuals:
    """Answers on all marginals whose parts (the subsets of their attributes) have all been measured.

    The residual of a set of attributes a is measured as y = (M_1 x ... x M_k) x + noise, with matrices whose rows sum
    to 0. Its estimate is the table (M_1^+ x ... x M_k^+) y over a. The marginal of b is the sum of these tables over
    a <= b, each spread evenly over the attributes of b - a. No table has more attributes than b. The residuals are
    orthogonal, so this is least squares from all measured values together: the best linear unbiased estimate.

    Source: Xiao, He, Zhang and Kifer (2023), ResidualPlanner.
    """

    def __init__(self, measurements: Sequence[Measurement]) -> None:
        """
        measurements: Products with Gaussian noise over one domain, with any number of terms. Each term is the residual
            of its clique; the term () is the number of rows. Of a residual that several measurements have, the mean
            weighted by precisions is used.

        Raises ValueError for other queries or noise, for a residual that was measured by different matrices, and for a
        matrix whose rows do not span exactly the residual of its attribute.
        """
        if not measurements:
            raise ValueError("no measurements; want residuals")
        self._axes: dict[tuple[bytes, int], _Axis] = {}
        self._parts: dict[Clique, _Part] = {}
        self._width = unit_quantile(Noise.GAUSSIAN)
        domains = []
        for measurement in measurements:
            queries = measurement.queries
            if not isinstance(queries, Products) or measurement.noise is Noise.LAPLACE:
                description = f"{type(queries).__name__} with {measurement.noise} noise"
                raise ValueError(f"{description}; want residuals as Products with Gaussian noise")
            domains.append(queries.domain)
            starts = np.cumsum([term.size for term in queries.terms])[:-1]
            for term, values in zip(queries.terms, np.split(measurement.values, starts), strict=True):
                part = self._estimated_part(term, values, measurement)
                earlier = self._parts.get(term.clique)
                self._parts[term.clique] = part if earlier is None else earlier.with_another(part, term.clique)
        if any(domain != domains[0] for domain in domains):
            raise ValueError("residuals over different domains; want one")
        self.domain: Domain = domains[0]

    @classmethod
    def of_marginals(cls, measurements: Sequence[Measurement]) -> Residuals:
        """The residuals of noisy marginals, each averaged over all marginals that contain its attributes.

        measurements: Measurements of marginals over one domain, with noise of any law and scale.

        Let s^2 be the noise variance of a measured marginal b. The residual of a computed from it has the noise
        covariance s^2 (cells of b) / (cells of a) times a projection. The noises of different residuals and of
        different marginals are uncorrelated, so the precision-weighted mean is least squares from all values together.

        Raises ValueError if there are no measurements, and for other queries or different domains.

        Source: thesis of McKenna (2022), section 3.9, case 2 (marginals), residual by residual.
        """
        estimates: dict[Clique, list[tuple[Matrix, float]]] = {}
        domains: list[Domain] = []
        for measurement in measurements:
            queries = measurement.queries
            if not isinstance(queries, Marginals):
                raise ValueError(f"{type(queries).__name__}; want marginals")
            domains.append(queries.domain)
            for clique, table in zip(queries.cliques, queries.split(measurement.values), strict=True):
                own = Marginals(queries.domain, (clique,))
                for part, residual in residuals_of_answers(own, np.asarray(table).ravel()).items():
                    variance = table.size / residual.size * measurement.stddev**2
                    estimates.setdefault(part, []).append((residual, 1 / max(variance, _MIN_VARIANCE)))
        if not domains or any(domain != domains[0] for domain in domains):
            raise ValueError(f"{len(measurements)} measurements over other domains, or none; want one domain")
        residuals = cls.__new__(cls)
        residuals.domain, residuals._axes = domains[0], {}
        residuals._width = max(unit_quantile(measurement.noise) for measurement in measurements)
        axes = {size: _Axis.projecting(size) for size in residuals.domain.sizes}
        residuals._parts = {}
        for part, tables in estimates.items():
            precision = sum(weight for _, weight in tables)
            table = np.sum([weight / precision * residual for residual, weight in tables], axis=0)
            part_axes = tuple(axes[size] for size in residuals.domain.shape(part))
            residuals._parts[part] = _Part(part_axes, table.ravel(), 1 / precision, 1.0)
        return residuals

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """The table of a clique, float64 [*domain.shape(clique)] with the attributes in the order of the domain.

        Entries may be negative. Any two tables agree on the attributes that they share.

        Raises ValueError if a part of the clique was not measured.
        """
        return self._table(self.domain.canonical(clique))

    def residual(self, clique: Clique) -> tuple[NDArray[np.float64], float]:
        """The estimated residual of a set of attributes, and the variance v of its noise, in counts.

        The residual is float64 [*domain.shape(clique)], and sums to 0 along every axis. Its noise is close to N(0, v P)
        with the projection P onto such tables: the measured matrices are orthogonal up to rounding.

        Raises ValueError if it was not measured. The residual of an attribute of one value is 0.
        """
        clique = self.domain.canonical(clique)
        shape = self.domain.shape(clique)
        if 1 in shape:
            return np.zeros(shape), _MIN_VARIANCE
        part = self._measured_part(clique, clique)
        means = [
            float(axis.identity[0].mean()) * size / (size - 1) for axis, size in zip(part.axes, shape, strict=True)
        ]
        return part.table.reshape(shape), max(part.variance * math.prod(means), _MIN_VARIANCE)

    def variances(self, clique: Clique, factors: Sequence[Matrix | None] = ()) -> NDArray[np.float64]:
        """The variances of the answers (W_1 x ... x W_k) times the marginal of a clique.

        clique: The attributes b, in any order.
        factors: The matrix W_i of each attribute, float64 [rows, size of the attribute]. None stands for the single
            values of an attribute, and () for the single values of all attributes.

        Returns float64 [rows of W_1, ..., rows of W_k]. The variance of the answer with the rows w_i is the sum over
        a <= b of stddev_a^2 prod_{i in a} |w_i M_i^+|^2 prod_{i in b - a} (w_i 1 / n_i)^2, where stddev_a is the exact
        standard deviation of the measured values.

        Raises ValueError if a part of the clique was not measured, and for factors that do not fit.
        """
        variances, _ = self._variances(clique, factors or [None] * len(clique))
        return variances

    def answers(self, queries: Marginals | Products) -> Answers:
        """The answers of marginals, or of products on marginals, with intervals, in the order of the queries.

        An interval is that of a normal variable with the answer's standard deviation. It is widened on each side by the
        largest change of the answer if one value of each residual moves by one step of the noise's grid.

        Raises ValueError for another domain, and if a part of a clique was not measured.
        """
        if queries.domain != self.domain:
            raise ValueError("queries over another domain than the residuals; want one")
        if isinstance(queries, Marginals):
            parts = [self._clique_answers(clique, (), 1.0) for clique in queries.cliques]
        else:
            scale = 1 / queries.denominator
            parts = [
                self._clique_answers(
                    term.clique, [matrix.astype(np.float64) for matrix in term.matrices], term.weight * scale
                )
                for term in queries.terms
            ]
        values, stddev, widths = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
        return Answers(values, stddev, values - widths, values + widths, measured=True)

    def _clique_answers(self, clique: Clique, factors: Sequence[Matrix], scale: float) -> tuple[Matrix, Matrix, Matrix]:
        table = self._table(clique)
        values = scale * (kronecker_times(factors, table.ravel()) if factors else table.ravel())
        variances, step = self._variances(clique, factors or [None] * len(clique))
        stddev = scale * np.sqrt(variances.ravel())
        return values, stddev, self._width * stddev + scale * step

    def _table(self, clique: Clique) -> Matrix:
        # The tables are keyed by the attributes whose residual they contain, among those not yet merged. Along an
        # unmerged attribute that is not in its key, a table has length 1.
        tables: dict[frozenset[str], Matrix] = {}
        for part in self._subsets(clique):
            shape = [size if name in part else 1 for name, size in self._axes_of(clique)]
            tables[frozenset(part)] = self._measured_part(part, clique).table.reshape(shape)
        for name, size in self._axes_of(clique):
            added = {names: table / size for names, table in tables.items() if name not in names}
            for names in added:
                if (residual := tables.get(names | {name})) is not None:
                    added[names] = added[names] + residual
            tables = added
        return tables[frozenset()]

    def _variances(self, clique: Clique, factors: Sequence[Matrix | None]) -> tuple[Matrix, float]:
        """The variances, and the largest change of an answer if one value of each residual moves by one grid step."""
        self._check_factors(clique, factors)
        by_name = dict(zip(clique, factors, strict=True))
        means = {
            name: np.full(size, 1 / size) if (factor := by_name[name]) is None else factor.sum(axis=1) / size
            for name, size in self._axes_of(clique)
        }
        residual_norms: dict[tuple[str, int], tuple[Matrix, float]] = {}
        shape = [len(means[name]) for name in clique]
        total, steps = np.zeros(shape), 0.0
        for part in self._subsets(self.domain.canonical(clique)):
            measured = self._measured_part(part, clique)
            axes = dict(zip(part, measured.axes, strict=True))
            rows, step = [], measured.step
            for name in clique:
                if name not in axes:
                    rows.append(means[name] ** 2)
                    step *= float(np.abs(means[name]).max())
                    continue
                key = (name, id(axes[name]))
                if key not in residual_norms:
                    residual_norms[key] = axes[name].row_norms(by_name[name])
                squared_norms, largest_entry = residual_norms[key]
                rows.append(squared_norms)
                step *= largest_entry
            total += measured.variance * reduce(np.multiply.outer, rows, np.ones(()))
            steps += step
        return total, steps

    def _check_factors(self, clique: Clique, factors: Sequence[Matrix | None]) -> None:
        sizes = self.domain.shape(clique)
        columns = [size if factor is None else factor.shape[-1] for factor, size in zip(factors, sizes, strict=False)]
        if len(factors) != len(clique) or columns != list(sizes):
            raise ValueError(f"factors of {columns} columns for {clique}; want one each, of {list(sizes)}")

    def _axes_of(self, clique: Clique) -> list[tuple[str, int]]:
        return list(zip(clique, self.domain.shape(clique), strict=True))

    def _subsets(self, clique: Clique) -> list[Clique]:
        """The parts of the clique that have a residual; attributes of one value have none."""
        names = [name for name, size in self._axes_of(clique) if size > 1]
        return [part for order in range(len(names) + 1) for part in combinations(names, order)]

    def _measured_part(self, part: Clique, clique: Clique) -> _Part:
        if part not in self._parts:
            raise ValueError(f"the residual of {part} was not measured; want that of every part of {clique}")
        return self._parts[part]

    def _estimated_part(self, term: Product, values: NDArray[np.float64], measurement: Measurement) -> _Part:
        """The estimate of the residual that one term measured."""
        axes = []
        for name, matrix in zip(term.clique, term.matrices, strict=True):
            key = (matrix.tobytes(), matrix.shape[1])
            if key not in self._axes:
                self._axes[key] = _Axis.of(matrix, name)
            axes.append(self._axes[key])
        scale = measurement.denominator / term.weight
        table = scale * kronecker_times([axis.inverse for axis in axes], values)
        return _Part(tuple(axes), table, (scale * measurement.stddev) ** 2, 1 / term.weight)


def residuals_of_answers(queries: Marginals, answers: NDArray[np.float64]) -> dict[Clique, Matrix]:
    """The residual of each part of the cliques: the part's marginal, centred along every axis.

    answers: float64 [queries.size]. If several cliques have a part, the first of one shape tells its residual; in
        consistent answers they tell the same.

    The keys are without attributes of one value. Each table has the shape of its key.
    """
    of_shapes: dict[tuple[int, ...], list[tuple[Clique, Matrix]]] = {}
    for clique, table in zip(queries.cliques, queries.split(answers), strict=True):
        of_shapes.setdefault(table.shape, []).append((clique, np.asarray(table, dtype=np.float64)))
    residuals: dict[Clique, Matrix] = {}
    for of_shape in of_shapes.values():
        for axes, centred in _centred_parts(np.stack([table for _, table in of_shape])).items():
            for (clique, _), residual in zip(of_shape, centred, strict=True):
                part = tuple(clique[axis] for axis in axes)
                if part not in residuals:
                    residuals[part] = residual.copy()  # Not a view, which would keep the residuals of all cliques.
    return residuals


def _centred_parts(tables: Matrix) -> dict[tuple[int, ...], Matrix]:
    """For each set of axes with more than one value, the residuals of tables of one shape.

    tables: float64 [tables, *shape]. Axis 0 of the sets is the first of the shape.
    """
    residuals: dict[tuple[int, ...], Matrix] = {(): tables}
    for axis, size in enumerate(tables.shape[1:]):
        # This axis comes after the one of the tables: it is summed out, or centred and moved to the end.
        split = {axes: tensor.sum(axis=1) for axes, tensor in residuals.items()}
        if size > 1:
            split |= {
                (*axes, axis): np.moveaxis(tensor - tensor.mean(axis=1, keepdims=True), 1, -1)
                for axes, tensor in residuals.items()
            }
        residuals = split
    return residuals


@final
@dataclass(frozen=True, eq=False)
class _Axis:
    """The measured matrix M of one attribute.

    inverse: M^+, float64 [n, rows of M].
    identity: The squared norms of the rows of M^+, float64 [n], and their largest absolute entry.
    """

    inverse: Matrix
    identity: tuple[Matrix, float]

    @classmethod
    def of(cls, matrix: NDArray[np.int64], name: str) -> _Axis:
        """The axis of a measured matrix. Raises ValueError if its rows do not span exactly the vectors of sum 0."""
        size = matrix.shape[1]
        if matrix.sum(axis=1).any():
            raise ValueError(f"a residual of {name!r} has a row of sum other than 0; want rows of sum 0")
        scale = math.sqrt((matrix.astype(np.float64) ** 2).sum() / size)
        real = matrix / scale
        gram = real.T @ real
        try:
            # The added matrix acts on constant vectors alone, which the rows of ``real`` are orthogonal to.
            inverse = np.linalg.solve(gram + 1 / size, real.T)
        except np.linalg.LinAlgError:
            inverse = np.zeros(real.T.shape)
        if np.abs(inverse @ real - (np.eye(size) - 1 / size)).max() > _TOLERANCE:
            raise ValueError(f"a residual of {name!r} does not span it; want {size - 1} independent rows")
        inverse /= scale
        return cls(inverse, _row_norms(inverse))

    @classmethod
    def projecting(cls, size: int) -> _Axis:
        """The axis of tables that already sum to 0 along it."""
        projection = np.eye(size) - 1 / size
        return cls(projection, _row_norms(projection))

    def row_norms(self, factor: Matrix | None) -> tuple[Matrix, float]:
        """The squared norms of the rows of W M^+, and their largest absolute entry, for W = ``factor`` or W = I."""
        return self.identity if factor is None else _row_norms(factor @ self.inverse)


@final
@dataclass(frozen=True, eq=False)
class _Part:
    """One measured residual.

    axes: The measured matrix of each attribute.
    table: The estimated residual, raveled, in counts.
    variance: The noise variance of a measured value, after scaling the queries to (M_1 x ... x M_k) x.
    step: The step of the noise's grid after the same scaling.
    """

    axes: tuple[_Axis, ...]
    table: Matrix
    variance: float
    step: float

    def with_another(self, other: _Part, clique: Clique) -> _Part:
        """The mean of two measurements of the same residual, weighted by their precisions."""
        if any(one is not another for one, another in zip(self.axes, other.axes, strict=True)):
            raise ValueError(f"the residual of {clique} was measured by different matrices; want the same ones")
        weight = other.variance / (self.variance + other.variance)
        table = weight * self.table + (1 - weight) * other.table
        step = weight * self.step + (1 - weight) * other.step
        return _Part(self.axes, table, weight * self.variance, step)


def _row_norms(rows: Matrix) -> tuple[Matrix, float]:
    """The squared norms of rows, and their largest absolute entry."""
    return (rows**2).sum(axis=1), float(np.abs(rows).max())
