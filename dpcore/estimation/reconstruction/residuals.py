"""Marginals, and products on them, from measured residuals of marginals, with exact variances."""

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
_TOLERANCE: Final = 1e-9
_MIN_VARIANCE: Final = 1e-18  # Noise without variance counts as this.


@final
class Residuals:
    """Answers to all marginals whose parts have all been measured.

    The residual of attributes a, measured as y = (M_1 x ... x M_k) x + noise with rows of sum 0, is estimated as the
    table (M_1^+ x ... x M_k^+) y over a. The marginal of b is the sum over a <= b of these tables, each spread evenly
    over the attributes of b - a. No table over more attributes than those of b is made. Residuals are orthogonal to
    each other, so that this is least squares from all the values together: the best linear unbiased estimate.

    Source: Xiao, He, Zhang and Kifer (2023), ResidualPlanner.
    """

    def __init__(self, measurements: Sequence[Measurement]) -> None:
        """
        measurements: Products with Gaussian noise over one domain, any number of terms each. A term is the residual
            of its clique, measured once; () is the number of rows.

        Raises ValueError for other queries or noise, a residual that was measured twice, and a matrix whose rows do not
        span exactly its attribute's residual.
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
                given = f"{type(queries).__name__} with {measurement.noise} noise"
                raise ValueError(f"{given}; want residuals as Products with Gaussian noise")
            domains.append(queries.domain)
            starts = np.cumsum([term.size for term in queries.terms])[:-1]
            for term, values in zip(queries.terms, np.split(measurement.values, starts), strict=True):
                if term.clique in self._parts:
                    raise ValueError(f"the residual of {term.clique} was measured twice; want each one once")
                self._parts[term.clique] = self._part(term, values, measurement)
        if any(domain != domains[0] for domain in domains):
            raise ValueError("residuals over different domains; want one")
        self.domain: Domain = domains[0]

    @classmethod
    def of_marginals(cls, measurements: Sequence[Measurement]) -> Residuals:
        """The residuals of noisy marginals, each averaged over all marginals that contain its attributes.

        measurements: Of marginals over one domain, with noise of any law and any scale.

        The residual of a, computed from a marginal of b with noise of variance s^2, has noise of variance s^2 times the
        cells of b over those of a, times its projection. Noises of different residuals, and of different marginals, are
        uncorrelated, so that the average weighted by precision is least squares from all values together.

        Raises ValueError without measurements, for other queries and for different domains.

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
                for part, residual in _residuals(queries.domain, clique, table.astype(np.float64)).items():
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
            own = tuple(axes[size] for size in residuals.domain.shape(part))
            residuals._parts[part] = _Part(own, table.ravel(), 1 / precision, 1.0)
        return residuals

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """The table of a clique, float64 [*domain.shape(clique)] with the attributes in the order of the domain.

        Entries may be negative. Two tables agree on the attributes that they share.

        Raises ValueError where a part of the clique was not measured.
        """
        return self._table(self.domain.canonical(clique))

    def variances(self, clique: Clique, factors: Sequence[Matrix | None] = ()) -> NDArray[np.float64]:
        """Variances of the answers (W_1 x ... x W_k) times the marginal of a clique.

        clique: Attributes in any order, one factor each.
        factors: W_i, float64 [rows, size of the attribute]; None for an attribute's single values; () for those of all
            attributes.

        Returns float64 [rows of W_1, ..., rows of W_k]. They are exact for the stddev of the measurements: the
        sum over a <= b of stddev_a^2 prod_a |w_i M_i^+|^2 prod_{b - a} (w_i 1 / n_i)^2, where w_i are the rows.

        Raises ValueError where a part of the clique was not measured, or for factors that do not fit.
        """
        variances, _ = self._variances(clique, factors or [None] * len(clique))
        return variances

    def answers(self, queries: Marginals | Products) -> Answers:
        """Answers of marginals, or of products on marginals, with intervals; in the order of the queries.

        An interval is that of a normal variable of the answer's standard deviation, widened on each side by the most
        that one step of the noise's grid in one value of each residual can move the answer.

        Raises ValueError where a part of a clique was not measured.
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
        # One table for each subset of the attributes that are still to be added, of length 1 along the others of them.
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
        """Variances of answers, and the most that one step in one value of each residual moves an answer."""
        self._check(clique, factors)
        by_name = dict(zip(clique, factors, strict=True))
        means = {
            name: np.full(size, 1 / size) if (factor := by_name[name]) is None else factor.sum(axis=1) / size
            for name, size in self._axes_of(clique)
        }
        reads: dict[tuple[str, int], tuple[Matrix, float]] = {}
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
                if key not in reads:
                    reads[key] = axes[name].read(by_name[name])
                rows.append(reads[key][0])
                step *= reads[key][1]
            total += measured.variance * reduce(np.multiply.outer, rows, np.ones(()))
            steps += step
        return total, steps

    def _check(self, clique: Clique, factors: Sequence[Matrix | None]) -> None:
        sizes = self.domain.shape(clique)
        given = [size if factor is None else factor.shape[-1] for factor, size in zip(factors, sizes, strict=False)]
        if len(factors) != len(clique) or given != list(sizes):
            raise ValueError(f"factors of {given} columns for {clique}; want one each, of {list(sizes)}")

    def _axes_of(self, clique: Clique) -> list[tuple[str, int]]:
        return list(zip(clique, self.domain.shape(clique), strict=True))

    def _subsets(self, clique: Clique) -> list[Clique]:
        """Parts of the clique that have a residual; an attribute of one value has none."""
        names = [name for name, size in self._axes_of(clique) if size > 1]
        return [part for order in range(len(names) + 1) for part in combinations(names, order)]

    def _measured_part(self, part: Clique, clique: Clique) -> _Part:
        if part not in self._parts:
            raise ValueError(f"the residual of {part} was not measured; want that of every part of {clique}")
        return self._parts[part]

    def _part(self, term: Product, values: NDArray[np.float64], measurement: Measurement) -> _Part:
        axes = []
        for name, matrix in zip(term.clique, term.matrices, strict=True):
            key = (matrix.tobytes(), matrix.shape[1])
            if key not in self._axes:
                self._axes[key] = _Axis.of(matrix, name)
            axes.append(self._axes[key])
        scale = measurement.denominator / term.weight
        table = scale * kronecker_times([axis.inverse for axis in axes], values)
        return _Part(tuple(axes), table, (scale * measurement.stddev) ** 2, 1 / term.weight)


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
        """Raises ValueError where the rows do not span exactly the vectors of sum 0."""
        size = matrix.shape[1]
        if matrix.sum(axis=1).any():
            raise ValueError(f"a residual of {name!r} has a row of sum other than 0; want rows of sum 0")
        scale = math.sqrt((matrix.astype(np.float64) ** 2).sum() / size)
        real = matrix / scale
        gram = real.T @ real
        try:
            # Its value on constant vectors is multiplied by 0.
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

    def read(self, factor: Matrix | None) -> tuple[Matrix, float]:
        """The squared norms of the rows of W M^+, and their largest absolute entry; W is I where None."""
        return self.identity if factor is None else _row_norms(factor @ self.inverse)


@final
@dataclass(frozen=True, eq=False)
class _Part:
    """One measured residual.

    axes: The measured matrices of its attributes.
    table: Its estimate, raveled, in counts.
    variance: The variance of one measured value, scaled such that the queries are (M_1 x ... x M_k) x.
    step: The step of the noise's grid at that scale.
    """

    axes: tuple[_Axis, ...]
    table: Matrix
    variance: float
    step: float


def _residuals(domain: Domain, clique: Clique, table: NDArray[np.float64]) -> dict[Clique, Matrix]:
    """The residual of each part of a clique: the part's marginal less its means along every axis."""
    names = domain.canonical(clique)
    ordered = table.reshape(domain.shape(clique)).transpose([clique.index(name) for name in names])
    residuals: dict[Clique, Matrix] = {(): ordered}
    for name, size in zip(names, domain.shape(names), strict=True):
        # The attribute's axis comes first: it is summed out, or centred and moved to the end.
        longer = {part: tensor.sum(axis=0) for part, tensor in residuals.items()}
        if size > 1:
            longer |= {
                (*part, name): np.moveaxis(tensor - tensor.mean(axis=0), 0, -1) for part, tensor in residuals.items()
            }
        residuals = longer
    return residuals


def _row_norms(rows: Matrix) -> tuple[Matrix, float]:
    """The squared norms of rows, and their largest absolute entry."""
    return (rows**2).sum(axis=1), float(np.abs(rows).max())
