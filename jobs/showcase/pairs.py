"""The most frequent pairs of a release, as a table with intervals and the truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jobs.showcase.membership import membership_matrix, pair_counts, pairs_in

COLUMNS: Final = ("", "films", "users", "95 % interval", "truth", "share of all users")
RIGHT: Final = ("", "users", "95 % interval", "truth")
_SHOWN = 10
_BAR = 40  # Characters of the bar of a pair that every user has.


def top_pairs(answers: Path, data: Path, unit: str, item: str) -> list[Sequence[str]]:
    """Rows of a table with ``COLUMNS``: the pairs with the largest answers.

    answers: answers.parquet of a release of conjunctions of two items.
    data: Folder of its data, whose counts are shown.
    unit, item: Columns of the data.
    """
    table = pq.read_table(answers, columns=["answer", "lower", "upper", "items"])
    first = np.argsort(-table["answer"].to_numpy(), kind="stable")[:_SHOWN]
    best = table.take(pa.array(first))
    pairs = np.array(best["items"].to_pylist(), dtype=np.int64)
    chosen, places = np.unique(pairs, return_inverse=True)
    has = membership_matrix(*pairs_in(data, unit, item), chosen)
    exact = pair_counts(has)[tuple(places.reshape(pairs.shape).T)]
    figures = zip(
        pairs.tolist(), *(best[name].to_pylist() for name in ("answer", "lower", "upper")), exact, strict=True
    )
    return [
        (
            f"{rank}",
            " & ".join(map(str, pair)),
            f"{answer:,.0f}",
            f"{lower:,.0f} to {upper:,.0f}",
            f"{truth:,.0f}",
            f"{'#' * round(_BAR * answer / len(has))} {answer / len(has):.0%}",
        )
        for rank, (pair, answer, lower, upper, truth) in enumerate(figures, 1)
    ]
