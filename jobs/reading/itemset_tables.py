"""The frequent itemsets and rules of a release as tables for people. Public."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow.compute as pc

from jobs.reading.release_folder import ReleaseFolder
from jobs.workload.query_text import item_text

SIZES: Final = {1: "items", 2: "pairs", 3: "triples"}
_BAR: Final = 12  # Characters of the longest bar.

Row = tuple[str, ...]
ITEMSET_HEADER: Final[Row] = ("rank", "itemset", "support", "95 % interval", "units", "")
LEFT: Final = ("itemset", "rule", "")
"""The columns of both that are aligned to the left."""

RULE_HEADER: Final[Row] = ("rank", "rule", "lift", "95 % interval", "confidence", "support")


def top_itemsets(folder: ReleaseFolder, size: int, top: int) -> list[Row]:
    """The most frequent itemsets of one size, one row of ``ITEMSET_HEADER`` each.

    folder: The release.
    size: Number of items.
    top: Maximum number of rows.
    """
    table = folder.itemsets
    rows = table.filter(pc.equal(table["size"], size)).slice(0, top).to_pylist()
    largest = max((row["support"] for row in rows), default=1.0) or 1.0
    return [
        (
            str(rank),
            _items(row["items"]),
            _percent(row["support"]),
            f"{_percent(row['support_lower'])} to {_percent(row['support_upper'])}",
            f"{row['count']:,.0f}",
            "▇" * max(1, round(_BAR * row["support"] / largest)),
        )
        for rank, row in enumerate(rows, 1)
    ]


def top_rules(folder: ReleaseFolder, top: int) -> list[Row]:
    """The rules whose lift has the largest lower end, one row of ``RULE_HEADER`` each.

    folder: The release.
    top: Maximum number of rows.
    """
    return [
        (
            str(rank),
            f"{_items(row['antecedent'])} -> {_item(row['consequent'])}",
            f"{row['lift']:.2f}",
            f"{row['lift_lower']:.2f} to " + ("any" if row["lift_upper"] is None else f"{row['lift_upper']:.2f}"),
            _percent(row["confidence"]),
            _percent(row["support"]),
        )
        for rank, row in enumerate(folder.rules.slice(0, top).to_pylist(), 1)
    ]


def sizes_of(folder: ReleaseFolder) -> list[int]:
    """The sizes of which the release lists itemsets, ascending."""
    return sorted(pc.unique(folder.itemsets["size"]).to_pylist())


def titled_tables(folder: ReleaseFolder, top: int) -> Iterator[tuple[str, Row, list[Row]]]:
    """Yields title, header and rows of the most frequent itemsets of each size from two, and of the rules.

    folder: The release.
    top: Maximum number of rows of each table.
    """
    for size in sizes_of(folder):
        if size > 1:
            title = f"The most frequent {SIZES.get(size, f'itemsets of {size}')}"
            yield title, ITEMSET_HEADER, top_itemsets(folder, size, top)
    if rules := top_rules(folder, top):
        yield "Rules with the largest lower bound of lift", RULE_HEADER, rules


def itemsets_of_each_size(folder: ReleaseFolder, top: int) -> list[dict[str, Any]]:
    """The most frequent itemsets of each size, as they stand in ``itemsets.parquet``."""
    table = folder.itemsets
    by_size = (table.filter(pc.equal(table["size"], size)).slice(0, top) for size in sizes_of(folder))
    return [row for part in by_size for row in part.to_pylist()]


def _items(items: list[int] | list[str]) -> str:
    return " & ".join(map(_item, items))


def _item(item: int | str) -> str:
    return item_text(item) if isinstance(item, str) else str(item)


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2f} %"
