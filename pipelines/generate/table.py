"""Writes a census-like table: ten correlated attributes of all types, with some nulls, generated from a seed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import yaml
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from pipelines.generate.checks import empty_folder, want_at_least, want_blocks_for

ROWS_AT_ONCE = 16_384
UNIT = "person_id"
REGIONS = ("north", "east", "south", "west")
SEXES = ("female", "male")
SCHOOLING = ("none", "primary", "secondary", "tertiary")
MARITAL = ("single", "married", "divorced", "widowed")
OCCUPATIONS = ("clerical", "craft", "manual", "professional", "sales", "services")
_CENSUS_DAY = date(2026, 1, 1)
# Probabilities of each occupation, one row per level of schooling.
_OCCUPATION_OF_SCHOOLING = np.array(
    [
        [0.04, 0.22, 0.48, 0.01, 0.05, 0.20],
        [0.08, 0.26, 0.34, 0.03, 0.09, 0.20],
        [0.22, 0.18, 0.14, 0.14, 0.16, 0.16],
        [0.14, 0.04, 0.02, 0.64, 0.11, 0.05],
    ]
)
# Probabilities of each marital status, one row per age band: under 30, under 45, under 65, older.
_MARITAL_OF_AGE = np.array(
    [[0.80, 0.18, 0.02, 0.00], [0.30, 0.58, 0.11, 0.01], [0.12, 0.66, 0.18, 0.04], [0.06, 0.56, 0.12, 0.26]]
)
_FIELDS = [
    pa.field(UNIT, pa.int64(), nullable=False),
    pa.field("region", pa.string()),
    pa.field("age", pa.int32()),
    pa.field("sex", pa.string()),
    pa.field("schooling", pa.string()),
    pa.field("marital", pa.string()),
    pa.field("occupation", pa.string()),
    pa.field("children", pa.int32()),
    pa.field("income", pa.float64()),
    pa.field("owns_home", pa.bool_()),
    pa.field("moved_in", pa.date32()),
]
ARROW_SCHEMA = pa.schema(_FIELDS)
TABLE_SCHEMA = {
    "version": 1,
    "attributes": [
        {"name": "region", "type": "categorical", "values": list(REGIONS), "other": False, "null": False},
        {"name": "age", "type": "integer", "edges": [18, 30, 45, 65, 100], "null": False},
        {"name": "sex", "type": "categorical", "values": list(SEXES), "other": False, "null": False},
        {"name": "schooling", "type": "categorical", "values": list(SCHOOLING), "other": False, "null": True},
        {"name": "marital", "type": "categorical", "values": list(MARITAL), "other": False, "null": False},
        {"name": "occupation", "type": "categorical", "values": list(OCCUPATIONS), "other": True, "null": True},
        {"name": "children", "type": "integer", "edges": [0, 1, 2, 3, 10], "null": False},
        {"name": "income", "type": "float", "bins": {"low": 5_000, "high": 160_000, "count": 5, "scale": "log"}},
        {"name": "owns_home", "type": "boolean", "null": False},
        {
            "name": "moved_in",
            "type": "date",
            "edges": [date(1960, 1, 1), date(1990, 1, 1), date(2010, 1, 1), date(2020, 1, 1), _CENSUS_DAY],
            "null": False,
        },
    ],
}


def write_table(folder: str | Path, *, rows: int, files: int | None = None, seed: int = 0) -> Path:
    """Writes one row per person, with the unit column person_id, and the schema beside, NAME.schema.yaml.

    folder: A new or empty folder, or the name of one CSV file, which ends in .csv.
    rows: Number of people, at least 1.
    files: Number of Parquet files, at most one per 16,384 rows; None for two, or one for fewer rows or a CSV file.
    seed: Public seed, at least 0. The rows depend only on ``rows`` and ``seed``.

    Returns: The schema file.
    Raises: ConfigError when a size is out of range, the folder is not empty, or a file exists already.
    """
    want_at_least(1, rows=rows)
    want_at_least(0, seed=seed)
    blocks = -(-rows // ROWS_AT_ONCE)
    folder = Path(folder)
    one_file = folder.suffix == ".csv"
    files = (1 if one_file else min(2, blocks)) if files is None else files
    want_blocks_for(files, blocks, f"{ROWS_AT_ONCE:,} rows")
    schema = folder.with_name(f"{folder.stem if one_file else folder.name}.schema.yaml")
    for path in (schema, folder) if one_file else (schema,):
        if path.exists():
            raise ConfigError(f"{path} exists already; want a new name")
    if one_file and files != 1:
        raise ConfigError(f"files is {files}, but {folder} is one CSV file; want files 1, or the name of a folder")
    people = _People(rows, seed)
    if one_file:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with pa.csv.CSVWriter(folder, ARROW_SCHEMA) as writer:
            people.write(writer, range(blocks))
    else:
        empty_folder(folder)
        for index, numbers in enumerate(np.array_split(np.arange(blocks), files)):
            with pq.ParquetWriter(folder / f"part-{index:05d}.parquet", ARROW_SCHEMA, compression="zstd") as writer:
                people.write(writer, numbers.tolist())
    schema.write_text(yaml.safe_dump(TABLE_SCHEMA, sort_keys=False), encoding="utf-8")
    return schema


@dataclass(frozen=True)
class _People:
    rows: int
    seed: int

    def write(self, writer: pq.ParquetWriter | pa.csv.CSVWriter, blocks: Iterable[int]) -> None:
        """Writes blocks of people, each drawn by its own generator."""
        for block in blocks:
            start = block * ROWS_AT_ONCE
            generator = np.random.default_rng([self.seed, block])
            writer.write_batch(draw_people(start, min(start + ROWS_AT_ONCE, self.rows), generator))


def draw_people(start: int, stop: int, generator: np.random.Generator) -> pa.RecordBatch:
    """Draws the people start .. stop - 1: first independent attributes, then dependent ones, and then nulls."""
    count = stop - start
    age = np.clip(generator.gamma(7.0, 6.6, count), 18, 99).astype(np.int32)
    male = generator.random(count) < 0.49
    region = generator.choice(len(REGIONS), size=count, p=[0.38, 0.14, 0.31, 0.17])
    # Older people and the south have fewer years of schooling.
    years = generator.normal(11.5 - 0.03 * (age - 45) - 0.8 * (region == 2), 3.0)
    schooling = np.digitize(years, [5.0, 9.0, 13.0])
    marital = _draw_rows(_MARITAL_OF_AGE[np.digitize(age, [30, 45, 65])], generator)
    occupation = _draw_rows(_OCCUPATION_OF_SCHOOLING[schooling], generator)
    children = np.minimum(generator.poisson(np.where(marital == 0, 0.15, 0.25 + 0.03 * np.minimum(age, 50))), 9)
    income = np.exp(
        generator.normal(
            9.55 + 0.3 * schooling + 0.012 * np.minimum(age, 55) + 0.15 * male + 0.2 * (occupation == 3), 0.5
        )
    )
    leaning = -8.5 + 0.75 * np.log(income) + 0.02 * (age - 40) + 0.6 * (marital == 1)
    owner = generator.random(count) < 1 / (1 + np.exp(-leaning))
    # Nobody moved in before birth, and owners stay longer.
    days = np.minimum(generator.exponential(np.where(owner, 4_500.0, 1_600.0)), 365.0 * age)
    moved_in = (_CENSUS_DAY - date(1970, 1, 1)).days - 1 - days.astype(np.int32)
    columns = [
        pa.array(np.arange(start, stop, dtype=np.int64)),
        _words(REGIONS, region),
        pa.array(age),
        _words(SEXES, male.astype(np.int64)),
        _words(SCHOOLING, schooling, missing=generator.random(count) < 0.02),
        _words(MARITAL, marital),
        # Most people of retirement age have no occupation.
        _words(OCCUPATIONS, occupation, missing=generator.random(count) < np.where(age >= 67, 0.85, 0.04)),
        pa.array(children.astype(np.int32)),
        pa.array(income, mask=generator.random(count) < 0.05),
        pa.array(owner),
        pa.array(moved_in, pa.int32()).cast(pa.date32()),
    ]
    return pa.record_batch(columns, schema=ARROW_SCHEMA)


def _draw_rows(probabilities: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.int64]:
    """One column index per row of ``probabilities``, drawn with the probabilities of that row."""
    above: NDArray[np.bool_] = generator.random((len(probabilities), 1)) >= np.cumsum(probabilities[:, :-1], axis=1)
    drawn: NDArray[np.int64] = above.sum(axis=1, dtype=np.int64)
    return drawn


def _words(words: tuple[str, ...], codes: NDArray[np.int64], missing: NDArray[np.bool_] | None = None) -> pa.Array:
    indices = pa.array(codes.astype(np.int32), mask=missing)
    return pa.DictionaryArray.from_arrays(indices, pa.array(words)).cast(pa.string())
