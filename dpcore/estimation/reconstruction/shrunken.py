"""Answers of marginals from measured residuals, each shrunk towards what smaller marginals imply.

Order by order, from single attributes to the cliques of the workload: the estimated marginals on all faces of a set of
attributes (its subsets with one attribute fewer) imply a table without any interaction of the whole set, the one of
maximum entropy. The measured residual of the set says how far the data are from it, with noise. Empirical Bayes decides
how much of that is signal (``scale_mixture``). Tables of one order share one prior, so that a workload in which triples
hold no surprise pays almost nothing for their noise, while single strong interactions stay as measured.

Pairs are expected to be independent, or to follow from a tree of the strongest pairs (``dependence_tree``). The
expectation under which the measured values are more likely is used. After each order, the estimates are replaced by the
nearest non-negative and consistent tables, from which the next order is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import attrgetter
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.empirical_bayes_counts import NoisyCounts, posterior_counts
from dpcore.estimation.reconstruction.dependence_tree import DependenceTree
from dpcore.estimation.reconstruction.nonnegative import nonnegative_consistent
from dpcore.estimation.reconstruction.residuals import Residuals
from dpcore.estimation.reconstruction.scale_mixture import NoisyTables, centred, posterior_deviations
from dpcore.queries import Marginals
from dpcore.workload import downward_closure

LARGEST_CLOSURE: Final = 1 << 19
"""Maximum number of all subsets of the cliques."""

Real = NDArray[np.float64]
_SWEEPS: Final = 400  # Largest number of sweeps of iterative proportional fitting.
_CELLS: Final = 1 << 30  # Largest number of cells of all sweeps together; but 20 sweeps are always made.
_TINY: Final = 1e-200  # Smaller sums count as 0.
_FITTED: Final = 1e-7  # The sweeps end once no face is off by more than this part of the total.
_MIN_COUNT: Final = 1e-6  # Cells of estimated tables are at least this part of what independent attributes expect.


def shrunken_answers(residuals: Residuals, queries: Marginals, total: float | None = None) -> Real:
    """Non-negative, consistent estimates of the answers of marginals, float64 [queries.size], in counts.

    residuals: Measured residuals of all subsets of the cliques.
    queries: The marginals.
    total: Number of rows where it is public; by default the measured one, at least 1.

    Raises ValueError if a residual was not measured, and for another domain.
    """
    rows = _rows(residuals, total)
    tables: dict[Clique, Real] = {(): np.asarray(rows)}
    for estimate in _estimates(residuals, queries, tables):
        tables |= _consistent(residuals, estimate.tables, rows)
    if len({len(clique) for clique in queries.cliques}) > 1:
        tables = _consistent(residuals, {clique: tables[clique] for clique in queries.cliques}, rows)
    return np.concatenate([tables[clique].ravel() for clique in queries.cliques])


def residual_sizes(residuals: Residuals, queries: Marginals, total: float | None = None) -> dict[Clique, Real]:
    """How large the residuals of two attributes or more may be: the chances of each variance of ``SIZES``.

    residuals, queries, total: As for ``shrunken_answers``.
    """
    rows = _rows(residuals, total)
    tables: dict[Clique, Real] = {(): np.asarray(rows)}
    sizes: dict[Clique, Real] = {}
    largest = max(map(len, queries.cliques))
    for estimate in _estimates(residuals, queries, tables):
        sizes |= estimate.sizes()
        if max(map(len, estimate.tables)) < largest:  # Nothing is expected from the tables of the last order.
            tables |= _consistent(residuals, estimate.tables, rows)
    return sizes


def _rows(residuals: Residuals, total: float | None) -> float:
    return max(1.0, float(residuals.marginal(()))) if total is None else total


def _estimates(residuals: Residuals, queries: Marginals, tables: dict[Clique, Real]) -> Iterator[_Estimate]:
    """The estimates of one order after the other, from pairs on.

    tables: The number of rows. One-way marginals are added here, consistent tables of each order by the caller.
    """
    for parts in _by_order(queries):
        order = len(parts[0])
        if order == 1:
            tables |= _single(residuals, parts, tables)
        else:
            yield _pairs(residuals, parts, tables) if order == 2 else _larger(residuals, parts, tables)


def _consistent(residuals: Residuals, tables: Mapping[Clique, Real], rows: float) -> dict[Clique, Real]:
    """The nearest non-negative and consistent tables."""
    queries = Marginals(residuals.domain, tuple(tables))
    stddevs = np.concatenate([np.sqrt(residuals.variances(clique)).ravel() for clique in tables])
    values = np.concatenate([table.ravel() for table in tables.values()])
    nearest = queries.split(nonnegative_consistent(queries, values, stddevs, rows))
    shape = residuals.domain.shape
    return {
        clique: np.asarray(flat, dtype=np.float64).reshape(shape(clique))
        for clique, flat in zip(tables, nearest, strict=True)
    }


def _by_order(queries: Marginals) -> Iterator[list[Clique]]:
    """All non-empty subsets of the cliques, by their number of attributes; those of one shape are neighbours."""
    shape = queries.domain.shape
    parts = sorted(downward_closure(queries.cliques, LARGEST_CLOSURE), key=lambda part: (len(part), shape(part), part))
    return (list(of_order) for _, of_order in groupby(parts, key=len))


def _single(residuals: Residuals, parts: Sequence[Clique], smaller: Mapping[Clique, Real]) -> dict[Clique, Real]:
    """The one-way marginals, by empirical Bayes."""
    rows, noisy = float(smaller[()]), []
    for part in parts:
        residual, variance = residuals.residual(part)
        noisy.append(NoisyCounts(rows / residual.size + residual.ravel(), variance**0.5))
    return dict(zip(parts, posterior_counts(noisy, rows), strict=True))


@final
@dataclass(frozen=True, eq=False)
class _Estimate:
    """Tables of one order, which may be negative, with the log likelihood of all.

    sizes: Computes the sizes of their residuals, which only the choice of the next call needs.
    """

    tables: dict[Clique, Real]
    sizes: Callable[[], dict[Clique, Real]]
    log_likelihood: float


def _pairs(residuals: Residuals, parts: Sequence[Clique], singles: Mapping[Clique, Real]) -> _Estimate:
    """The estimated tables of pairs, from independence or from a tree of the strongest pairs."""
    independent = {part: np.multiply.outer(*(singles[name,] for name in part)) / float(singles[()]) for part in parts}
    every = _estimated(residuals, parts, independent)
    positive = {part: np.maximum(table, _MIN_COUNT * independent[part]) for part, table in every.tables.items()}
    tree = DependenceTree({name: singles[name,] for part in parts for name in part}, positive)
    off_tree = [part for part in parts if part not in tree.edges]
    expectations = independent, dict(tree.implied(off_tree))
    candidates = [_estimated(residuals, off_tree, expected) for expected in expectations]
    best = max(candidates, key=attrgetter("log_likelihood"))
    return _Estimate(every.tables | best.tables, lambda: every.sizes() | best.sizes(), best.log_likelihood)


def _larger(residuals: Residuals, parts: Sequence[Clique], smaller: Mapping[Clique, Real]) -> _Estimate:
    """The estimated tables of sets of three attributes or more, from those of their faces."""
    expected: dict[Clique, Real] = {}
    for batch in _of_one_shape(residuals.domain, parts):
        expected |= zip(batch, _without_interaction([_faces(part, smaller) for part in batch]), strict=True)
    return _estimated(residuals, parts, expected)


def _estimated(residuals: Residuals, parts: Sequence[Clique], expected: Mapping[Clique, Real]) -> _Estimate:
    """Tables of sets of attributes of one order from expected ones."""
    batches, groups = list(_of_one_shape(residuals.domain, parts)), []
    for batch in batches:
        tables, measured = np.stack([expected[part] for part in batch]), [residuals.residual(part) for part in batch]
        noisy = np.stack([table for table, _ in measured])
        groups.append(NoisyTables(noisy - centred(tables), tables, np.array([variance for _, variance in measured])))
    posterior = posterior_deviations(groups)
    estimates: dict[Clique, Real] = {}
    for batch, group, means in zip(batches, groups, posterior.means(), strict=True):
        estimates |= zip(batch, group.expected + means, strict=True)

    def sizes() -> dict[Clique, Real]:
        of_batches = zip(batches, posterior.sizes(), strict=True)
        return dict(chain.from_iterable(zip(batch, chances, strict=True) for batch, chances in of_batches))

    return _Estimate(estimates, sizes, posterior.log_likelihood())


def _of_one_shape(domain: Domain, parts: Sequence[Clique]) -> Iterator[list[Clique]]:
    """Runs of neighbours with the same shape."""
    return (list(run) for _, run in groupby(parts, key=domain.shape))


def _faces(part: Clique, tables: Mapping[Clique, Real]) -> list[Real]:
    """The tables of the subsets that leave out the first attribute, the second, and so on."""
    return [tables[part[:axis] + part[axis + 1 :]] for axis in range(len(part))]


def _without_interaction(faces: Sequence[Sequence[Real]]) -> Real:
    """The tables of maximum entropy with given faces, float64 [tables, *shape], by iterative proportional fitting.

    faces: For each table its faces; face k leaves out attribute k. All have the same shapes.

    Where data are nearly deterministic, fitting is slow, and noisy faces may belong to no non-negative table. What is
    missing of a face is then added, spread evenly over the attribute that it leaves out. This changes marginals alone,
    not the residual of the whole set, and cells may become negative.
    """
    stacked = [np.stack(of_axis) for of_axis in zip(*faces, strict=True)]
    total = stacked[0].reshape(len(faces), -1).sum(axis=1)
    shape = (stacked[1].shape[1], *stacked[0].shape[1:])
    tables = np.ones((len(faces), *shape))
    for _ in range(max(20, min(_SWEEPS, _CELLS // tables.size))):
        largest = 0.0
        for axis, face in enumerate(stacked, start=1):
            sums = tables.sum(axis=axis)
            largest = max(largest, float((np.abs(sums - face).reshape(len(faces), -1).max(axis=1) / total).max()))
            tables *= np.expand_dims(np.divide(face, sums, out=np.zeros_like(face), where=sums > _TINY), axis)
        if largest <= _FITTED:
            return tables
    for axis, face in enumerate(stacked, start=1):
        tables += np.expand_dims(face - tables.sum(axis=axis), axis) / tables.shape[axis]
    return tables
