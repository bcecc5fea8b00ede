"""Repeated rows are counted once with their multiplicity, and the counts are the same."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.exact_statistics import QueryAnswers
from dpcore.queries import Conjunctions
from dpcore.queries.generation import random_conjunctions
from pipelines.aggregators import TableBlock, aggregator_for, bitmaps, distinct, packing
from pipelines.aggregators.distinct import distinct_records
from pipelines.aggregators.packing import Packing
from pipelines.layout import TableLayout
from pipelines.schema import Attribute, Kind, Schema

SIZES = (2, 300, 5, 1, 9, 700)
DOMAIN = Domain.of({f"x{place}": size for place, size in enumerate(SIZES)})
VIEW = BinaryView.one_hot(DOMAIN)
SCHEMA = Schema(
    tuple(
        Attribute(name, Kind.INTEGER, edges=tuple(range(size + 1)), null=False)
        for name, size in zip(DOMAIN.names, SIZES, strict=True)
    )
)


def codes_of(kinds: int, rows: int = 6000) -> NDArray[np.uint16]:
    """Rows of a given number of distinct records, some much more frequent than others."""
    draw = np.random.default_rng(kinds)
    records = np.array([draw.integers(0, size, size=kinds) for size in SIZES], dtype=np.uint16)
    return records[:, np.minimum(draw.geometric(0.01, size=rows) - 1, kinds - 1)]


def every_column() -> Packing:
    return Packing.of(VIEW, np.arange(VIEW.columns, dtype=np.int32))


@pytest.mark.parametrize("kinds", [1, 2, 70, 600])
def test_distinct_records_stand_for_all_rows(kinds: int) -> None:
    codes = codes_of(kinds)
    found = distinct_records(TableBlock(codes, codes.shape[1]), every_column())
    assert found is not None
    wanted, times = np.unique(codes.T, axis=0, return_counts=True)
    assert sorted(zip(found.block.codes.T.tolist(), found.times.tolist(), strict=True)) == sorted(
        zip(wanted.tolist(), times.tolist(), strict=True)
    )
    assert (np.diff(found.times) <= 0).all()


def test_attributes_that_nobody_asks_about_do_not_part_rows() -> None:
    codes = codes_of(600)
    found = distinct_records(TableBlock(codes, codes.shape[1]), Packing.of(VIEW, np.array([0, 1, 303], np.int32)))
    assert found is not None
    assert found.times.size == len(np.unique(codes[[0, 2]].T, axis=0))


def test_rows_that_hardly_repeat_are_left_as_they_are() -> None:
    draw = np.random.default_rng(0)
    codes = np.array([draw.integers(0, size, size=6000) for size in SIZES], dtype=np.uint16)
    assert distinct_records(TableBlock(codes, 6000), every_column()) is None
    assert distinct_records(TableBlock(codes[:, :100].repeat(2, axis=1), 200), every_column()) is None


def test_keys_that_collide_too_often_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = codes_of(600)
    monkeypatch.setattr(distinct, "_MAX_PROBES", 0)
    assert distinct_records(TableBlock(codes, codes.shape[1]), every_column()) is None


@pytest.mark.parametrize("widths", [[64], [40, 24], [40, 25], [1] * 130, [31, 31, 31, 64, 1]])
def test_codes_never_share_bits(widths: list[int]) -> None:
    words, shifts = distinct._bit_positions(widths)
    taken = [
        (word, bit)
        for word, shift, width in zip(words, shifts, widths, strict=True)
        for bit in range(shift, shift + width)
    ]
    assert len(set(taken)) == len(taken) == sum(widths)
    assert all(bit < 64 for _, bit in taken)


@pytest.mark.parametrize("cache", [1, packing._CACHE])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_counts_are_those_of_all_rows(order: int, cache: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_CACHE", cache)
    codes = codes_of(600)
    weights = np.concatenate([np.full(size, 1 / size) for size in SIZES])
    queries = random_conjunctions(VIEW, 400, order, np.random.default_rng(order), weights=weights, negate=True)
    aggregator = aggregator_for(QueryAnswers(queries), TableLayout("u", SCHEMA))
    block = TableBlock(codes, codes.shape[1])
    found = aggregator.extract(aggregator.add(aggregator.create(), block)).tolist()
    monkeypatch.setattr(bitmaps, "distinct_records", lambda *_: None)
    assert found == aggregator.extract(aggregator.add(aggregator.create(), block)).tolist()
    assert found == dense(queries, codes)


def dense(queries: Conjunctions, codes: NDArray[np.uint16]) -> list[int]:
    offsets = np.array([start for start, _ in VIEW.groups])[:, None]
    ones = np.zeros((codes.shape[1], VIEW.columns), dtype=bool)
    ones[np.arange(codes.shape[1]), offsets + codes] = True
    return [
        int((ones[:, columns] != negated).all(axis=1).sum())
        for columns, negated in zip(queries.columns, queries.negated, strict=True)
    ]
