"""A graphical model of bounded size near estimated tables: rows for answers that are made without a model.

Many overlapping tables seldom fit one junction tree. Sets of attributes are added to the tree in the order of what they
explain, pairs first, as long as the tree keeps within its size. What a set explains is the part of the distance between
the tables and independent attributes that its own interaction makes up. All tables inside a node of the tree are then
fitted by maximum entropy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.fitting.fit import FitSettings, fit_model
from dpcore.estimation.graphical.fitting.work import WorkMeter
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.estimation.graphical.structure.triangulation import Triangulation
from dpcore.estimation.reconstruction.residuals import Residuals
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals

Real = NDArray[np.float64]
_SETTINGS: Final = FitSettings(tolerance=1e-2, iterations=100)
_PRECISION: Final = 0.5  # Tables are fitted as if their noise were this part of that of the measured ones.
_LEAST_STDDEV: Final = 0.5  # Counts.
_REFUSED: Final = 500  # Sets of one order that do not fit, after which no more are tried.
_SMALLEST: Final = 1e-9


def bounded_model(
    residuals: Residuals,
    queries: Marginals,
    values: Real,
    weights: Mapping[Clique, float],
    max_cells: float,
    meter: WorkMeter,
) -> GraphicalModel:
    """The graphical model that is fitted to estimated marginals, as far as its size allows.

    residuals: The measured residuals, from which the noise of a table is known.
    queries: The marginals.
    values: float64 [queries.size], non-negative and consistent estimates of them, in counts.
    weights: The weight of each marginal in the error, >= 0.
    max_cells: Largest number of cells of the junction tree; that of independent attributes is allowed in any case.
    meter: Counts the work of the fit.

    The model has the attributes that some marginal names.
    """
    tables = _all_tables(queries, values)
    domain = queries.domain.project([name for name in queries.domain.names if (name,) in tables])
    nodes = _nodes(domain, tables, weights, max_cells)
    fitted = _largest_within(nodes, tables)
    measured = [_measured(domain, clique, tables[clique], residuals) for clique in fitted]
    total = max(1.0, float(tables[()]))
    return fit_model(domain, measured, total, _SETTINGS, cliques=nodes, meter=meter).model


def bounded_nodes(
    queries: Marginals, values: Real, weights: Mapping[Clique, float], max_cells: float
) -> tuple[Clique, ...]:
    """The nodes of the junction tree of ``bounded_model``, over all attributes.

    queries, values, weights, max_cells: As for ``bounded_model``.
    """
    tables = _all_tables(queries, values)
    return _nodes(queries.domain, tables, weights, max_cells)


def forest_nodes(queries: Marginals, values: Real, weights: Mapping[Clique, float]) -> tuple[Clique, ...]:
    """The nodes of the forest of pairs with which ``bounded_nodes`` begins, over all attributes.

    queries, values, weights: As for ``bounded_model``.
    """
    forest, *_ = _in_order(queries.domain, _gains(_all_tables(queries, values), weights))
    return JunctionTree.of(queries.domain, forest).nodes


def _nodes(
    domain: Domain, tables: Mapping[Clique, Real], weights: Mapping[Clique, float], max_cells: float
) -> tuple[Clique, ...]:
    return JunctionTree.of(domain, _chosen(domain, tables, weights, max_cells)).nodes


def _all_tables(queries: Marginals, values: Real) -> dict[Clique, Real]:
    """The tables of the cliques and of all their subsets."""
    tables: dict[Clique, Real] = {}
    for clique, answers in zip(queries.cliques, queries.split(values), strict=True):
        whole = np.asarray(answers, dtype=np.float64)
        for part in _subsets(clique, 0):
            if part not in tables:
                dropped = tuple(axis for axis, name in enumerate(clique) if name not in part)
                tables[part] = np.asarray(whole.sum(axis=dropped))
    return tables


def _subsets(clique: Clique, smallest: int) -> Iterator[Clique]:
    """The subsets of at least some attributes, small ones first, and the clique itself last."""
    return (part for order in range(smallest, len(clique) + 1) for part in combinations(clique, order))


def _chosen(
    domain: Domain, tables: Mapping[Clique, Real], weights: Mapping[Clique, float], max_cells: float
) -> list[Clique]:
    """The sets of two attributes or more that the tree holds."""
    gains = _gains(tables, weights)
    structure, chosen, linked = Triangulation.of(domain, []), list[Clique](), set[Clique]()
    for batch in _in_order(domain, gains):
        refused = 0
        for clique in batch:
            links = set(combinations(clique, 2))
            if links <= linked:  # The clique is inside a node already.
                continue
            if structure.cells_with(clique) <= max_cells:
                structure, linked = structure.with_clique(clique), linked | links
                chosen.append(clique)
            elif (refused := refused + 1) == _REFUSED:
                break
    return chosen


def _in_order(domain: Domain, gains: Mapping[Clique, float]) -> Iterator[list[Clique]]:
    """A forest of pairs, the other pairs, and larger sets order by order; the largest gains first in each.

    The forest is that of Chow and Liu (1968), with gains in place of mutual information: it costs the fewest cells, and
    what it implies of other pairs costs none.
    """
    from scipy.cluster.hierarchy import DisjointSet  # Only where it is called: it is slow to import.

    by_gain = sorted((clique for clique in gains if gains[clique] > 0), key=lambda clique: -gains[clique])
    joined, forest, other_pairs = DisjointSet(domain.names), list[Clique](), list[Clique]()
    for pair in (clique for clique in by_gain if len(clique) == 2):
        (forest if joined.merge(*pair) else other_pairs).append(pair)
    yield forest
    yield other_pairs
    for order in sorted({len(clique) for clique in by_gain} - {2}):
        yield [clique for clique in by_gain if len(clique) == order]


def _gains(tables: Mapping[Clique, Real], weights: Mapping[Clique, float]) -> dict[Clique, float]:
    """By how much the error of the workload falls, to first order, if a set's own interaction is explained.

    The squared distance of a table to independent attributes is what the interactions of its subsets add, at most.
    """
    distances, added = {}, dict[Clique, float]()
    for clique in sorted(tables, key=len):
        if len(clique) > 1:
            distances[clique] = _distance_to_independent(clique, tables)
            added[clique] = max(
                0.0, distances[clique] ** 2 - sum(added[part] for part in list(_subsets(clique, 2))[:-1])
            )
    slopes = dict.fromkeys(added, 0.0)
    for target, weight in weights.items():
        if len(target) > 1:
            slope = weight / (2 * max(distances[target], _SMALLEST))
            for part in _subsets(target, 2):
                slopes[part] += slope
    return {clique: added[clique] * slopes[clique] for clique in added}


def _distance_to_independent(clique: Clique, tables: Mapping[Clique, Real]) -> float:
    """The L1 distance, as a part of the rows."""
    total = max(float(tables[()]), _SMALLEST)
    shares = (tables[name,] / total for name in clique)
    return float(np.abs(tables[clique] / total - reduce(np.multiply.outer, shares)).sum())


def _largest_within(nodes: Sequence[Collection[str]], tables: Mapping[Clique, Real]) -> list[Clique]:
    """The sets with a table that lie inside a node, without those inside another such set; all single attributes."""
    within, covered = list[Clique](), set[Clique]()
    holders = [frozenset(node) for node in nodes]
    for clique in sorted(tables, key=len, reverse=True):
        if clique and clique not in covered and any(holder.issuperset(clique) for holder in holders):
            within.append(clique)
            covered.update(_subsets(clique, 1))
    return within


def _measured(domain: Domain, clique: Clique, table: Real, residuals: Residuals) -> Measurement:
    """A table as the fit takes it, with a noise in proportion to that of its measured values."""
    stddev = _PRECISION * float(np.sqrt(np.mean(residuals.variances(clique))))
    return Measurement(Marginals(domain, (clique,)), table.ravel(), Noise.GAUSSIAN, max(_LEAST_STDDEV, stddev))
