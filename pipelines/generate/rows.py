"""Writes synthetic rows, which are drawn from a model, to Parquet in parallel parts. All of it is post-processing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.model import Model, SyntheticRows
from pipelines.generate.parallel_rows import LocalRowWorkers, RowsTask, RowWorkers
from pipelines.generate.row_files import part_name, rows_table, write_file
from pipelines.layout import Layout, TableLayout

FEW_UNITS: Final = 100_000
"""Up to this many units are drawn at once, into one file."""

_LARGEST_PART: Final = 1_000_000  # Units of a table per part.
_VALUES_OF_A_PART: Final = 16_000_000  # Parts of wide tables have fewer units, so that a worker needs about 200 MB.


def write_rows(
    model: Model,
    units: int,
    layout: Layout,
    folder: Path,
    *,
    seed: int,
    workers: RowWorkers | None = None,
    size: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Writes synthetic units to Parquet, with one file per part.

    The files have the columns of the layout; attributes that the model lacks are left out. Codes are decoded to values
    that encode to the same codes, and units are numbered from 0. A basket without items has no row.

    Up to ``FEW_UNITS`` units are one part: the rows of a graphical model by randomised rounding, and otherwise
    ``model.sample``. More units are rounded once, here (``Model.rounded``), and the parts are made by workers
    (``partition_rows``): all parts together have exactly the rounded counts.

    model: The model of a release.
    units: Number of units, at least 0.
    layout: The public layout of the data.
    folder: Folder of the files, which is created if it is missing.
    seed: Public seed. The rows depend on model, units, seed and size, and not on the workers.
    workers: Who makes the parts of more than ``FEW_UNITS`` units; by default, threads of this process.
    size: Units per part, at least 1; if given, any number of units is rounded and split. The default is that of
        ``units_of_a_part``.
    progress: Called with the number of units written so far, and the number of all units.

    Returns: The written files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not units:
        return []
    report = progress or (lambda done, total: None)
    seeds = np.random.SeedSequence(seed)
    if size is None and units <= FEW_UNITS:
        path = folder / part_name(0)
        write_file(rows_table(_few_rows(model, units, seeds), 0, layout), layout, path)
        report(units, units)
        return [path]
    rounded = model.rounded(units, np.random.default_rng(seeds))
    task = RowsTask(rounded, layout, size or units_of_a_part(layout), seed)
    for parts in (workers or LocalRowWorkers()).write(task, folder):
        report(task.units_before(parts), units)
    return [folder / part_name(part) for part in range(task.parts)]


def units_of_a_part(layout: Layout) -> int:
    """Number of units in each part of more than ``FEW_UNITS`` units.

    Baskets have parts of ``FEW_UNITS`` units, because the number of their items is not known in advance.
    """
    if not isinstance(layout, TableLayout):
        return FEW_UNITS
    return min(_LARGEST_PART, max(FEW_UNITS, _VALUES_OF_A_PART // max(1, len(layout.schema.attributes))))


def _few_rows(model: Model, units: int, seeds: np.random.SeedSequence) -> SyntheticRows:
    if isinstance(model, GraphicalModel):
        return model.rows(units, np.random.default_rng(seeds))
    return model.sample(units, np.random.default_rng(seeds.spawn(1)[0]))
