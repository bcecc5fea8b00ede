"""Generated neighbours: small datasets in memory, and raw Parquet rows that go through the whole pipeline.

Each seed makes one pair, always the same one. The data hold what has broken other systems: units with nothing, with
everything or alone, several rows a unit and more than the bound, categories and items that nobody listed, nulls, NaN,
infinities, extreme numbers, and files in which the rows of the neighbour lie in another order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpcore.domain import BinaryView, Domain
from dpcore.exact_statistics import Statistics
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.queries import Conjunctions, Itemsets, UnitCount
from dpcore.queries.ranges import all_ranges, prefix, range_marginals
from dpcore.testing.doubles import REPLACE
from dpcore.testing.tiny_statistics import TinyBaskets
from dpcore.workload import Workload, explicit, frequent
from pipelines.attributes import Attribute
from pipelines.attributes import Kind as Type
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.layout import BasketLayout, Layout, TableLayout
from pipelines.schema import Schema
from pipelines.source import open_source
from tests.audit.mechanism_table import Kind
from tests.audit.worst_pairs import Cells
from tests.support.engine_cases import SALT, SCHEMA, SUMS, write_parts

Row = tuple[Any, ...]
Columns = Mapping[str, tuple[list[Any], pa.DataType]]  # What each may hold, and its type in the files.
_FRACTIONS = [0.0, 17.5, 18.5, 65.0, 90.0, -1e308, 5e-324, -0.0, float("nan"), float("inf"), -float("inf"), None]
_EUROS = [Decimal("-99999.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("12.50"), None]
_INTEGERS = [0, 9, 10, 2**40, 2**63 + 1, 2**64 - 1, None]
_MOMENTS = [-1, 863_999_999_999_999, 864_000_000_000_000, 2**52, None]
_WITH_SUMS = Schema((*SCHEMA.attributes, *SUMS))
# Of its columns.
_RAW: Columns = {
    "colour": (["red", "green", "blue", "pink", "", "__other__", "a new one", None], pa.string()),
    "level": ([1, 2, 3, 4, -1, 2**31 - 1, None], pa.int32()),
    "age": (_FRACTIONS, pa.float64()),
    "amount_eur": (_EUROS, pa.decimal128(9, 2)),
    "big": (_INTEGERS, pa.uint64()),
    "day": (_MOMENTS, pa.timestamp("us", "UTC")),
    "member": ([True, False, None], pa.bool_()),
}
_BITS = Schema(
    (
        Attribute("colour", Type.CATEGORICAL, values=("red", "green"), other="green", null=False),
        Attribute("level", Type.CATEGORICAL, values=(3,), other=True, null=False),
        Attribute("age", Type.FLOAT, edges=(0.0, 18.5, 65.0), null=False),
        Attribute("member", Type.BOOLEAN, null=False),
    )
)
_ITEMS = [*range(6), *range(3), -1, 6, 2**40, -(2**63), None]


@dataclass(frozen=True, eq=False)
class NeighbourPair:
    """Two datasets that differ by one unit, what is asked of them, and who is protected."""

    first: Statistics
    neighbour: Statistics
    workload: Workload
    unit: PrivacyUnit


@dataclass(frozen=True)
class Changed:
    """Units before and after: lists of rows. The last unit is the one that is added, or the one that is replaced."""

    first: Sequence[Sequence[Row]]
    neighbour: Sequence[Sequence[Row]]


def pair(
    kind: Kind,
    relation: Neighbours,
    seed: int,
    folder: Path | None = None,
    *,
    one_row: bool,
    positive: bool = False,
    min_items: int = 1,
) -> NeighbourPair:
    """The pair of one seed. folder: Where to write Parquet files for the pipeline; None for data in memory.

    one_row: Units of a table hold one row at most. positive: No literal is negated. min_items: Of baskets in memory.
    """
    draw = np.random.default_rng([seed, list(Kind).index(kind), int(relation is REPLACE), int(folder is None)])
    bound = 1 if one_row else int(draw.integers(1, 4))
    if folder is None:
        first, neighbour, workload = _in_memory(kind, relation, draw, bound, min_items)
    else:
        first, neighbour, workload = _in_files(kind, relation, draw, bound, folder)
    # Clustered data lose the units that lie in several files, so that replacing a unit may change their number.
    units = max(int(side.aggregate(UnitCount())[0]) for side in (first, neighbour))
    public = max(1, units) if relation is REPLACE or draw.random() < 0.4 else None
    if positive:
        workload = _without_negations(workload)
    return NeighbourPair(first, neighbour, workload, PrivacyUnit(relation, first.contribution, public))


def _in_memory(
    kind: Kind, relation: Neighbours, draw: np.random.Generator, bound: int, min_items: int
) -> tuple[Statistics, Statistics, Workload]:
    if kind in (Kind.BASKETS, Kind.ITEMSETS):
        view, most = BinaryView(int(draw.integers(min_items, 7))), int(draw.integers(1, 7))
        changed = _changed(relation, draw, lambda: [_basket(draw, view.columns, min(most, view.columns))])
        first, neighbour = (
            TinyBaskets(view, np.array(side, dtype=np.bool_).reshape(len(side), view.columns), most)
            for side in (changed.first, changed.neighbour)
        )
        return first, neighbour, _of_baskets(kind, view, draw)
    sizes = draw.integers(1, 5, size=draw.integers(1, 5)).tolist()
    if kind is Kind.BITS:
        sizes = [2] * len(sizes)
    domain = Domain.of({f"x{place}": size for place, size in enumerate(sizes)})
    favourite = tuple(int(code) for code in draw.integers(0, sizes))

    def unit() -> list[Row]:
        rows = int(draw.integers(1, bound + 1))
        return [favourite if draw.random() < 0.5 else tuple(draw.integers(0, sizes).tolist()) for _ in range(rows)]

    changed = _changed(relation, draw, unit)
    sides = [_cells(domain, side, bound) for side in (changed.first, changed.neighbour)]
    return sides[0], sides[1], _workload(kind, domain, draw)


def _in_files(
    kind: Kind, relation: Neighbours, draw: np.random.Generator, bound: int, folder: Path
) -> tuple[Statistics, Statistics, Workload]:
    """Units hold up to twice as much as the bound; rows without a unit are in both datasets alike."""
    layout, columns = _layout(kind, bound, draw)
    files, text = int(draw.integers(1, 4)), bool(draw.random() < 0.3)
    changed = _changed(relation, draw, lambda: _raw_unit(layout, columns, files, draw))
    strangers = _raw_unit(layout, columns, files, draw)
    names = list(range(len(changed.first) + 1))
    # The unit that replaces another one may have a name of its own, and so another keyed hash.
    renamed = [*names[: len(changed.neighbour) - 1], 1000] if relation is REPLACE and draw.random() < 0.5 else names
    sides = []
    for name, side, numbers in (("first", changed.first, names), ("neighbour", changed.neighbour, renamed)):
        keys = [f"person {number}" if text else 7 * number - 20 for number in numbers[: len(side)]]
        rows = [(key, *row) for key, held in zip([*keys, None], [*side, strangers], strict=True) for row in held]
        write_parts(_tables(rows, columns, files, draw), folder / name)
        sides.append(EngineStatistics(LocalEngine(threads=1), open_source(str(folder / name), layout, SALT)))
    if isinstance(layout, BasketLayout):
        return sides[0], sides[1], _of_baskets(kind, layout.view, draw)
    return sides[0], sides[1], _workload(kind, layout.schema.domain, draw)


def _layout(kind: Kind, bound: int, draw: np.random.Generator) -> tuple[Layout, Columns]:
    clustered = bool(draw.random() < 0.4)
    if kind in (Kind.BASKETS, Kind.ITEMSETS):
        items = {"item": (_ITEMS, pa.int64())}
        return BasketLayout("unit", "item", 6, int(draw.integers(1, 7)), clustered), items
    schema = Schema(_some_attributes(_BITS if kind is Kind.BITS else _WITH_SUMS, draw))
    columns = {column: _RAW[column] for attribute in schema.attributes for column in attribute.columns}
    return TableLayout("unit", schema, bound, clustered), columns


def _raw_unit(layout: Layout, columns: Columns, files: int, draw: np.random.Generator) -> list[Row]:
    """Rows of one unit, each its file and then its values. Some units break the claim that data are clustered."""
    rows = int(draw.integers(1, 2 * layout.contribution.bound + 2))
    together = layout.clustered_by_unit and draw.random() < 0.8
    places = np.full(rows, draw.integers(files)) if together else draw.integers(files, size=rows)
    return [(place, *(values[int(draw.integers(len(values)))] for values, _ in columns.values())) for place in places]


def _changed(relation: Neighbours, draw: np.random.Generator, unit: Any) -> Changed:
    """A few units, often none or one; the neighbour has one more, or another one in place of the last."""
    count = int(draw.choice([0, 1, 2, 5, 12]))
    if relation is REPLACE:
        units = [unit() for _ in range(max(1, count))]
        return Changed(units, [*units[:-1], unit()])
    units = [unit() for _ in range(count)]
    more = [*units, unit()]
    return Changed(units, more) if draw.random() < 0.5 else Changed(more, units)


def _tables(rows: Sequence[Row], columns: Columns, files: int, draw: np.random.Generator) -> list[pa.Table]:
    """One table a file, its rows in a random order. rows: Unit, file and values."""
    ordered = [rows[place] for place in draw.permutation(len(rows)).tolist()]
    text = any(isinstance(row[0], str) for row in rows)
    types = {"unit": pa.string() if text else pa.int64(), **{name: kind for name, (_, kind) in columns.items()}}
    tables = []
    for file in range(files):
        cells = [(row[0], *row[2:]) for row in ordered if row[1] == file]
        arrays = [pa.array([row[place] for row in cells], kind) for place, kind in enumerate(types.values())]
        tables.append(pa.table(arrays, names=list(types)))
    return tables


def _some_attributes(schema: Schema, draw: np.random.Generator) -> tuple[Attribute, ...]:
    chosen = draw.choice(len(schema.attributes), size=int(draw.integers(1, 4)), replace=False)
    return tuple(schema.attributes[place] for place in np.sort(chosen).tolist())


def _basket(draw: np.random.Generator, items: int, most: int) -> Row:
    size = most if draw.random() < 0.3 else int(draw.integers(1, most + 1))
    held = np.zeros(items, dtype=np.bool_)
    held[draw.choice(items, size=size, replace=False)] = True
    return tuple(held.tolist())


def _cells(domain: Domain, units: Sequence[Sequence[Row]], bound: int) -> Cells:
    counts = np.zeros(domain.sizes, dtype=np.int64)
    for rows in units:
        for row in rows:
            counts[row] += 1
    return Cells(domain, counts, len(units), bound)


def _workload(kind: Kind, domain: Domain, draw: np.random.Generator) -> Workload:
    if kind is Kind.CONJUNCTIONS:
        return _conjunctions(BinaryView.one_hot(domain), draw)
    cliques = {}
    for _ in range(int(draw.integers(1, 5))):
        order = int(draw.integers(1, len(domain.names) + 1))
        clique = domain.canonical(draw.choice(np.array(domain.names), size=order, replace=False).tolist())
        cliques[clique] = float(draw.choice([0.1, 1.0, 7.0]))
    if kind is Kind.RANGES:
        kinds = [(prefix, all_ranges)[int(draw.integers(2))] for _ in domain.names]
        rows = {name: rows_of(size) for name, size, rows_of in zip(domain.names, domain.sizes, kinds, strict=True)}
        return Workload(range_marginals(domain, list(cliques), rows), np.array(list(cliques.values())))
    return explicit(domain, cliques)


def _of_baskets(kind: Kind, view: BinaryView, draw: np.random.Generator) -> Workload:
    """Conjunctions, or itemsets of either order by rank or by support."""
    if kind is Kind.BASKETS:
        return _conjunctions(view, draw)
    order, top = int(draw.integers(2, 4)), int(draw.choice([1, 3, 100]))
    limits = {"top": top} if draw.random() < 0.5 else {"min_support": Fraction(int(draw.integers(1, 10)), 10)}
    return frequent(Itemsets(view, order, **limits))


def _conjunctions(view: BinaryView, draw: np.random.Generator) -> Workload:
    """Of one order, some alike, some impossible; with weights."""
    order, count = int(draw.integers(1, min(3, view.columns) + 1)), int(draw.integers(1, 9))
    columns = np.array([draw.choice(view.columns, size=order, replace=False) for _ in range(count)])
    queries = Conjunctions(view, columns, draw.random(columns.shape) < 0.3)
    return Workload(queries, draw.choice([0.5, 1.0, 3.0], size=count))


def _without_negations(workload: Workload) -> Workload:
    queries = workload.queries
    assert isinstance(queries, Conjunctions)
    plain = Conjunctions(queries.view, queries.columns, np.zeros_like(queries.negated))
    return Workload(plain, workload.weights)
