"""What is examined: releases, non-private controls that an exam of privacy must catch, and baselines that use no data."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from tests.exams.releases import Recipe, release
from tests.exams.tables import Codes, Parts, Table

SYNTHETIC_ROWS = 10_000


class Kind(StrEnum):
    """What a candidate stands for."""

    PRIVATE = "release"
    CONTROL = "non-private control"
    BASELINE = "baseline"


@dataclass(frozen=True)
class Candidate:
    """Rows that an exam takes for synthetic rows. make: Writes them for parts of a table, a seed and a scratch folder."""

    name: str
    kind: Kind
    make: Callable[[Parts, int, Path], Table]


def _released(recipe: Recipe) -> Callable[[Parts, int, Path], Table]:
    def make(parts: Parts, _seed: int, folder: Path) -> Table:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        table = parts.released
        rows = pq.read_table(release(table, recipe, SYNTHETIC_ROWS, folder))
        columns = {name: rows[name].to_numpy().astype(np.int64) for name in table.sizes}
        return Table(table.name, columns, table.sizes, table.ordered, table.secret)

    return make


def copy(parts: Parts, seed: int, _folder: Path) -> Table:
    """The released people themselves, without replacement."""
    return parts.released.take(_some(parts.released, seed))


def bootstrap(parts: Parts, seed: int, _folder: Path) -> Table:
    """The released people, drawn with replacement."""
    return parts.released.take(np.random.default_rng(seed).integers(parts.released.rows, size=SYNTHETIC_ROWS))


def strangers(parts: Parts, seed: int, _folder: Path) -> Table:
    """People of the same population who are neither released nor held out, without replacement: a perfect model's rows."""
    return parts.reference.take(_some(parts.reference, seed))


def _some(table: Table, seed: int) -> Codes:
    """Distinct rows of a table, as many as a release writes or as the table has."""
    return np.random.default_rng(seed).permutation(table.rows)[:SYNTHETIC_ROWS]


def uniform(parts: Parts, seed: int, _folder: Path) -> Table:
    """Every attribute uniform and independent: uses the schema alone."""
    generator = np.random.default_rng(seed)
    table = parts.released
    columns = {name: generator.integers(size, size=SYNTHETIC_ROWS) for name, size in table.sizes.items()}
    return Table(table.name, columns, table.sizes, table.ordered, table.secret)


RECIPES = (Recipe("aim", 1.0), Recipe("clique_tree", 1.0), Recipe("independent", 1.0))
CANDIDATES = (
    *(Candidate(recipe.name, Kind.PRIVATE, _released(recipe)) for recipe in RECIPES),
    Candidate("aim, epsilon 100", Kind.CONTROL, _released(Recipe("aim", 100.0))),
    Candidate("copy of the data", Kind.CONTROL, copy),
    Candidate("bootstrap", Kind.CONTROL, bootstrap),
    Candidate("other people", Kind.BASELINE, strangers),
    Candidate("uniform", Kind.BASELINE, uniform),
)
