from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dpcore.errors import IntegrityError
from pipelines.contribution import (
    Groups,
    basket_block,
    group_by_unit,
    shard_numbers,
    table_block,
    unit_words,
    units_over_bound,
)
from pipelines.encode import EncodedRows
from pipelines.layout import BasketLayout, TableLayout
from pipelines.schema import Attribute, Kind, Schema
from tests.support import reference
from tests.support.engine_cases import SALT

SCHEMA = Schema((Attribute("a", Kind.INTEGER, edges=tuple(range(100))), Attribute("b", Kind.BOOLEAN)))


def rows_by_unit(groups: Groups) -> list[list[int]]:
    units = range(groups.starts.size - 1)
    return [sorted(groups.rows_of(np.array([unit]))[0].tolist()) for unit in units]


@pytest.mark.parametrize(
    ("units", "together", "wanted"),
    [
        ([], True, []),
        ([5], True, [[0]]),
        ([1, 1, 4, 9, 9], True, [[0, 1], [2], [3, 4]]),
        ([9, 9, 4, 1, 1], True, [[0, 1], [2], [3, 4]]),
        ([1, 2, 1, 1, 2], False, [[0, 2, 3], [1, 4]]),
        (["b", "b", "a"], True, [[0, 1], [2]]),
        (["b", "a", "b"], False, [[0, 2], [1]]),
        ([2**64 - 1, 0, 2**64 - 1], False, [[0, 2], [1]]),
    ],
)
def test_groups_rows_by_unit_and_reorders_only_scattered_ones(
    units: list[object], together: bool, wanted: list[list[int]]
) -> None:
    kind = pa.large_string() if units and isinstance(units[0], str) else pa.uint64()
    groups = group_by_unit(pa.array(units, kind))
    assert (groups.order is None) == together
    assert rows_by_unit(groups) == wanted


def test_units_that_lie_together_are_never_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("rows were sorted")

    monkeypatch.setattr("pipelines.contribution._counting_sort", fail)
    rows = EncodedRows(pa.array([3, 3, 3, 1, 1, 2]), np.array([[4, 5, 4, 1, 2, 3]], dtype=np.int32))
    block = basket_block(rows, BasketLayout("u", "i", 10), SALT)
    assert block.items is rows.rows[0] or block.items.base is rows.rows
    assert block.starts.tolist() == [0, 3, 5, 6]


@pytest.mark.parametrize("bound", [1, 2, 3, 5])
def test_a_table_keeps_the_rows_with_the_smallest_hashes(bound: int) -> None:
    codes = np.array([[5, 1, 5, 7, 7, 9, 2], [0, 1, 0, 2, 2, 1, 0]], dtype=np.uint8)
    units = [4, -8, 4, 4, 4, 4, -8]
    layout = TableLayout("u", SCHEMA, max_rows_per_unit=bound)
    block = table_block(EncodedRows(pa.array(units), codes), layout, SALT)
    wanted: list[tuple[int, ...]] = []
    for unit in set(units):
        own = [tuple(row) for row, owner in zip(codes.T.tolist(), units, strict=True) if owner == unit]
        wanted += sorted(own, key=lambda row, unit=unit: reference.row_hash(SALT, unit, row))[:bound]
    assert sorted(map(tuple, block.codes.T.tolist())) == sorted(wanted)
    assert block.units == 2


def kept_at(codes: np.ndarray, units: np.ndarray, last: int, layout: TableLayout) -> list[tuple[int, ...]]:
    """What the rows up to a step keep, as (step, other attribute)."""
    so_far = codes[0] <= last
    block = table_block(EncodedRows(pa.array(units[so_far]), codes[:, so_far]), layout, SALT)
    return sorted(map(tuple, block.codes.T.tolist()))


@pytest.mark.parametrize("bound", [1, 2, 3])
def test_rows_of_later_steps_never_displace_earlier_ones(bound: int) -> None:
    """With ``earliest``, what is kept up to a step is the same whatever comes later; by the hash alone it is not."""
    draw = np.random.default_rng(bound)
    codes = np.stack([draw.integers(0, 6, 200), draw.integers(0, 2, 200)]).astype(np.uint8)
    units = draw.integers(0, 30, 200)
    layout = TableLayout("u", SCHEMA, max_rows_per_unit=bound, earliest="a")
    everything = kept_at(codes, units, 5, layout)
    moved = 0
    for last in range(6):
        assert kept_at(codes, units, last, layout) == [row for row in everything if row[0] <= last]
        by_hash = TableLayout("u", SCHEMA, max_rows_per_unit=bound)
        moved += kept_at(codes, units, last, by_hash) != [
            row for row in kept_at(codes, units, 5, by_hash) if row[0] <= last
        ]
    assert moved  # The trap is real: these data tell the two rules apart.


def test_rows_of_one_step_are_chosen_by_their_hash() -> None:
    codes = np.array([[3, 3, 3, 3, 1], [0, 1, 0, 1, 0]], dtype=np.uint8)
    layout = TableLayout("u", SCHEMA, max_rows_per_unit=2, earliest="a")
    block = table_block(EncodedRows(pa.array([9] * 5), codes), layout, SALT)
    smallest = min([(3, 0), (3, 1)], key=lambda row: reference.row_hash(SALT, 9, row))
    assert sorted(map(tuple, block.codes.T.tolist())) == [(1, 0), smallest]


