"""The base of a fit: the distribution that a model keeps to where nothing was measured.

It is the product of the measured one-way marginals, or a model of public data. Public one-way marginals serve as the
expectation of the measured ones: how far each may lie from it is learnt from all measured attributes together
(``scale_mixture``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.linear_measurements import LinearMeasurement, smallest_containing
from dpcore.estimation.graphical.fitting.one_way_least_squares import one_way_marginal
from dpcore.estimation.graphical.inference.node_tables import Conditionals
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.estimation.independent import to_simplex
from dpcore.estimation.reconstruction.scale_mixture import NoisyTables, posterior_deviations
from dpcore.queries import Marginals

Vector = NDArray[np.float64]
_FLOOR: Final = 0.1  # In standard deviations of the noise: the smallest count that the base gives to a value.
_SMALLEST: Final = 1e-12  # Smaller conditional probabilities of a public model are raised to this.
_EXACT: Final = 3e-4  # In parts of the rows: the fit meets one-way counts in which public data take part this exactly.
# Attributes that are as public data say, and are added to the measured ones: with few attributes and much noise, chance
# would otherwise be taken for a difference.
_PSEUDO_TABLES: Final = 4.0
_SIGNIFICANT: Final = 2.0  # In standard deviations: what a noisy count shows beyond this is no noise.


def independent_base(queries: Marginals, measurements: Sequence[LinearMeasurement], total: float) -> Vector:
    """Log-potentials of independent attributes with the measured one-way marginals, float64 [queries.size]."""
    tables: list[Vector] = []
    seen: set[str] = set()
    domain = queries.domain
    for clique in queries.cliques:
        table = np.zeros(domain.shape(clique))
        for axis, name in enumerate(clique):
            if name not in seen:
                shape = [-1 if index == axis else 1 for index in range(len(clique))]
                table += _log_one_way(domain, name, measurements, total).reshape(shape)
        seen.update(clique)
        tables.append(table.ravel())
    return np.concatenate(tables)


def public_base(queries: Marginals, tree: JunctionTree, conditionals: Conditionals) -> Vector:
    """Log-potentials of a public model, float64 [queries.size].

    queries: Cliques, in each of which the nodes of the model's tree that belong to it lie as a whole.
    tree, conditionals: The public model.

    Raises: ValueError for a node that lies in no clique.
    """
    tables = [np.zeros(queries.domain.shape(clique)) for clique in queries.cliques]
    for node, conditional in zip(tree.nodes, conditionals, strict=True):
        host = smallest_containing(node, queries.cliques, queries.domain)
        clique = queries.cliques[host]
        order = sorted(range(len(node)), key=lambda axis: clique.index(node[axis]))
        log_table = np.log(np.maximum(conditional, _SMALLEST)).reshape(queries.domain.shape(node)).transpose(order)
        tables[host] += np.expand_dims(log_table, [axis for axis, name in enumerate(clique) if name not in node])
    return np.concatenate([table.ravel() for table in tables])


def with_public_counts(
    components: Sequence[LinearMeasurement], public: Mapping[str, Vector], rows: float, total: float
) -> list[LinearMeasurement]:
    """Replaces centred one-way marginals by posterior means, given public marginals; other measurements are kept.

    components: Components, from ``component_measurements``.
    public: Public one-way marginals, as shares; float64 [size] by attribute.
    rows: Number of rows of the public table, > 0.
    total: Number of rows of the model, > 0.

    A posterior mean is positive, and its precision is that of an exact count: no other component says anything about
    single attributes.
    """
    single = sorted((part for part in components if _is_one_way(part)), key=lambda part: part.values.size)
    groups: list[NoisyTables] = []
    batches: list[tuple[list[LinearMeasurement], Vector]] = []
    for size, run in groupby(single, key=lambda part: part.values.size):
        batch = list(run)
        expected = total * np.stack([public[part.clique[0]] for part in batch])
        variances = np.array([1 / part.precision for part in batch])
        noisy = np.stack([part.values for part in batch]) + total / size
        # Public data may lack a value; a noisy count that is no noise, and what chance may omit, say how much.
        scales = np.maximum(expected, noisy - _SIGNIFICANT * np.sqrt(variances)[:, None])
        groups.append(NoisyTables(noisy - expected, np.maximum(scales, total / rows), variances))
        batches.append((batch, expected))
    deviations = posterior_deviations(groups, _PSEUDO_TABLES).means()
    posterior: dict[Clique, Vector] = {}
    for (batch, expected), deviation in zip(batches, deviations, strict=True):
        for part, counts in zip(batch, expected + deviation, strict=True):
            posterior[part.clique] = total * to_simplex(counts / total) - total / counts.size
    precision = (_EXACT * total) ** -2
    return [
        replace(part, values=posterior[part.clique], precision=max(part.precision, precision))
        if _is_one_way(part)
        else part
        for part in components
    ]


def _is_one_way(part: LinearMeasurement) -> bool:
    return part.centred and len(part.clique) == 1


def _log_one_way(domain: Domain, name: str, measurements: Sequence[LinearMeasurement], total: float) -> Vector:
    """Logarithms of one attribute's marginal, from all measurements that determine it; zeros if none does."""
    size = domain.size((name,))
    values, precision = np.zeros(size), 0.0
    for measurement in measurements:
        if measurement.clique == (name,) and measurement.centred:
            values += measurement.precision * (measurement.values + total / size)
            precision += measurement.precision
        elif (estimate := one_way_marginal(measurement, name)) is not None:
            values += estimate[1] * estimate[0]
            precision += estimate[1]
    if precision == 0.0:
        return values
    probabilities = to_simplex(values / (precision * total))
    return np.asarray(np.log(np.maximum(probabilities, _FLOOR * precision**-0.5 / total)))
