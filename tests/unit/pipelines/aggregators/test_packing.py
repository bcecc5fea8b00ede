"""Slabs of bitmaps: their content, and their memory."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.domain import BinaryView
from pipelines.aggregators import BasketBlock, TableBlock, packing
from pipelines.aggregators.packing import Packing, missing_of


@pytest.mark.parametrize("rows", [1, 100, 2_000, 17_770, 512_000, 5_000_000])
def test_a_slab_stays_small_however_many_columns_are_asked_for(rows: int) -> None:
    words = packing._words(rows)
    assert words % packing._VECTOR == 0
    assert packing._VECTOR <= words <= packing._MAX_WORDS
    assert 8 * rows * words <= max(8 << 20, 64 * rows)


@pytest.mark.parametrize("by_size", [False, True])
@pytest.mark.parametrize("cache", [1, packing._CACHE])
def test_slabs_hold_every_record_once(cache: int, by_size: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_CACHE", cache)
    units, items = 1100, 30
    held = np.random.default_rng(0).random((units, items)) < 0.3
    held[:, 0] = True
    block = BasketBlock(np.cumsum([0, *held.sum(axis=1)]), np.nonzero(held)[1].astype(np.int32))
    packed = Packing.of(BinaryView(items), np.array([29, 3, 3, 7], dtype=np.int32))
    assert packed.used == 3
    assert packed.rows_of(np.array([3, 7, 29], dtype=np.int32)).tolist() == [0, 1, 2]
    found, stops = [], [0]
    for here, bits in packed.slabs(block, by_size=by_size):
        assert here.start == stops[-1]
        assert bits.ctypes.data % 64 == 0
        ones = np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little").astype(bool)
        records = here.stop - here.start
        assert missing_of(here, bits) == ones.shape[1] - records
        assert not ones[:, records:].any()
        found.append(ones[:, :records])
        stops.append(here.stop)
    assert stops[-1] == units
    order = np.argsort(-held.sum(axis=1), kind="stable") if by_size else np.arange(units)
    assert (held[order][:, [3, 7, 29]] == np.concatenate(found, axis=1).T).all()


def test_a_block_without_records_has_no_slab() -> None:
    packed = Packing.of(BinaryView(2, ((0, 2),)), np.array([0], dtype=np.int32))
    assert list(packed.slabs(TableBlock(np.empty((1, 0), dtype=np.uint8), 0))) == []
