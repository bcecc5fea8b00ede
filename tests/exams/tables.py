"""The tables that are examined, as small integer codes, each split into three samples."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from tests.support.datasets import folder

Codes = npt.NDArray[np.int64]

ADULT_ORDERED = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
CENSUS_ORDERED = ("age", "children", "income", "moved_in")


@dataclass(frozen=True, eq=False)
class Table:
    """A table of codes.

    sizes: Number of codes of each attribute; it is public. ordered: Attributes whose codes are numbers and not names.
    secret: The attribute that an attack guesses, and that a classifier predicts.
    """

    name: str
    columns: dict[str, Codes]
    sizes: dict[str, int]
    ordered: tuple[str, ...]
    secret: str

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def take(self, indices: Codes) -> Table:
        columns = {name: codes[indices] for name, codes in self.columns.items()}
        return Table(self.name, columns, self.sizes, self.ordered, self.secret)

    def write(self, path: Path, *, unit: bool) -> Path:
        """Writes a row per unit, with the column person_id where ``unit`` is set."""
        path.parent.mkdir(parents=True, exist_ok=True)
        numbers = {"person_id": np.arange(self.rows)} if unit else {}
        pq.write_table(pa.table({**numbers, **self.columns}), path)
        return path


@dataclass(frozen=True, eq=False)
class Parts:
    """Three samples of a table: people who are released, people held out, and others as a reference."""

    released: Table
    held_out: Table
    reference: Table


def split(table: Table, seed: int) -> Parts:
    """Three equal parts in random order."""
    order = np.random.default_rng(seed).permutation(table.rows)
    third = table.rows // 3
    return Parts(*(table.take(order[start : start + third]) for start in range(0, 3 * third, third)))


def adult() -> Table | None:
    """Adult with 15 attributes as in the experiments of AIM; None where the shared data are absent."""
    path = folder() / "tabular" / "adult"
    if not path.is_dir():
        return None
    rows = pa.concat_tables([pq.read_table(part) for part in sorted(path.glob("*.parquet"))])
    sizes = json.loads((path / "domain.json").read_text())
    columns = {name: rows[name].to_numpy().astype(np.int64) for name in sizes}
    return Table("adult", columns, sizes, ADULT_ORDERED, "income>50K")


def census(path: Path) -> Table:
    """What ``marquee generate table`` wrote to ``path``, in the bins of the schema that it wrote beside."""
    schema = yaml.safe_load(Path(f"{path}.schema.yaml").read_text())["attributes"]
    rows = pa.concat_tables([pq.read_table(part) for part in sorted(path.glob("*.parquet"))])
    coded = {one["name"]: _coded(rows[one["name"]], one) for one in schema}
    columns = {name: codes for name, (codes, _) in coded.items()}
    return Table("census", columns, {name: size for name, (_, size) in coded.items()}, CENSUS_ORDERED, "owns_home")


def _coded(column: pa.ChunkedArray, attribute: dict[str, Any]) -> tuple[Codes, int]:
    """The codes of a column and how many there are; values outside the schema share the last code."""
    if attribute["type"] == "boolean":
        return column.to_numpy(zero_copy_only=False).astype(np.int64), 2
    if attribute["type"] == "categorical":
        number = {value: code for code, value in enumerate(attribute["values"])}
        size = len(number) + 1
        return np.array([number.get(value, size - 1) for value in column.to_pylist()]), size
    edges = _edges(attribute)
    values = column.to_numpy(zero_copy_only=False)
    inner = np.asarray(edges[1:-1], dtype=values.dtype)
    known = np.searchsorted(inner, values, side="right")
    return known.astype(np.int64), len(edges) - 1


def _edges(attribute: dict[str, Any]) -> list[Any]:
    if "edges" in attribute:
        return list(attribute["edges"])
    bins = attribute["bins"]
    return list(np.geomspace(bins["low"], bins["high"], math.floor(bins["count"]) + 1))
