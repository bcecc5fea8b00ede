"""Which units of some files have which items. SENSITIVE for real data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray


def pairs_in(folder: Path, unit: str, item: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct pairs of a folder of Parquet files: numbers of units from 0, and items; int64 [pairs] each."""
    table = pq.read_table(folder, columns=[unit, item])
    _, numbers = np.unique(table[unit].to_numpy(), return_inverse=True)
    items = table[item].to_numpy().astype(np.int64)
    pairs = np.unique(np.stack([numbers, items], axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


def membership_matrix(
    units: NDArray[np.int64], items: NDArray[np.int64], chosen: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which of the chosen items each unit has, bool [units, chosen].

    units, items: Of each pair, as ``pairs_in`` gives them.
    chosen: Different items.
    """
    column = np.full(max(int(items.max()), int(chosen.max())) + 1, -1)
    column[chosen] = np.arange(chosen.size)
    wanted = column[items] >= 0
    has = np.zeros((int(units.max()) + 1, chosen.size), dtype=np.bool_)
    has[units[wanted], column[items[wanted]]] = True
    return has


def pair_counts(has: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The number of units with each pair of items, float64 [items, items], symmetric; singles are on the diagonal."""
    ones = has.astype(np.float32)  # Exact up to 16 million units.
    return np.asarray(ones.T @ ones, dtype=np.float64)
