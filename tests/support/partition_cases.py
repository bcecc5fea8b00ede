"""Messy datasets in partitions, how they lie in files, and the slow, obvious reference of what a release counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.partition import Partition, UnitsIn, Values
from tests.support.engine_cases import Case
from tests.support.reference import Row

COLUMN = "block"
_VALUES: dict[Values, tuple[list[object], pa.DataType]] = {
    Values.TEXT: (["north", "south", "", "øst", "z" * 40, None], pa.string()),
    Values.INTEGER: ([-3, 0, 7, 8, 2**40, None], pa.int64()),
    Values.DATE: ([date(1969, 12, 31), date(2026, 1, 1), date(2026, 1, 2), date(2026, 2, 1), None], pa.date32()),
}
_CHOICES = {
    Values.TEXT: (("north",), ("south", "øst", "never")),
    Values.INTEGER: ((7,), (0, 8, 9)),
    Values.DATE: ((20_454,), (20_454, 20_455, 20_456)),
}


def partitioned(case: Case, values: Values, seed: int = 3) -> Case:
    """The case with a partition for each row: half of the units stay in one, the others move about."""
    draw = np.random.default_rng(seed)
    unit = case.rows.column(case.layout.unit).to_pylist()
    known, kind = _VALUES[values]
    home = {name: int(draw.integers(len(known))) for name in dict.fromkeys(unit)}
    stays = {name: bool(draw.random() < 0.6) for name in home}
    chosen = [known[home[name] if stays[name] else int(draw.integers(len(known)))] for name in unit]
    return replace(case, rows=case.rows.append_column(COLUMN, pa.array(chosen, kind)))


def rules(values: Values) -> list[Partition]:
    """Every kind of bound, on one partition and on several."""
    bounds = [(UnitsIn.ONE, None), (UnitsIn.MANY, 1), (UnitsIn.MANY, 2), (UnitsIn.MANY, None)]
    return [
        Partition(COLUMN, values, chosen, units_in, bound) for units_in, bound in bounds for chosen in _CHOICES[values]
    ]


def write_folders(rows: pa.Table, folder: Path, files: int = 2) -> list[list[dict[str, object]]]:
    """Writes each partition as files in a folder of its own, as Hive does; returns the rows of each file."""
    written = []
    for value in pc.unique(rows.column(COLUMN).combine_chunks()).to_pylist():
        held = pc.is_null(rows.column(COLUMN)) if value is None else pc.equal(rows.column(COLUMN), value)
        part = rows.filter(held.fill_null(False))
        name = "__HIVE_DEFAULT_PARTITION__" if value is None else str(value)
        place = folder / f"{COLUMN}={name}"
        place.mkdir(parents=True)
        for number in range(files):
            piece = part.slice(
                number * part.num_rows // files, (number + 1) * part.num_rows // files - number * part.num_rows // files
            )
            pq.write_table(piece.drop_columns([COLUMN]), place / f"{number}.parquet", row_group_size=20)
            written.append(piece.to_pylist())
    return written


def counted(files: Sequence[Sequence[Row]], unit: str, partition: Partition) -> list[list[Row]]:
    """The rows that count: those in a chosen partition, of units in partitions in which they are counted."""
    partitions_of: dict[object, set[object]] = {}
    for row in (row for rows in files for row in rows):
        if row[COLUMN] is not None:
            partitions_of.setdefault(row[unit], set()).add(_key(row[COLUMN]))
    counts_in: dict[object, set[object]] = {}
    for name, held in partitions_of.items():
        ordered = sorted(held)
        if partition.units_in is UnitsIn.ONE:
            counts_in[name] = set(ordered) if len(ordered) == 1 else set()
        else:
            counts_in[name] = set(ordered[: partition.max_per_unit])
    chosen = {_key(value) for value in partition.chosen}
    return [
        [row for row in rows if _key(row[COLUMN]) in chosen and _key(row[COLUMN]) in counts_in.get(row[unit], ())]
        for rows in files
    ]


def _key(value: object) -> object:
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    return value.encode() if isinstance(value, str) else value