@pytest.mark.parametrize("units", [[7, 7, 7, 7, 7, 1], [7, 1, 7, 7, 7, 7]])
def test_a_basket_counts_distinct_items_against_its_bound(units: list[int]) -> None:
    items = np.array([3 if unit == 1 else place % 3 for place, unit in enumerate(units)], dtype=np.int32)
    layout = BasketLayout("u", "i", 9, max_items_per_unit=2)
    block = basket_block(EncodedRows(pa.array(units), items[None, :]), layout, SALT)
    own = {item for item, unit in zip(items.tolist(), units, strict=True) if unit == 7}
    kept = set(sorted(own, key=lambda item: reference.row_hash(SALT, 7, (item,)))[:2])
    baskets = [set(block.items[low:high].tolist()) for low, high in zip(block.starts, block.starts[1:], strict=False)]
    assert sorted(map(sorted, baskets)) == sorted([sorted(kept), [3]])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda hashes, starts, bound: np.ones(hashes.size, dtype=np.bool_),
        lambda hashes, starts, bound: np.zeros(hashes.size, dtype=np.bool_),
    ],
)
def test_what_a_unit_keeps_is_counted_again(wrong: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """A truncation that keeps all rows, or none of a unit, makes no block."""
    monkeypatch.setattr("pipelines.contribution._smallest", wrong)
    rows = EncodedRows(pa.array([4, 4, 4, 1]), np.array([[5, 1, 5, 7], [0, 1, 0, 2]], dtype=np.uint8))
    with pytest.raises(IntegrityError, match=r"want 1 \.\. 2$"):
        table_block(rows, TableLayout("u", SCHEMA, max_rows_per_unit=2), SALT)


@pytest.mark.parametrize("units", [[7, 7, 7, 7, 7, 1], [7, 1, 7, 7, 7, 7]])
def test_what_a_basket_keeps_is_counted_again(units: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def all_rows(hashes: np.ndarray, starts: np.ndarray, bound: int) -> np.ndarray:
        return np.ones(hashes.size, dtype=np.bool_)

    monkeypatch.setattr("pipelines.contribution._smallest_distinct", all_rows)
    rows = EncodedRows(pa.array(units), np.array([[0, 1, 2, 2, 2, 3]], dtype=np.int32))
    with pytest.raises(IntegrityError, match="want at most 2"):
        basket_block(rows, BasketLayout("u", "i", 9, max_items_per_unit=2), SALT)


def test_a_basket_with_many_repeats_of_few_items_loses_nothing() -> None:
    items = np.array([[4, 4, 4, 4, 2]], dtype=np.int32)
    block = basket_block(EncodedRows(pa.array([1] * 5), items), BasketLayout("u", "i", 9, max_items_per_unit=2), SALT)
    assert set(block.items.tolist()) == {2, 4}


def test_another_salt_keeps_other_rows() -> None:
    codes = np.array([list(range(90)), [0] * 90], dtype=np.uint8)
    rows = EncodedRows(pa.array([1] * 90), codes)
    kept = [table_block(rows, TableLayout("u", SCHEMA), bytes([salt] * 16)).codes[0, 0] for salt in range(6)]
    assert len(set(kept)) > 1


def test_every_row_of_a_heavy_unit_is_equally_likely_to_be_kept() -> None:
    # A wrong share of one row in four would be 0.25 +- 0.022 at 1,600 salts: five standard deviations is 0.054.
    rows = EncodedRows(pa.array([1] * 4), np.array([[0, 1, 2, 3], [0] * 4], dtype=np.uint8))
    salts = [number.to_bytes(16, "little") for number in range(1600)]
    kept = [int(table_block(rows, TableLayout("u", SCHEMA), salt).codes[0, 0]) for salt in salts]
    shares = np.bincount(kept, minlength=4) / len(salts)
    assert np.abs(shares - 0.25).max() < 0.054


def test_shards_depend_on_the_unit_and_the_salt_alone() -> None:
    units = pa.array([5, 6, 5, -1, 2**62])
    numbers = shard_numbers(units, 7, SALT)
    wanted = [reference.siphash(SALT, (unit.as_py() % 2**64).to_bytes(8, "little")) % 7 for unit in units]
    assert numbers.tolist() == wanted
    assert shard_numbers(units.slice(3), 7, SALT).tolist() == wanted[3:]


def test_words_of_no_text_are_no_words() -> None:
    assert unit_words(pa.array([], pa.large_string()), SALT).tolist() == []
    assert unit_words(pa.array([""], pa.large_string()), SALT).tolist() == [reference.siphash(SALT, b"")]


def test_counts_units_over_the_bound() -> None:
    rows = EncodedRows(pa.array([1, 2, 1, 1, 2, 3]), np.array([[0, 5, 0, 1, 6, 7]], dtype=np.int32))
    assert units_over_bound(rows, BasketLayout("u", "i", 9, max_items_per_unit=1)) == (3, 2)
    assert units_over_bound(rows, BasketLayout("u", "i", 9, max_items_per_unit=2)) == (3, 0)
    assert units_over_bound(rows, TableLayout("u", SCHEMA, max_rows_per_unit=2)) == (3, 1)


def test_a_bound_one_below_the_number_of_items_cuts_who_has_all() -> None:
    rows = EncodedRows(pa.array([1] * 4), np.array([[0, 1, 2, 3]], dtype=np.int32))
    block = basket_block(rows, BasketLayout("u", "i", 4, max_items_per_unit=3), SALT)
    assert len(set(block.items.tolist())) == 3
