"""Estimates of marginals from measured residuals and a latent-class model of the population that the rows come from.

The model gives the expected residuals and the sampling variance of so many rows, which is small where few rows are
expected. The residuals of different sets are correlated, because every row counts in all of them. One measured residual
therefore corrects the expected values of many others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise
from typing import Final, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.work import UNIT, WorkMeter
from dpcore.estimation.reconstruction.latent_classes import LatentClassModel
from dpcore.estimation.reconstruction.residuals import Residuals, residuals_of_answers
from dpcore.estimation.reconstruction.shrunken import LARGEST_CLOSURE
from dpcore.queries import Marginals
from dpcore.workload import downward_closure

Real = NDArray[np.float64]
DISPERSIONS: Final = (1.0, 3.0, 10.0, 30.0)
"""Factors of the sampling covariance. A factor above 1 allows for a model that is wrong."""
_LARGEST_FREEDOM: Final = 4096  # Rows and columns of a matrix that is solved.
_MOST_PRODUCTS: Final = 1 << 33  # Multiplications for a covariance.
_ENTRIES: Final = 1 << 22  # Of a factor of the covariance, held in memory at once.
# CPU seconds of a multiplication for a covariance, of a set and one below it, of a multiplication to solve for a
# dispersion, and of a set for a dispersion. Measured.
_SECONDS: Final = (1e-10, 2e-5, 5e-12, 3e-6)


def corrected_answers(
    model: LatentClassModel,
    residuals: Residuals,
    queries: Marginals,
    rows: float,
    dispersions: Sequence[float],
    meter: WorkMeter,
    expected: Real | None = None,
) -> list[Real]:
    """Expected answers, corrected by the residuals for each dispersion; float64 [queries.size] each, in counts.

    model: Gives the covariance of a sample.
    dispersions: Those of ``SamplePosterior.estimates``. If there are none, or not enough work remains, the expected
        answers are the only ones.
    meter: Counts the work.
    expected: float64 [queries.size], consistent answers for so many rows; by default those of the model.
    """
    answers = model.answers(queries, rows) if expected is None else expected
    reads = reads_of_posterior(queries, len(model.table[-1]), len(dispersions)) if dispersions else 0.0
    if not dispersions or reads > meter.remaining:
        return [answers]
    meter.spend(reads)
    return SamplePosterior.of(model, queries).estimates(answers, residuals, rows, dispersions)


def is_possible(queries: Marginals, classes: int) -> bool:
    """Whether a covariance is small enough: at most 4,096 rows, and 2^33 multiplications."""
    return _all_freedom(queries) <= _LARGEST_FREEDOM and _products(queries, classes) <= _MOST_PRODUCTS


def reads_of_posterior(queries: Marginals, classes: int, dispersions: int) -> float:
    """The work of one covariance, and the estimates of so many dispersions from it, in reads."""
    per_product, per_pair, per_solved, per_set = _SECONDS
    parts = _parts(queries)
    of_covariance = per_product * _products(queries, classes) + per_pair * sum(2 ** len(part) for part in parts)
    of_dispersion = per_solved * _all_freedom(queries) ** 3 + per_set * (len(parts) + 2 * len(queries.cliques))
    return float(UNIT * (of_covariance + dispersions * of_dispersion))


def bytes_of_posterior(queries: Marginals, classes: int) -> int:
    """Memory of the covariance, of what is solved, and of a factor."""
    freedom = _all_freedom(queries)
    return 8 * (4 * freedom**2 + 2 * min(_ENTRIES, freedom * classes * max(queries.sizes)))


@final
@dataclass(frozen=True, eq=False)
class SamplePosterior:
    """The deviations of a sample's residuals from those that a model expects.

    A residual is written in an orthonormal basis of its tables. Its coordinates are sums, over the rows, of functions
    of a row, whose covariance under the model is C.

    queries: At least one marginal, for which the covariance ``is_possible``.
    covariance: C, float64 [freedom, freedom], with the sets of attributes in the order of ``_parts``.
    """

    queries: Marginals
    covariance: Real

    @classmethod
    def of(cls, model: LatentClassModel, queries: Marginals) -> SamplePosterior:
        """The covariance under a model of the attributes that the queries name.

        In a class, the functions of a set are products over its attributes of a centred function plus its mean: sums,
        over the sets below, of what is centred there times the means elsewhere. What is centred on different sets is
        uncorrelated, because the attributes are independent. So C is a sum over sets and classes.
        """
        domain, classes = queries.domain, _Classes.of(model, queries.domain)
        freedom = [_freedom(domain, part) for part in _parts(queries)]
        spans = pairwise([0, *np.cumsum(freedom).tolist()])
        columns = {part: np.arange(*span) for part, span in zip(_parts(queries), spans, strict=True)}
        covariance = np.zeros((sum(freedom), sum(freedom)))
        for below, above in _supersets(queries).items():
            here = np.concatenate([columns[part] for part in above])
            step = max(1, _ENTRIES // (len(here) * domain.size(below)))
            for first in range(0, len(classes.roots), step):
                some = classes.only(slice(first, first + step))
                factor = np.concatenate([some.factor(part, below) for part in above], axis=1)
                flat = np.moveaxis(factor, 0, 1).reshape(len(here), -1)
                covariance[np.ix_(here, here)] += flat @ flat.T
        means = np.concatenate([classes.mean(part) for part in _parts(queries)])
        return cls(queries, covariance - np.multiply.outer(means, means))

    def estimates(self, expected: Real, residuals: Residuals, rows: float, dispersions: Sequence[float]) -> list[Real]:
        """Consistent estimates of the answers, each float64 [queries.size], in counts, one for each dispersion.

        expected: float64 [queries.size], consistent answers for so many rows, such as the model's.
        residuals: Of all subsets of the cliques.
        rows: The number of rows n, above 0.
        dispersions: Factors s of the covariance.

        The coordinates of the residuals have the prior N(m, s n C) around those m of the expected answers. With noise
        of the variances v they are measured as y, and their posterior mean is m + s n C (s n C + diag v)^-1 (y - m).
        """
        domain, expected_residuals = self.queries.domain, residuals_of_answers(self.queries, expected)
        tables, variances = dict[Clique, Real](), [np.empty(0)]
        for part in _parts(self.queries):
            measured, variance = residuals.residual(part)
            tables[part] = measured - expected_residuals[part]
            variances.append(np.full(_freedom(domain, part), variance))
        difference, noise = _coordinates(domain, tables), np.concatenate(variances)
        return [
            expected + self._answers(self._deviations(dispersion * rows, difference, noise))
            for dispersion in dispersions
        ]

    def _deviations(self, factor: float, difference: Real, noise: Real) -> Real:
        """factor C (factor C + diag noise)^-1 difference, float64 [freedom]."""
        total = factor * self.covariance
        total.flat[:: len(total) + 1] += noise
        weights = cho_solve(cho_factor(total, lower=True, overwrite_a=True), difference)
        return np.asarray(factor * (self.covariance @ weights))

    def _answers(self, coordinates: Real) -> Real:
        """What residuals with these coordinates add to the answers, float64 [queries.size]."""
        queries, parts = self.queries, _parts(self.queries)
        tables = _residuals(queries.domain, parts, coordinates)
        sums = dict[Clique, Real]()
        for cliques in _of_shapes(queries.domain, queries.cliques):
            sums |= zip(cliques, _marginals(queries.domain, cliques, tables), strict=True)
        return np.concatenate([sums[clique].ravel() for clique in queries.cliques])


@final
@dataclass(frozen=True, eq=False)
class _Classes:
    """The functions of single attributes in each class, in an orthonormal basis of the vectors of sum 0.

    roots: Square roots of the shares of the classes, float64 [classes].
    means: Of each attribute, float64 [classes, values - 1].
    factors: Of each attribute, float64 [classes, values - 1, values]: F with the covariance F F'.
    """

    roots: Real
    means: Mapping[str, Real]
    factors: Mapping[str, Real]

    @classmethod
    def of(cls, model: LatentClassModel, domain: Domain) -> _Classes:
        means, factors = dict[str, Real](), dict[str, Real]()
        for name, (first, end) in zip(model.names, pairwise(model.first.tolist()), strict=True):
            shares, basis = model.table[first:end].T, _basis(end - first)
            shares = shares / shares.sum(axis=1, keepdims=True)
            means[name] = shares @ basis
            # With p the shares, diag p - p p' = G G' for G = (I - p 1') diag p^(1/2).
            centred = np.eye(end - first) - shares[:, :, np.newaxis]
            factors[name] = basis.T @ (centred * np.sqrt(shares)[:, np.newaxis, :])
        return cls(np.sqrt(model.table[-1] / model.table[-1].sum()), means, factors)

    def only(self, chosen: slice) -> _Classes:
        """Some of the classes."""
        means = {name: values[chosen] for name, values in self.means.items()}
        return _Classes(self.roots[chosen], means, {name: values[chosen] for name, values in self.factors.items()})

    def factor(self, part: Clique, below: Clique) -> Real:
        """Of the functions of a set, what is centred on the attributes below: float64 [classes, freedom, cells below].

        Its product with its transpose, summed over the classes, is a part of the covariance.
        """
        product = self.roots[:, np.newaxis, np.newaxis]
        for name in part:
            own = self.factors[name] if name in below else self.means[name][:, :, np.newaxis]
            joint = np.einsum("kab,kcd->kacbd", product, own)
            product = joint.reshape(len(own), joint.shape[1] * joint.shape[2], joint.shape[3] * joint.shape[4])
        return product

    def mean(self, part: Clique) -> Real:
        """The means of the functions of a set, float64 [freedom]."""
        return np.asarray(self.roots @ self.factor(part, ())[:, :, 0])


@lru_cache(maxsize=2)
def _parts(queries: Marginals) -> tuple[Clique, ...]:
    """The sets below the cliques that have a residual, without the empty one, smaller ones first."""
    domain, closure = queries.domain, downward_closure(queries.cliques, LARGEST_CLOSURE)
    parts = (domain.canonical(part) for part in closure if part and min(domain.shape(part)) > 1)
    return tuple(sorted(parts, key=lambda part: (len(part), domain.axes(part))))


def _supersets(queries: Marginals) -> dict[Clique, list[Clique]]:
    """For each set, and the empty one, those of ``_parts`` that contain it."""
    above: dict[Clique, list[Clique]] = {}
    for part in _parts(queries):
        for order in range(len(part) + 1):
            for below in combinations(part, order):
                above.setdefault(below, []).append(part)
    return above


def _freedom(domain: Domain, part: Clique) -> int:
    """The coordinates of a residual."""
    return math.prod(size - 1 for size in domain.shape(part))


def _all_freedom(queries: Marginals) -> int:
    closure = downward_closure(queries.cliques, LARGEST_CLOSURE)
    return sum(_freedom(queries.domain, part) for part in closure if part)


@lru_cache(maxsize=4)
def _products(queries: Marginals, classes: int) -> int:
    """The multiplications of a covariance."""
    domain = queries.domain
    widths = {below: sum(_freedom(domain, part) for part in above) for below, above in _supersets(queries).items()}
    return sum(classes * domain.size(below) * width**2 for below, width in widths.items())


def _basis(size: int) -> Real:
    """Orthonormal vectors of sum 0, float64 [size, size - 1]."""
    basis = np.triu(np.ones((size, size)))[:, : size - 1]
    basis[np.arange(1, size), np.arange(size - 1)] = -np.arange(1.0, size)
    return np.asarray(basis / np.sqrt((basis**2).sum(axis=0)))


def _of_shapes(domain: Domain, cliques: Iterable[Clique]) -> Iterator[list[Clique]]:
    """The cliques of each shape, so that all tables of one are computed at once."""
    of_shapes: dict[tuple[int, ...], list[Clique]] = {}
    for clique in cliques:
        of_shapes.setdefault(domain.shape(clique), []).append(clique)
    return iter(of_shapes.values())


def _coordinates(domain: Domain, residuals: Mapping[Clique, Real]) -> Real:
    """The coordinates of residuals one after the other, float64 [freedom]."""
    coordinates = dict[Clique, Real]()
    for parts in _of_shapes(domain, residuals):
        stacked = np.stack([residuals[part] for part in parts])
        for axis, size in enumerate(domain.shape(parts[0]), start=1):
            stacked = np.moveaxis(np.tensordot(stacked, _basis(size), axes=(axis, 0)), -1, axis)
        coordinates |= zip(parts, stacked, strict=True)
    return np.concatenate([np.empty(0), *(coordinates[part].ravel() for part in residuals)])


def _residuals(domain: Domain, parts: Sequence[Clique], coordinates: Real) -> dict[Clique, Real]:
    """The residuals of sets with these coordinates, float64 [freedom], one set after the other."""
    ends = np.cumsum([_freedom(domain, part) for part in parts])
    own = dict(zip(parts, np.split(coordinates, ends[:-1]), strict=True))
    residuals = dict[Clique, Real]()
    for alike in _of_shapes(domain, parts):
        shape = domain.shape(alike[0])
        stacked = np.stack([own[part].reshape([size - 1 for size in shape]) for part in alike])
        for axis, size in enumerate(shape, start=1):
            stacked = np.moveaxis(np.tensordot(stacked, _basis(size), axes=(axis, 1)), -1, axis)
        residuals |= zip(alike, stacked, strict=True)
    return residuals


def _marginals(domain: Domain, cliques: Sequence[Clique], residuals: Mapping[Clique, Real]) -> Real:
    """For cliques of one shape, float64 [cliques, *shape]: the sum of the residuals of all sets below each.

    Each is spread evenly over the other attributes.
    """
    shape = domain.shape(cliques[0])
    varying = [axis for axis, size in enumerate(shape) if size > 1]
    tables = np.zeros((len(cliques), *shape))
    for axes in (axes for order in range(1, len(varying) + 1) for axes in combinations(varying, order)):
        stacked = np.stack([residuals[tuple(clique[axis] for axis in axes)] for clique in cliques])
        own = [size if axis in axes else 1 for axis, size in enumerate(shape)]
        tables += stacked.reshape(-1, *own) * (math.prod(own) / math.prod(shape))
    return tables
