from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

from dpcore.errors import ConfigError
from pipelines import item_names
from pipelines.item_names import UNKNOWN, ItemNames

NAMES = ["milk", "17", "017", "", "fish & chips", "café", "9223372036854775808", "-3"]
COLUMNS = [
    pa.array(["café", "milk", None, "tea", "", "017"]),
    pa.array(["café", "milk", None, "tea", "", "017"], pa.large_string()),
    pa.array(["café", "milk", None, "tea", "", "017"], pa.string_view()),
    pa.array(["café", "milk", None, "tea", "", "017"]).dictionary_encode(),
    pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0]), pa.array([None, "milk", "17"])),
    pa.array([17, None, 18, -3], pa.int32()),
    pa.array([17, 2**63, 3], pa.uint64()),
    pa.array(["x", "milk", "tea"]).slice(1),
    pa.array([], pa.string()),
    pa.array([], pa.int64()),
]


def reference(column: pa.Array, names: list[str]) -> list[int]:
    return [UNKNOWN if value is None else {name: code for code, name in enumerate(names)}.get(str(value), UNKNOWN)
            for value in column.to_pylist()]  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS, ids=str)
def test_codes_are_those_of_a_dict(column: pa.Array) -> None:
    codes = ItemNames.of(NAMES).codes_of(column)
    assert codes.dtype == np.int32
    assert codes.tolist() == reference(column, NAMES)


@pytest.mark.parametrize("column", COLUMNS, ids=str)
def test_names_with_equal_hashes_keep_apart(column: pa.Array, monkeypatch: pytest.MonkeyPatch) -> None:
    def few_hashes(array: pa.Array) -> np.ndarray:
        return np.array([len(text or "") % 2 for text in array.to_pylist()], dtype=np.uint64)

    monkeypatch.setattr(item_names, "_hashes", few_hashes)
    assert ItemNames.of(NAMES).codes_of(column).tolist() == reference(column, NAMES)


def test_many_random_names() -> None:
    generator = np.random.default_rng(1)
    names = [f"item-{number}" for number in generator.permutation(5_000)]
    column = pa.array([f"item-{number}" for number in generator.integers(0, 8_000, 20_000)])
    assert ItemNames.of(names).codes_of(column).tolist() == reference(column, names)


def test_names_of_codes() -> None:
    names = ItemNames.of(NAMES)
    assert names.take(np.array([4, 0])).to_pylist() == ["fish & chips", "milk"]
    assert names.size == len(NAMES)


def test_equality_and_digest_follow_the_texts_in_order() -> None:
    whole = pa.array(["", *NAMES], pa.large_string())
    assert ItemNames(whole.slice(1)) == ItemNames.of(NAMES)
    assert ItemNames.of(["ab", "c"]).digest != ItemNames.of(["a", "bc"]).digest
    assert ItemNames.of(["a", "b"]) != ItemNames.of(["b", "a"])


def test_pickled_names_leave_the_index_behind() -> None:
    names = ItemNames.of(NAMES)
    names.codes_of(pa.array(["milk"]))
    copied = pickle.loads(pickle.dumps(names))
    assert copied == names
    assert "_index" not in copied.__dict__
    assert copied.codes_of(pa.array(["milk"])).tolist() == [0]


def test_no_names_and_repeated_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="empty"):
        ItemNames.of([])
    with pytest.raises(ConfigError, match="'b' is listed a second time as number 4"):
        ItemNames.of(["a", "b", "c", "b", "a"])
