"""The aggregates that mechanisms read, and how far two datasets move them, against what the kernel charges for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.exact_statistics import Shape
from dpcore.kernel.exact_answers import ExactAnswers
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit, l1_sensitivity, squared_l2_sensitivity
from dpcore.queries import (
    ClippedSums,
    Conjunctions,
    Marginals,
    Measurable,
    Product,
    Products,
    SatisfactionHistogram,
    UnitCount,
)
from dpcore.queries.generation import random_conjunctions, random_parities
from dpcore.queries.ranges import all_ranges, prefix
from dpcore.queries.symmetric import BlockQueries, SymmetricQueries
from pipelines.engines.statistics import Engine, EngineStatistics
from pipelines.layout import Layout, TableLayout
from pipelines.source import open_source
from tests.support.engine_cases import SALT


@dataclass(frozen=True, eq=False)
class Aggregate:
    """One exact aggregate of a layout."""

    name: str
    queries: Measurable


@dataclass(frozen=True)
class Influence:
    """How far two neighbours move an aggregate, as fractions of the sensitivities that are charged for it.

    l1: L1 distance. squared_l2: Squared L2 distance.
    """

    l1: float
    squared_l2: float

    @property
    def within(self) -> bool:
        return self.l1 <= 1 and self.squared_l2 <= 1


def aggregates(layout: Layout) -> Iterator[Aggregate]:
    """One aggregate of each kind that fits the layout."""
    draw = np.random.default_rng(5)
    view = layout.view
    if isinstance(layout, TableLayout):
        yield from _of_tables(layout)
    yield Aggregate("conjunctions", random_conjunctions(view, 20, 2, draw, negate=True))
    singles = np.arange(view.columns)[:, None]
    yield Aggregate("counts of values or items", Conjunctions(view, singles, np.zeros_like(singles, dtype=np.bool_)))
    yield Aggregate("parities", random_parities(view, 20, 2, draw))
    yield Aggregate("number of units", UnitCount())
    if layout.contribution.bound == 1 or layout.contribution.shape is Shape.BASKETS:
        yield from _clipped(view, draw)


def _of_tables(layout: TableLayout) -> Iterator[Aggregate]:
    domain = layout.schema.domain
    cliques = [clique for order in (0, 1, 2) for clique in combinations(domain.names, order)]
    yield Aggregate("marginals", Marginals(domain, tuple(cliques)))
    first, second, third = domain.names[:3]
    sizes = [domain.shape((name,))[0] for name in (first, second, third)]
    ranges = (
        Product((first, second), (all_ranges(sizes[0]), prefix(sizes[1])), 3),
        Product((third,), (all_ranges(sizes[2]),)),
    )
    yield Aggregate("products of ranges", Products(domain, ranges))
    signed = np.random.default_rng(6).integers(-3, 4, size=(3, sizes[0])).astype(np.int64)
    yield Aggregate("signed products", Products(domain, (Product((first,), (signed,), 2),)))
    classes = tuple(np.zeros(size, dtype=np.int64) for size in sizes[:2])
    blocks = (BlockQueries((None, None), np.array([[2]])), BlockQueries((0, None), np.array([[1]])))
    yield Aggregate("symmetric queries", SymmetricQueries(domain, (first, second), classes, blocks))


def _clipped(view: BinaryView, draw: np.random.Generator) -> Iterator[Aggregate]:
    queries = random_conjunctions(view, 14, 2, draw)
    groups = np.arange(14, dtype=np.int32) % 3
    yield Aggregate("histogram of satisfied queries", SatisfactionHistogram(queries, groups))
    yield Aggregate("clipped sums", ClippedSums.of(queries, (2, 0.5, 1), groups, factors=(1, 2, 0.75)))
    yield Aggregate("clipped sums, L1", ClippedSums.of(queries, [1], norm=1))


def answers(engine: Engine, folder: Path, layout: Layout, aggregate: Aggregate) -> NDArray[np.int64]:
    """The integers of the aggregate that the kernel would add noise to; of partitions, those of a release of each."""
    parts = []
    for part in _one_by_one(layout):
        source = open_source(str(folder), part, SALT)
        parts.append(ExactAnswers(EngineStatistics(engine, source)).of(aggregate.queries))
    return np.concatenate(parts)


def _one_by_one(layout: Layout) -> list[Layout]:
    """A layout for each partition, which is a release of its own."""
    partition = layout.partition
    if partition is None:
        return [layout]
    return [replace(layout, partition=replace(partition, chosen=(value,))) for value in partition.chosen]


def influence(
    before: NDArray[np.int64], after: NDArray[np.int64], aggregate: Aggregate, relation: Neighbours, layout: Layout
) -> Influence:
    """The measured distances over the declared ones, by exact integer arithmetic.

    A unit that counts in K partitions may move that many releases.
    """
    units = 1000 if relation is Neighbours.REPLACE_ONE_UNIT else None
    unit = PrivacyUnit(relation, layout.contribution, units)
    moved = [abs(int(x) - int(y)) for x, y in zip(after, before, strict=True)]
    l1, squared = l1_sensitivity(aggregate.queries, unit), squared_l2_sensitivity(aggregate.queries, unit)
    releases = (layout.partition.limit or len(layout.partition.chosen)) if layout.partition is not None else 1
    return Influence(sum(moved) / (l1 * releases), sum(move**2 for move in moved) / (squared * releases))
