"""Parities against a dense 0/1 matrix, whatever the size of a block and of the cache."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.queries import Parities
from dpcore.testing.tiny_statistics import count_parities, one_hot_matrix
from pipelines.aggregators import BasketBlock, TableBlock, packing
from pipelines.aggregators.parities import ParityCounts

UNITS = [0, 1, 63, 64, 65, 511, 512, 513, 1500]
DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4})


def every_set(view: BinaryView) -> Parities:
    return Parities.of_sets(view, [row for order in (1, 2, 3) for row in combinations(range(view.columns), order)])


@pytest.mark.parametrize("cache", [1, 4096, packing._CACHE])
@pytest.mark.parametrize("units", UNITS)
def test_parities_of_baskets(units: int, cache: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_CACHE", cache)
    queries = every_set(BinaryView(6))
    held = np.random.default_rng(units).random((units, 6)) < 0.4
    unit, items = np.nonzero(held)
    block = BasketBlock(np.searchsorted(unit, np.arange(units + 1)), items.astype(np.int32))
    aggregator = ParityCounts.of(queries, 1)
    found = aggregator.extract(aggregator.add(aggregator.create(), block))
    assert np.array_equal(found, count_parities(queries, held))


@pytest.mark.parametrize("rows", UNITS)
def test_parities_of_a_table(rows: int) -> None:
    queries = every_set(BinaryView.one_hot(DOMAIN))
    codes = np.random.default_rng(rows).integers(0, DOMAIN.sizes, (rows, 3))
    aggregator = ParityCounts.of(queries, 1)
    block = TableBlock(np.ascontiguousarray(codes.T).astype(np.uint8), rows)
    found = aggregator.extract(aggregator.add(aggregator.create(), block))
    assert np.array_equal(found, count_parities(queries, one_hot_matrix(DOMAIN, codes)))


def test_an_item_that_comes_twice_counts_once() -> None:
    block = BasketBlock(np.array([0, 3]), np.array([1, 1, 2], dtype=np.int32))
    aggregator = ParityCounts.of(Parities.of_sets(BinaryView(4), [[1], [1, 2], [1, 3]]), 1)
    assert aggregator.extract(aggregator.add(aggregator.create(), block)).tolist() == [0, 1, 0]
