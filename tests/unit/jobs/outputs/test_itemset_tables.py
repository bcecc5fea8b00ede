"""itemsets.parquet and rules.parquet: their content, the same bytes again, and the itemsets that are read back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dpcore.estimation.itemsets.rules import Ratios, Rules
from dpcore.estimation.itemsets.supports import FrequentItemsets, Supports, Units
from jobs.outputs.itemset_tables import ITEMSETS, RULES, itemset_schema, listed_itemsets, rule_schema, write_itemsets
from pipelines.item_names import ItemNames
from pipelines.layout import BasketLayout

LAYOUT = BasketLayout("user", "item", 9)


def supports(items: list[list[int]], values: list[float]) -> Supports:
    counts = np.array(values)
    return Supports(np.array(items, dtype=np.int32), counts - 1, counts, 2.0, counts - 5, counts + 10)


FOUND = FrequentItemsets(
    (supports([[4], [2]], [80.0, 60.0]), supports([[2, 4]], [50.0]), supports([[2, 4, 8]], [10.0])),
    Units(100.0, 90.0, 125.0),
    Rules(
        np.array([[2, -1], [2, 4]], dtype=np.int32),
        np.array([4, 8], dtype=np.int32),
        *(Ratios(np.array([0.5, 0.1]), np.array([0.4, 0.05]), np.array([0.9, np.inf])) for _ in range(3)),
    ),
)


def test_the_tables_say_what_was_found(tmp_path: Path) -> None:
    write_itemsets(tmp_path, FOUND, LAYOUT)
    itemsets, rules = pq.read_table(tmp_path / ITEMSETS), pq.read_table(tmp_path / RULES)
    assert itemsets.schema.equals(itemset_schema(LAYOUT))
    assert rules.schema.equals(rule_schema(LAYOUT))
    assert itemsets["items"].to_pylist() == [[4], [2], [2, 4], [2, 4, 8]]
    assert itemsets["size"].to_pylist() == [1, 1, 2, 3]
    first = itemsets.slice(0, 1).to_pylist()[0]
    assert (first["count"], first["measured"], first["stddev"], first["lower"], first["upper"]) == (80, 79, 2, 75, 90)
    assert (first["support"], first["support_lower"], first["support_upper"]) == (0.8, 75 / 125, 1.0)
    assert rules["antecedent"].to_pylist() == [[2], [2, 4]]
    assert rules["consequent"].to_pylist() == [4, 8]
    assert rules["lift_upper"].to_pylist() == [0.9, None]


def test_the_same_itemsets_give_the_same_bytes(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
        write_itemsets(folder, FOUND, LAYOUT)
    for name in (ITEMSETS, RULES):
        assert len({(folder / name).read_bytes() for folder in folders}) == 1


def test_nothing_is_written_for_other_workloads(tmp_path: Path) -> None:
    write_itemsets(tmp_path, None, LAYOUT)
    assert not list(tmp_path.iterdir())


def test_listed_itemsets_are_conjunctions_that_repeat_their_last_item(tmp_path: Path) -> None:
    write_itemsets(tmp_path, FOUND, LAYOUT)
    queries = listed_itemsets(tmp_path, LAYOUT)
    assert queries.columns.tolist() == [[4, 4, 4], [2, 2, 2], [2, 4, 4], [2, 4, 8]]
    assert queries.orders.tolist() == [1, 1, 2, 3]


def test_an_itemset_of_no_items_is_refused(tmp_path: Path) -> None:
    write_itemsets(tmp_path, FOUND, LAYOUT)
    table = pq.read_table(tmp_path / ITEMSETS)
    rows = [row | {"items": []} if row["size"] == 2 else row for row in table.to_pylist()]
    pq.write_table(type(table).from_pylist(rows, schema=itemset_schema(LAYOUT)), tmp_path / ITEMSETS)
    with pytest.raises(ValueError, match="an itemset without items"):
        listed_itemsets(tmp_path, LAYOUT)


def test_items_with_names_are_written_and_read_by_name(tmp_path: Path) -> None:
    names = ItemNames.of(["bread", "milk", "fish & chips", "tea", "salt", "rice", "oil", "jam", "figs"])
    layout = replace(LAYOUT, items=9, names=names)
    write_itemsets(tmp_path, FOUND, layout)
    itemsets, rules = pq.read_table(tmp_path / ITEMSETS), pq.read_table(tmp_path / RULES)
    assert itemsets["items"].to_pylist() == [["salt"], ["fish & chips"], ["fish & chips", "salt"],
                                             ["fish & chips", "salt", "figs"]]  # fmt: skip
    assert rules["consequent"].to_pylist() == ["salt", "figs"]
    assert listed_itemsets(tmp_path, layout).columns.tolist() == [[4, 4, 4], [2, 2, 2], [2, 4, 4], [2, 4, 8]]
