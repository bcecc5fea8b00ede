"""What the demo shows beside the truth, on baskets that fit a screen."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.showcase import baskets, pairs
from jobs.showcase.membership import membership_matrix, pair_counts, pairs_in

BASKETS = [{0, 3, 7}, {3, 7}, {7}, {0, 3}, {3, 7, 9}]


def write(folder: Path, sets: list[set[int]]) -> Path:
    folder.mkdir()
    rows = [(10 * unit, item) for unit, items in enumerate(sets) for item in items]
    twice = [*rows, rows[0]]  # A pair that is written twice counts once.
    units, items = zip(*twice, strict=True)
    pq.write_table(pa.table({"user": units, "item": pa.array(items, pa.int32())}), folder / "part-0.parquet")
    return folder


def test_pairs_are_counted_as_a_dictionary_counts_them(tmp_path: Path) -> None:
    units, items = pairs_in(write(tmp_path / "data", BASKETS), "user", "item")
    chosen = np.array([7, 0, 3, 11])
    has = membership_matrix(units, items, chosen)
    assert [{int(item) for item in chosen[row]} for row in has] == [set(chosen.tolist()) & items for items in BASKETS]
    counted: Counter[tuple[int, int]] = Counter(
        pair for items in BASKETS for pair in [*combinations(sorted(items), 2), *((item, item) for item in items)]
    )
    for row, first in enumerate(chosen.tolist()):
        for column, second in enumerate(chosen.tolist()):
            pair = (min(first, second), max(first, second))
            assert pair_counts(has)[row, column] == counted[pair]


def test_the_largest_answers_come_first_with_the_truth(tmp_path: Path) -> None:
    data = write(tmp_path / "data", BASKETS)
    asked, answers = [[0, 3], [3, 7], [7, 9]], [2.4, 2.6, 0.2]
    table = {"answer": answers, "lower": [1.0, 1.5, 0.0], "upper": [4.0, 4.5, 2.0], "items": asked}
    pq.write_table(pa.table(table), tmp_path / "answers.parquet")
    rows = pairs.top_pairs(tmp_path / "answers.parquet", data, "user", "item")
    assert [row[:5] for row in rows] == [
        ("1", "3 & 7", "3", "2 to 4", "3"),
        ("2", "0 & 3", "2", "1 to 4", "2"),
        ("3", "7 & 9", "0", "0 to 2", "1"),
    ]
    assert rows[0][5] == "#" * 21 + " 52%"
    assert len(rows[0]) == len(pairs.COLUMNS)


def test_synthetic_baskets_stand_compared_with_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baskets, "_ITEMS", 2)
    monkeypatch.setattr(baskets, "_SHOWN", 1)
    data = write(tmp_path / "data", BASKETS)
    synthetic = write(tmp_path / "synthetic", [{3}, {3, 7}, {3, 7}, {7, 9}])
    rows = {row[0]: tuple(row[1:]) for row in baskets.compared_with_truth(synthetic, data, "user", "item")}
    assert rows["baskets"] == ("5", "4")
    assert rows["films per basket, mean"] == ("2.2", "1.8")
    assert rows["films per basket, 50 %"] == ("2", "2")
    assert rows["film 3"] == ("80.0%", "75.0%")
    assert rows["films 3 & 7"] == ("60.0%", "50.0%")
    assert rows["error of the 2 largest films: max / mean"] == ("", "5.0% / 5.00%")
    assert rows["error of their pairs: max / mean"] == ("", "10.0% / 10.00%")
    assert all(len(row) == 2 for row in rows.values())


def test_baskets_that_are_the_truth_have_no_error(tmp_path: Path) -> None:
    sets = [{int(item) for item in row} for row in np.random.default_rng(1).integers(0, 150, (50, 8))]
    folder = write(tmp_path / "data", sets)
    rows = {row[0]: row[2] for row in baskets.compared_with_truth(folder, folder, "user", "item")}
    assert rows["error of their pairs: max / mean"] == "0.0% / 0.00%"
