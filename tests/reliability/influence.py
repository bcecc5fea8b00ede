"""Units that a search makes as influential as it can, on every exact aggregate that a mechanism reads.

A search starts from a random dataset and a random unit in raw Parquet rows, changes rows of the unit (or of both units,
if one replaces the other), and keeps a change when the aggregate moves by no less than before. Files hold the rows of a
unit in any order, in several files, row groups and encodings.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from dpcore.kernel.sensitivity import Neighbours
from dpcore.queries import UnitCount
from pipelines.engines.accumulation import read_batches
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import Engine
from pipelines.layout import Layout
from pipelines.partition import Partition, UnitsIn, Values
from pipelines.row_filter import Condition, RowFilter
from tests.audit.section import Row, Size
from tests.reliability import influence_data as data
from tests.reliability.influence_checks import Aggregate, Influence, aggregates, answers, influence
from tests.support.engines import beam_engine, spark_engine

TITLE = "Units of the largest influence"
CLAIM = (
    "No unit moves an exact aggregate by more than the sensitivity that is charged for it, however its rows look and "
    "lie in files: repeated rows, rows in several files and row groups, ids as integers, texts and dictionaries, "
    "nulls, NaN, infinities and values outside of the domain. With partitions, the releases of all partitions count "
    "together. A search by hill climbing makes units as influential "
    "as it can; a ratio is the measured distance over the declared one, and 1 is allowed. L2 is squared. Where "
    "the largest ratio is near 1, the search is strong and the bound is tight; bounds on random conjunctions and "
    "parities are sums over queries that no unit moves all at once. The most influential pairs are measured again on "
    "the distributed engines."
)
SEED = 77
_STEPS = {Size.FAST: 3, Size.FULL: 110}
_STEPS_OF_PARTITIONS = 9  # At least: few units count in a partition that is released.
_DISTRIBUTED = ("marginals", "counts of values or items", "clipped sums")
ADD, REPLACE = Neighbours.ADD_REMOVE_UNIT, Neighbours.REPLACE_ONE_UNIT


@dataclass(frozen=True)
class Pair:
    """Two neighbours. second: The unit that the neighbour has in place of the first; None if it has one less."""

    world: data.World
    first: Sequence[data.Row]
    second: Sequence[data.Row] | None


@dataclass
class Found:
    """The result of a search. pairs: Number of measured pairs. worst: The most influential pair."""

    pairs: int = 0
    l1: float = 0.0
    squared_l2: float = 0.0
    exceeded: int = 0
    worst: Pair | None = None
    worst_score: float = field(default=-1.0)

    def add(self, measured: Influence, pair: Pair) -> None:
        self.pairs += 1
        self.l1, self.squared_l2 = max(self.l1, measured.l1), max(self.squared_l2, measured.squared_l2)
        self.exceeded += not measured.within
        if measured.squared_l2 > self.worst_score:
            self.worst, self.worst_score = pair, measured.squared_l2


def run(size: Size) -> list[Row]:
    """One row per aggregate, layout and relation; at full size also rows of the distributed engines."""
    rows = []
    engine = LocalEngine(threads=1)
    for name, layout, aggregate, relation in cases():
        found = Found()
        for clustered in (False, True) if size is Size.FULL else (False,):
            steps = max(_STEPS[size], _STEPS_OF_PARTITIONS if layout.partition is not None else 0)
            search(replace(layout, clustered_by_unit=clustered), aggregate, relation, steps, engine, found)
        rows.append(row_of("local", name, aggregate, relation, found))
        if size is Size.FULL and aggregate.name in _DISTRIBUTED and found.worst is not None:
            for other, made in (("beam", beam_engine), ("spark", spark_engine)):
                again = Found()
                again.add(measured(found.worst, aggregate, relation, made()), found.worst)
                rows.append(row_of(other, name, aggregate, relation, again))
    return rows


_TABLE_FILTER = RowFilter((Condition("colour", ("red", "blue", "pink")), Condition("age", low=10, high=90)))
_BASKET_FILTER = RowFilter((Condition("film", low=2, high=9),))
_IN_ONE = Partition("colour", Values.TEXT, ("red", "blue", "pink"), UnitsIn.ONE)
_IN_TWO = Partition("shop", Values.INTEGER, (1, 2, 5), UnitsIn.MANY, 2)


def cases() -> Iterator[tuple[str, Layout, Aggregate, Neighbours]]:
    """Every aggregate of eight layouts, two with a filter of rows and two with partitions, under both relations.

    Replacing a unit leaves the number of units as it is. Partitions are released for units that are added or removed;
    what counts is how far a unit moves the releases of all partitions together.
    """
    layouts: dict[str, Layout] = {
        "table, 1 row": data.table_layout(1, False),
        "table, 3 rows": data.table_layout(3, False),
        "baskets, 3 items": data.basket_layout(3, False),
        "baskets, all items": data.basket_layout(None, False),
        "table, 2 rows, filtered": replace(data.table_layout(2, False), where=_TABLE_FILTER),
        "baskets, 3 items, filtered": replace(data.basket_layout(3, False), where=_BASKET_FILTER),
        "table, 2 rows, units in one partition": replace(data.table_layout(2, False), partition=_IN_ONE),
        "baskets, 3 items, units in two partitions": replace(data.basket_layout(3, False), partition=_IN_TWO),
    }
    for name, layout in layouts.items():
        for aggregate in aggregates(layout):
            for relation in Neighbours:
                if relation is ADD or (layout.partition is None and not isinstance(aggregate.queries, UnitCount)):
                    yield name, layout, aggregate, relation


def row_of(engine: str, layout: str, aggregate: Aggregate, relation: Neighbours, found: Found) -> Row:
    """One line of the table."""
    cells: dict[str, str | int | float | bool] = {
        "engine": engine,
        "layout": layout,
        "aggregate": aggregate.name,
        "neighbours": "add/remove" if relation is ADD else "replace",
        "pairs": found.pairs,
        "largest L1 ratio": found.l1,
        "largest L2 ratio": found.squared_l2,
        "pairs above": found.exceeded,
    }
    return Row(cells, passed=found.pairs > 0 and not found.exceeded)


def search(
    layout: Layout,
    aggregate: Aggregate,
    relation: Neighbours,
    steps: int,
    engine: Engine,
    found: Found,
    seed: int = SEED,
    *,
    until_exceeded: bool = False,
) -> None:
    """Hill climbing from random starts, a new one after a sixth of the steps.

    steps: Number of pairs to measure.
    found: Receives the figures.
    until_exceeded: The first pair above what is charged ends the search.
    """
    draw = np.random.default_rng([seed, steps])
    with TemporaryDirectory(dir=_memory()) as name:
        exact = _Exact(Path(name), aggregate, engine, draw)
        restart = max(2, steps // 6)
        pair, best = None, -1.0
        for step in range(steps):
            if step % restart == 0:
                pair, best = None, -1.0
            tried = _start(layout, relation, draw) if pair is None else _changed(pair, draw)
            moved = influence(exact.of(tried, 1), exact.of(tried, 0), aggregate, relation, layout)
            found.add(moved, tried)
            if until_exceeded and found.exceeded:
                return
            score = moved.l1 if step // restart % 2 else moved.squared_l2
            if score >= best:
                pair, best = tried, score


def measured(pair: Pair, aggregate: Aggregate, relation: Neighbours, engine: Engine) -> Influence:
    """The influence of one pair on an engine."""
    draw = np.random.default_rng(SEED)
    with TemporaryDirectory() as name:
        exact = _Exact(Path(name), aggregate, engine, draw)
        return influence(exact.of(pair, 1), exact.of(pair, 0), aggregate, relation, pair.world.layout)


class _Exact:
    """Exact answers about the two sides of a pair; each side is written and counted once."""

    def __init__(self, folder: Path, aggregate: Aggregate, engine: Engine, draw: np.random.Generator) -> None:
        self._folder, self._aggregate, self._engine, self._draw = folder, aggregate, engine, draw
        self._numbers = count()
        self._known: dict[int, tuple[object, NDArray[np.int64]]] = {}

    def of(self, pair: Pair, side: int) -> NDArray[np.int64]:
        unit = pair.second if side else pair.first
        key = (id(pair.world), None if unit is None else id(unit))
        if side in self._known and self._known[side][0] == key:
            return self._known[side][1]
        folder = self._folder / str(next(self._numbers))
        # A unit that replaces another one may have its name or one of its own, and so another keyed hash.
        number = 1000 if side and len(unit or ()) % 2 else 0
        data.write(pair.world, data.whole(pair.world, unit, number), folder, self._draw)
        counted = answers(self._engine, folder, pair.world.layout, self._aggregate)
        shutil.rmtree(folder)
        self._known[side] = (key, counted)
        return counted


def _start(layout: Layout, relation: Neighbours, draw: np.random.Generator) -> Pair:
    world = data.random_world(layout, draw)
    second = data.random_unit(world, draw) if relation is REPLACE else None
    return Pair(world, data.random_unit(world, draw), second)


def _changed(pair: Pair, draw: np.random.Generator) -> Pair:
    """The pair with rows of one of its units changed."""
    if pair.second is not None and draw.random() < 0.5:
        return Pair(pair.world, pair.first, data.changed_unit(pair.world, pair.second, draw))
    return Pair(pair.world, data.changed_unit(pair.world, pair.first, draw), pair.second)


@contextmanager
def bounded_per_file() -> Iterator[None]:
    """A planted fault: the local engine bounds a unit's rows in each file on its own, and counts it in each."""

    def over_files(_engine: LocalEngine, source: object, task: Callable[[object], object]) -> Iterator[object]:
        for file in source.files:  # type: ignore[attr-defined]
            yield task(read_batches(source, file))  # type: ignore[arg-type]

    with mock.patch.object(LocalEngine, "over_whole_units", over_files):
        yield


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
