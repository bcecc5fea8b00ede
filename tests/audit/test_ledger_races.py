"""A small race on both databases, its kills, and the counts that must see a race that went wrong."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.audit import ledger_races
from tests.audit.section import Row, Size

pytestmark = pytest.mark.false_alarm(0)  # Of tests that no draw decides; the others say theirs.


@pytest.fixture(scope="module")
def rows() -> Sequence[Row]:
    return ledger_races.run(Size.FAST)


def test_nothing_is_overspent_or_lost(rows: Sequence[Row]) -> None:
    assert len(rows) == 6
    assert all(row.passed for row in rows), rows


def test_the_race_was_one(rows: Sequence[Row]) -> None:
    for row in (row for row in rows if "processes" in str(row.cells["what"])):
        accepted, refused = row.cells["accepted"], row.cells["refused"]
        assert isinstance(accepted, int)
        assert isinstance(refused, int)
        assert row.cells["asked"] == 8 * 50
        assert 0.3 < accepted / (accepted + refused) < 0.8


def test_a_reserve_that_reads_and_then_writes_is_caught(rows: Sequence[Row]) -> None:
    planted = [row for row in rows if "planted" in str(row.cells["what"])]
    assert len(planted) == 2
    for row in planted:
        assert row.cells["wrong sums"]


FINE = {"overspent": 0, "lost": 0, "charged twice": 0, "charged though refused": 0, "wrong sums": 0}


@pytest.mark.smoke
@pytest.mark.parametrize("name", FINE)
def test_each_wrong_count_fails_its_row(name: str) -> None:
    assert ledger_races.sound(FINE)
    assert not ledger_races.sound(FINE | {name: 1})
