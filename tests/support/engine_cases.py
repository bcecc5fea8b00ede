"""Small messy datasets with their public layouts, and the ways in which their rows can lie in files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dpcore.exact_statistics import QueryAnswers, Request
from dpcore.queries import ClippedSums, Conjunctions, Marginals, Parities, SatisfactionHistogram, UnitCount
from dpcore.queries.generation import random_conjunctions, random_parities
from dpcore.queries.itemsets import all_pairs, positive
from pipelines.item_names import ItemNames
from pipelines.layout import BasketLayout, Layout, TableLayout
from pipelines.schema import Attribute, Kind, Schema

SALT = bytes(range(16))

SCHEMA = Schema(
    (
        Attribute("colour", Kind.CATEGORICAL, values=("red", "green", "blue"), other=True, null=True),
        Attribute("level", Kind.CATEGORICAL, values=(3, 1, 2), other=1, null=False),
        Attribute("age", Kind.FLOAT, edges=(0.0, 18.5, 40.0, 65.0), null=True),
        Attribute("amount", Kind.INTEGER, edges=(-5, 0, 100), null=False, column="amount_eur"),
        Attribute("big", Kind.INTEGER, edges=(0, 10, 2**40)),
        Attribute("day", Kind.DATE, edges=(0, 10_000, 20_000)),
        Attribute("member", Kind.BOOLEAN),
    )
)

SUMS = (
    Attribute("ago", Kind.INTEGER, edges=(0, 5, 10_000, 20_000), sum_of=(("day", -2),), absolute=True, dates=True),
    Attribute("gap", Kind.INTEGER, edges=(-(2**40), 0, 3, 2**40), null=False, sum_of=(("big", 5), ("level", -2))),
    Attribute("total", Kind.FLOAT, edges=(-1e4, 0.5, 30.25, 100.0), sum_of=(("age", 1.5), ("amount_eur", 1))),
    Attribute("half", Kind.INTEGER, edges=(-50, 0, 50), sum_of=(("amount_eur", -2),)),
)
"""Weighted sums of columns of SCHEMA."""


@dataclass(frozen=True, eq=False)
class Case:
    """A dataset in memory.

    rows: Columns of the layout. Units are not in order.
    requests: Asked of it, the most telling one first.
    """

    name: str
    layout: Layout
    rows: pa.Table
    requests: tuple[Request, ...]

    def clustered(self) -> Layout:
        return replace(self.layout, clustered_by_unit=True)


def messy_table(bound: int = 2, seed: int = 0) -> Case:
    """Nulls, NaN, infinities, unknown, extreme and out-of-range values; one to five rows a unit, some without one."""
    draw = np.random.default_rng(seed)
    units = np.repeat(np.arange(60) * 7 - 100, draw.integers(1, 6, size=60))
    count = units.size
    layout = TableLayout("person", SCHEMA, max_rows_per_unit=bound)
    columns = {
        "person": _some(draw, units.tolist(), pa.int64(), nulls=0.05),
        "colour": _drawn(
            draw, ["red", "green", "blue", "pink", "", "__other__"], count, pa.string()
        ).dictionary_encode(),
        "level": _drawn(draw, [1, 2, 3, 4, -1, 2**31 - 1], count, pa.int32()),
        "age": _drawn(draw, [0.0, 17.5, 18.5, 65.0, 90.0, -1e308, float("nan"), float("inf")], count, pa.float64()),
        "amount_eur": _drawn(
            draw,
            [Decimal("-99999.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("12.50")],
            count,
            pa.decimal128(9, 2),
        ),
        "big": _drawn(draw, [0, 9, 10, 2**63 + 1, 2**64 - 1], count, pa.uint64()),
        "day": _drawn(draw, [-1, 863_999_999_999_999, 864_000_000_000_000, 2**52], count, pa.timestamp("us", "UTC")),
        "member": _drawn(draw, [True, False], count, pa.bool_()),
    }
    return Case(
        f"table with {bound} rows a unit", layout, _shuffled(pa.table(columns), draw), table_requests(layout, draw)
    )


def text_units(seed: int = 1) -> Case:
    """A table whose units are texts, the empty one and one of many bytes among them, with one row a unit kept."""
    draw = np.random.default_rng(seed)
    names = ["", "a", "ab", "Ünïcödé", "x" * 300, *(f"user-{number:04d}" for number in range(60))]
    rows = np.array(names, dtype=object)[draw.integers(0, len(names), size=200)].tolist()
    layout = TableLayout("name", Schema(SCHEMA.attributes[:2]))
    columns = {
        "name": _some(draw, rows, pa.string(), nulls=0.05),
        "colour": _drawn(draw, ["red", "green", "pink"], 200, pa.large_string()),
        "level": _drawn(draw, [1, 2, 3, 4], 200, pa.uint8()),
    }
    return Case("table with text units", layout, pa.table(columns), table_requests(layout, draw))


def messy_baskets(bound: int | None = 3, seed: int = 2) -> Case:
    """Pairs given twice, without unit or item, and with items that are not in the catalogue; some units hold none."""
    draw = np.random.default_rng(seed)
    units = draw.integers(0, 150, size=700)
    layout = BasketLayout("user", "film", 12, max_items_per_unit=bound)
    items = [*range(12), *range(6), *range(3), -1, 12, 2**40, -(2**63)]
    columns = {
        "user": _some(draw, units.tolist(), pa.int32(), nulls=0.03),
        "film": _drawn(draw, items, 700, pa.int64()),
    }
    strangers = {"user": pa.array([900, 901], pa.int32()), "film": pa.array([-7, None], pa.int64())}
    rows = _shuffled(pa.concat_tables([pa.table(columns), pa.table(strangers)]), draw)
    conjunctions = random_conjunctions(layout.view, 60, 3, draw, negate=True)
    nothing = Conjunctions(layout.view, np.array([[0, 1, 2, 3]]), np.ones((1, 4), dtype=np.bool_))
    parities = QueryAnswers(random_parities(layout.view, 40, 3, draw))
    requests = (
        QueryAnswers(conjunctions),
        QueryAnswers(nothing),
        UnitCount(),
        *clipped_requests(layout, draw),
        parities,
    )
    return Case(f"baskets of at most {bound}", layout, rows, requests)


def named_baskets() -> Case:
    """The messy baskets with names in place of most numbers; the list gives them other codes."""
    case = messy_baskets()
    assert isinstance(case.layout, BasketLayout)
    films = [None if film is None else f"film {film}" for film in case.rows["film"].to_pylist()]
    names = ItemNames.of([f"film {(5 * code) % 12}" for code in range(12)])
    rows = case.rows.set_column(1, "film", pa.array(films, pa.string()))
    return replace(case, name="baskets of named items", layout=replace(case.layout, names=names), rows=rows)


def cases() -> list[Case]:
    """One of every kind."""
    return [
        messy_table(), earliest_rows(), text_units(), sums(), messy_baskets(), messy_baskets(bound=None),
        named_baskets(),
    ]  # fmt: skip


def sums() -> Case:
    """Weighted sums of columns of the messy table, some of whose values are extreme, not finite or null."""
    case = messy_table()
    layout = TableLayout("person", Schema((SCHEMA.attributes[1], *SUMS)), max_rows_per_unit=2)
    return Case("table of sums", layout, case.rows, table_requests(layout, np.random.default_rng(3)))


def earliest_rows() -> Case:
    """The messy table, of which each unit keeps the rows of its first colours."""
    case = messy_table()
    assert isinstance(case.layout, TableLayout)
    return replace(case, name="table of the earliest rows", layout=replace(case.layout, earliest="colour"))


def write(rows: pa.Table, folder: Path, files: int) -> list[list[dict[str, object]]]:
    """Writes the rows in their order as ``files`` files of two row groups or more; returns the rows of each file."""
    folder.mkdir(parents=True, exist_ok=True)
    stops = np.linspace(0, rows.num_rows, files + 1).astype(int).tolist()
    parts = [rows.slice(start, stop - start) for start, stop in pairwise(stops)]
    return write_parts(parts, folder)


def write_clustered(rows: pa.Table, unit: str, folder: Path, files: int) -> list[list[dict[str, object]]]:
    """Writes all rows of a unit to one file, in any order within it; rows without a unit to every file in turn."""
    folder.mkdir(parents=True, exist_ok=True)
    column = rows.column(unit)
    filled = column.fill_null("") if pa.types.is_string(column.type) else column.fill_null(0)
    place = np.asarray(pc.rank(filled, tiebreaker="dense").to_numpy()) % files
    return write_parts([rows.filter(pa.array(place == number)) for number in range(files)], folder)


def write_parts(parts: Sequence[pa.Table], folder: Path) -> list[list[dict[str, object]]]:
    """One file for each part."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(parts):
        pq.write_table(part, folder / f"part-{number:05d}.parquet", row_group_size=max(1, part.num_rows // 2))
    return [part.to_pylist() for part in parts]


def table_requests(layout: TableLayout, draw: np.random.Generator) -> tuple[Request, ...]:
    """Requests of every kind about a table."""
    domain = layout.schema.domain
    cliques = [clique for order in (0, 1, 2) for clique in combinations(domain.names, order)]
    conjunctions = random_conjunctions(layout.view, 40, 2, draw, negate=True)
    rest = clipped_requests(layout, draw) if layout.max_rows_per_unit == 1 else ()
    # Of any columns, also several of one attribute.
    sets = [draw.choice(layout.view.columns, size=order, replace=False) for order in (1, 2, 3) for _ in range(12)]
    parities = Parities.of_sets(layout.view, sets)
    counted = (Marginals(domain, tuple(cliques)), conjunctions, parities)
    return *map(QueryAnswers, counted), UnitCount(), *rest


def clipped_requests(layout: Layout, draw: np.random.Generator) -> tuple[Request, ...]:
    """A histogram and clipped sums, over one group, over three of different clips, and of all pairs of some items."""
    queries = random_conjunctions(layout.view, 14, 2, draw)
    groups = np.arange(14, dtype=np.int32) % 3
    clips = (2, 0.5, 1)
    return (
        SatisfactionHistogram(queries, groups),
        ClippedSums.of(queries, clips, groups, factors=(1, 2, 0.75)),
        SatisfactionHistogram(queries),
        SatisfactionHistogram(queries, None, np.array([0, 1, 2, 3, 7])),
        ClippedSums.of(queries, [1], norm=1),
        *(_pair_requests(layout) if isinstance(layout, BasketLayout) else ()),
    )


def _pair_requests(layout: BasketLayout) -> tuple[Request, ...]:
    """Requests of all pairs of some items, which are counted unit by unit."""
    pairs = positive(layout.view, all_pairs(np.arange(0, layout.items, 2, dtype=np.int32)))
    return SatisfactionHistogram(pairs), ClippedSums.of(pairs, [1.5])


def _drawn(draw: np.random.Generator, values: list[object], count: int, kind: pa.DataType) -> pa.Array:
    return _some(draw, [values[place] for place in draw.integers(0, len(values), size=count)], kind, nulls=0.1)


def _some(draw: np.random.Generator, values: list[object], kind: pa.DataType, nulls: float) -> pa.Array:
    kept = draw.random(len(values)) >= nulls
    return pa.array([value if keep else None for value, keep in zip(values, kept, strict=True)], type=kind)


def _shuffled(rows: pa.Table, draw: np.random.Generator) -> pa.Table:
    return rows.take(pa.array(draw.permutation(rows.num_rows)))
