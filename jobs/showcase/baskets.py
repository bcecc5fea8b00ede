"""Synthetic baskets beside the baskets that they stand for: sizes, item counts and pair counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from jobs.showcase.membership import membership_matrix, pair_counts, pairs_in

COLUMNS: Final = ("", "truth", "synthetic")
RIGHT: Final = ("truth", "synthetic")
_ITEMS = 100  # The most frequent items, whose pairs are compared.
_SHOWN = 5


def compared_with_truth(synthetic: Path, data: Path, unit: str, item: str) -> list[Sequence[str]]:
    """Rows of a table with ``COLUMNS``.

    synthetic: Folder of synthetic baskets.
    data: Folder of the data.
    unit, item: Columns of both.
    """
    both = [pairs_in(folder, unit, item) for folder in (data, synthetic)]
    sizes = [np.bincount(units) for units, _ in both]
    rows: list[Sequence[str]] = [("baskets", *(f"{size.size:,}" for size in sizes))]
    rows.append(("films per basket, mean", *(f"{size.mean():,.1f}" for size in sizes)))
    rows += [
        (f"films per basket, {part} %", *(f"{np.percentile(size, part):,.0f}" for size in sizes))
        for part in (10, 50, 90)
    ]
    top = np.argsort(-np.bincount(both[0][1]), kind="stable")[:_ITEMS]
    shares = [pair_counts(has) / len(has) for has in (membership_matrix(*pairs, top) for pairs in both)]
    rows += [(f"film {top[row]}", *(f"{share[row, row]:.1%}" for share in shares)) for row in range(_SHOWN)]
    pairs = np.triu_indices(_ITEMS, 1)
    for place in np.argsort(-shares[0][pairs], kind="stable")[:_SHOWN]:
        row, column = pairs[0][place], pairs[1][place]
        rows.append((f"films {top[row]} & {top[column]}", *(f"{share[row, column]:.1%}" for share in shares)))
    singles = np.diag_indices(_ITEMS)
    rows.append((f"error of the {_ITEMS} largest films: max / mean", "", _errors(shares, singles)))
    rows.append(("error of their pairs: max / mean", "", _errors(shares, pairs)))
    return rows


def _errors(shares: Sequence[NDArray[np.float64]], places: tuple[NDArray[np.int64], ...]) -> str:
    off = np.abs(shares[1][places] - shares[0][places])
    return f"{off.max():.1%} / {off.mean():.2%}"
