"""Units with rows in several files, found by their digests: against the obvious comparison of all units."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.errors import IntegrityError
from pipelines.engines.claim import UnitRange, range_of
from pipelines.statistics_store.claim import in_several_files, overlapping, with_repeated_halves
from pipelines.statistics_store.unit_digests import (
    NO_UNITS,
    Digests,
    are_among,
    are_repeated,
    digests_from,
    digests_of,
    hashed,
)

KEYS = (bytes(range(16)), bytes(range(16, 32)))
UNITS = {
    "int64": (st.integers(-20, 20) | st.sampled_from([-(2**63), 2**63 - 1]), pa.int64()),
    "uint64": (st.integers(0, 20) | st.just(2**64 - 1), pa.uint64()),
    "text": (st.sampled_from(["", "a", "b", "ab", "ü", "x" * 70, *map(str, range(20))]), pa.large_string()),
}


DIGESTS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=12)


def broken_among(digests: dict[int, Digests]) -> dict[int, Digests]:
    places = with_repeated_halves({number: units[:, 0] for number, units in digests.items()})
    return in_several_files({number: digests[number][found] for number, found in places.items()})


@pytest.mark.parametrize("kind", UNITS)
@given(data=st.data())
def test_equals_the_comparison_of_all_units(kind: str, data: st.DataObject) -> None:
    values, arrow_type = UNITS[kind]
    files = data.draw(st.lists(st.sets(values, max_size=8), max_size=6))
    seen = Counter(unit for units in files for unit in units)
    arrays = [pa.array(sorted(units), arrow_type) for units in files]
    ranges: dict[int, UnitRange | None] = {number: range_of(units) for number, units in enumerate(arrays)}
    broken = {}
    for group in overlapping(ranges):
        assert len(group) > 1
        broken |= broken_among({number: digests_of(arrays[number], KEYS) for number in group})
    for number, units in enumerate(files):
        wanted = pa.array(sorted(unit for unit in units if seen[unit] > 1), arrow_type)
        assert broken.get(number, NO_UNITS).tolist() == digests_of(wanted, KEYS).tolist()
    assert all(len(units) for units in broken.values())


def test_half_a_digest_in_common_is_no_unit_in_common() -> None:
    first = np.array([[1, 1], [2, 5], [3, 3]], dtype=np.uint64)
    second = np.array([[1, 2], [2, 6], [3, 3]], dtype=np.uint64)
    broken = broken_among({0: first, 1: second})
    assert {number: units.tolist() for number, units in broken.items()} == {0: [[3, 3]], 1: [[3, 3]]}
    assert broken_among({0: first[:2], 1: second[:2]}) == {}
    assert broken_among({}) == {}


def test_the_largest_hashes_are_compared_too() -> None:
    ends = np.array([[0, 0], [2**56 - 1, 0], [2**56, 0], [2**64 - 1, 0]], dtype=np.uint64)
    assert {number: units.tolist() for number, units in broken_among({0: ends, 1: ends}).items()} == {
        0: ends.tolist(),
        1: ends.tolist(),
    }


@given(digests=DIGESTS, wanted=st.sets(st.tuples(st.integers(0, 2), st.integers(0, 2))))
def test_digests_are_looked_up_as_pairs(digests: list[tuple[int, int]], wanted: set[tuple[int, int]]) -> None:
    rows = np.array(digests, dtype=np.uint64).reshape(-1, 2)
    listed = np.array(list(wanted), dtype=np.uint64).reshape(-1, 2)
    assert are_among(rows, listed).tolist() == [pair in wanted for pair in digests]
    assert are_repeated(rows).tolist() == [digests.count(pair) > 1 for pair in digests]


def test_digests_depend_on_both_keys_and_survive_as_bytes() -> None:
    units = pa.array(range(1000))
    digests = digests_of(units, KEYS)
    assert sorted(hashed(units, KEYS).tolist()) == digests.tolist()
    assert len({tuple(pair) for pair in digests.tolist()}) == 1000
    assert digests_from(digests.tobytes()).tolist() == digests.tolist()
    for place in range(2):
        keys = (KEYS[0], bytes(16)) if place else (bytes(16), KEYS[1])
        changed = digests_of(units, keys)
        assert set(changed[:, place].tolist()).isdisjoint(digests[:, place].tolist())
        assert set(changed[:, 1 - place].tolist()) == set(digests[:, 1 - place].tolist())
    with pytest.raises(IntegrityError, match="cut off"):
        digests_from(digests.tobytes()[:-1])
