"""Datasets of a few units in raw Parquet rows, and changes of one unit's rows that make it more influential."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.layout import BasketLayout, Layout, TableLayout
from tests.support.engine_cases import SCHEMA

Row = tuple[Any, ...]  # The file of the row, and then its values.
FILES = 3
ITEMS = 12
_TABLE: dict[str, tuple[list[Any], pa.DataType]] = {
    "colour": (["red", "green", "blue", "pink", "", "__other__", "r\u00e9d", "re\u0301d", None], pa.string()),
    "level": ([1, 2, 3, 4, -1, 2**31 - 1, None], pa.int32()),
    "age": ([0.0, 17.5, 18.5, 65.0, 90.0, -1e308, float("nan"), float("inf"), -float("inf"), None], pa.float64()),
    "amount_eur": ([Decimal("-99999.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("12.50"), None],
                   pa.decimal128(9, 2)),
    "big": ([0, 9, 10, 2**40, 2**63 + 1, 2**64 - 1, None], pa.uint64()),
    "day": ([-1, 863_999_999_999_999, 864_000_000_000_000, 2**52, None], pa.timestamp("us", "UTC")),
    "member": ([True, False, None], pa.bool_()),
}  # fmt: skip
_BASKETS: dict[str, tuple[list[Any], pa.DataType]] = {
    "film": ([*range(ITEMS), -1, ITEMS, 2**40, -(2**63), None], pa.int64())
}
_SHOPS: dict[str, tuple[list[Any], pa.DataType]] = {"shop": ([1, 2, 5, -7, 2**31 - 1, None], pa.int32())}
# The types in which the files of one dataset may hold the same id. Integers of two widths are refused.
_NUMBERS = (pa.int64(), pa.dictionary(pa.int32(), pa.int64()))
_TEXTS = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()))


@dataclass(frozen=True)
class World:
    """What does not change in a search.

    layout: The public layout.
    encodings: The type of the unit column in each file.
    text: Whether ids are text.
    others: Rows of all other units, with the unit before the file.
    """

    layout: Layout
    encodings: tuple[pa.DataType, ...]
    text: bool
    others: tuple[Row, ...]

    @property
    def columns(self) -> dict[str, tuple[list[Any], pa.DataType]]:
        """The values that each column may hold, and its type."""
        if isinstance(self.layout, BasketLayout):
            return _BASKETS if self.layout.partition is None else _BASKETS | _SHOPS
        return {attribute.column: _TABLE[attribute.column] for attribute in self.layout.schema.attributes}

    def name(self, number: int) -> Any:
        """The id of a unit."""
        return f"p\u00e9rson {number}" if self.text else 7 * number - 20


def random_world(layout: Layout, draw: np.random.Generator) -> World:
    """Up to four other units, and rows without a unit."""
    text = bool(draw.random() < 0.4)
    kinds = _TEXTS if text else _NUMBERS
    world = World(layout, tuple(kinds[index] for index in draw.integers(len(kinds), size=FILES).tolist()), text, ())
    others: list[Row] = []
    for number in range(1, 1 + int(draw.integers(0, 5))):
        others += [(world.name(number), *row) for row in random_unit(world, draw)]
    others += [(None, *row) for row in random_unit(world, draw)[:2]]
    return replace(world, others=tuple(others))


def random_unit(world: World, draw: np.random.Generator) -> list[Row]:
    """One to a few rows more than the bound."""
    count = int(draw.integers(1, min(8, 2 * world.layout.contribution.bound) + 2))
    rows = [_random_row(world, draw) for _ in range(count)]
    partition = world.layout.partition
    if partition is None or draw.random() < 0.3:
        return rows
    place = 1 + list(world.columns).index(partition.column)  # Most units stay in few partitions.
    size = (partition.limit or 1) + int(draw.random() < 0.2)
    few = draw.permutation(partition.chosen).tolist()[:size]
    return [(*row[:place], few[number % len(few)], *row[place + 1 :]) for number, row in enumerate(rows)]


def changed_unit(world: World, rows: Sequence[Row], draw: np.random.Generator) -> list[Row]:
    """The rows of a unit with one to three changes: a value, the file, a row more, less, twice or in every file."""
    made = list(rows)
    for _ in range(1 + int(draw.integers(3))):
        place = int(draw.integers(len(made)))
        match int(draw.integers(7)):
            case 0:
                made.append(_random_row(world, draw))
            case 1 if len(made) > 1:
                del made[place]
            case 2:
                made.append(made[place])
            case 3:
                made += [(file, *made[place][1:]) for file in range(FILES)]
            case 4:
                made[place] = (int(draw.integers(FILES)), *made[place][1:])
            case 5:  # All rows alike, which is the worst for counts of single cells.
                made = [(row[0], *made[place][1:]) for row in made]
            case _:
                fresh, column = _random_row(world, draw), 1 + int(draw.integers(len(world.columns)))
                made[place] = (*made[place][:column], fresh[column], *made[place][column + 1 :])
    return made[: 4 * FILES * ITEMS]


def write(world: World, rows: Sequence[Row], folder: Path, draw: np.random.Generator) -> None:
    """Writes rows (unit, file, values) in a random order, each file with its own type of the unit column."""
    folder.mkdir(parents=True, exist_ok=True)
    order = draw.permutation(len(rows)).tolist()
    for file, kind in enumerate(world.encodings):
        held = [rows[index] for index in order if rows[index][1] == file]
        arrays = [_units([row[0] for row in held], kind)]
        arrays += [
            pa.array([row[place] for row in held], type_)
            for place, (_, type_) in enumerate(world.columns.values(), start=2)
        ]
        table = pa.table(arrays, names=[world.layout.unit, *world.columns])
        pq.write_table(table, folder / f"part-{file}.parquet", row_group_size=3, use_dictionary=bool(file % 2))


def whole(world: World, unit: Sequence[Row] | None, number: int = 0) -> list[Row]:
    """The rows of a dataset: of the others, and of one unit if there is one."""
    return [*world.others, *((world.name(number), *row) for row in unit or ())]


def _random_row(world: World, draw: np.random.Generator) -> Row:
    values = (values[int(draw.integers(len(values)))] for values, _ in world.columns.values())
    return (int(draw.integers(FILES)), *values)


def _units(values: list[Any], kind: pa.DataType) -> pa.Array:
    if not pa.types.is_dictionary(kind):
        return pa.array(values, kind)
    encoded = pa.array(values, kind.value_type).dictionary_encode()
    return pa.DictionaryArray.from_arrays(encoded.indices.cast(kind.index_type), encoded.dictionary)


def table_layout(bound: int, clustered: bool) -> TableLayout:
    return TableLayout("person", SCHEMA, bound, clustered)


def basket_layout(bound: int | None, clustered: bool) -> BasketLayout:
    return BasketLayout("person", "film", ITEMS, bound, clustered)
