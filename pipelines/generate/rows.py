"""Writes synthetic rows, which are drawn from a model, to Parquet in parallel blocks. All of it is post-processing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.model import BasketRows, Model, SyntheticRows, TableRows
from pipelines.layout import BasketLayout, Layout, TableLayout

UNITS_AT_ONCE = 100_000


def write_rows(
    model: Model,
    units: int,
    layout: Layout,
    folder: Path,
    *,
    seed: int,
    block: int = UNITS_AT_ONCE,
    progress: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Writes synthetic units to Parquet, with one file per block.

    The files have the columns of the layout; attributes that the model lacks are left out. Codes are decoded to values
    that encode to the same codes, and units are numbered from 0. A basket without items has no row. The rows of a
    graphical model come from its randomised rounding over all blocks; rows of other models are independent samples.

    model: The model of a release.
    units: Number of units, at least 0.
    layout: The public layout of the data.
    folder: Folder of the files, which is created if it is missing.
    seed: Public seed. The rows depend on model, units, seed and block, and not on the number of threads.
    block: Units per file, at least 1.
    progress: Called with the number of units written so far, and the number of all units.

    Returns: The written files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    starts = range(0, units, block)
    draws = _draws(model, units, block, seed)
    workers = len(os.sched_getaffinity(0))
    files: list[Path] = []

    def write(start: int, draw: Callable[[], SyntheticRows]) -> Path:
        path = folder / f"part-{start // block:05d}.parquet"
        pq.write_table(rows_table(draw(), start, layout), path, compression="zstd")
        return path

    with ThreadPoolExecutor(workers) as pool:
        # One wave has one block per worker, so that a block is in memory only while it is written.
        for first in range(0, len(starts), workers):
            wave = starts[first : first + workers]
            files += pool.map(write, wave, islice(draws, len(wave)))
            if progress is not None:
                progress(min(units, (first + workers) * block), units)
    return files


def _draws(model: Model, units: int, block: int, seed: int) -> Iterator[Callable[[], SyntheticRows]]:
    """Yields one function per block, which returns the block's rows.

    Blocks of a graphical model depend on each other, so this iterator draws them in order. A block of another model is
    drawn when its function is called.
    """
    seeds = np.random.SeedSequence(seed)
    if isinstance(model, GraphicalModel):
        for rows in model.row_blocks(units, block, np.random.default_rng(seeds)):
            yield partial(_same_rows, rows)
        return
    sizes = [min(block, units - start) for start in range(0, units, block)]
    for size, child in zip(sizes, seeds.spawn(len(sizes)), strict=True):
        yield partial(_sample_rows, model, size, child)


def _same_rows(rows: SyntheticRows) -> SyntheticRows:
    return rows


def _sample_rows(model: Model, units: int, seed: np.random.SeedSequence) -> SyntheticRows:
    return model.sample(units, np.random.default_rng(seed))


def rows_table(rows: SyntheticRows, start: int, layout: Layout) -> pa.Table:
    """Converts sampled rows to the layout's columns. Units are numbered from ``start``."""
    match rows, layout:
        case TableRows(), TableLayout():
            return _decoded(rows, start, layout)
        case BasketRows(), BasketLayout():
            unit = pa.array(rows.unit.astype(np.int64) + start)
            return pa.table({layout.unit: unit, layout.item: pa.array(rows.item)})
        case _:
            raise TypeError(f"{type(rows).__name__} for {type(layout).__name__}; want rows of the layout's shape")


def _decoded(rows: TableRows, start: int, layout: TableLayout) -> pa.Table:
    columns = {layout.unit: pa.array(np.arange(start, start + len(rows.codes), dtype=np.int64))}
    for attribute in layout.schema.attributes:
        if attribute.name in rows.domain:
            columns[attribute.column] = attribute.decode(rows.codes[:, rows.domain.index(attribute.name)])
    return pa.table(columns)
