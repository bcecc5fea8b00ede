from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dpcore.errors import IntegrityError
from dpcore.exact_statistics import NamedSums
from dpcore.kernel.item_threshold import weights_of
from pipelines.aggregators import item_sums
from pipelines.aggregators.item_sums import ItemSums, NamedPairs
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.layout import BasketLayout
from pipelines.source import open_source
from tests.support import engine_cases
from tests.support.engine_cases import SALT

WEIGHTS = weights_of(5)


def by_name(sums: NamedSums) -> dict[str, int]:
    names = [sums.name(item).decode() for item in range(sums.sums.size)]
    assert len(set(names)) == len(names)
    return dict(zip(names, sums.sums.tolist(), strict=True))


def reference(baskets: list[list[str]], weights: np.ndarray) -> dict[str, int]:
    counted: Counter[str] = Counter()
    for basket in baskets:
        distinct = set(basket)
        counted.update(dict.fromkeys(distinct, int(weights[len(distinct)])))
    return dict(counted)


def pairs_of(baskets: list[list[str]]) -> NamedPairs:
    names = sorted({name for basket in baskets for name in basket})
    items = [names.index(name) for basket in baskets for name in basket]
    starts = np.concatenate([[0], np.cumsum([len(basket) for basket in baskets])]).astype(np.int64)
    return NamedPairs(starts, np.array(items, dtype=np.int32), pa.array(names, pa.large_string()))


def random_baskets(generator: np.random.Generator, units: int) -> list[list[str]]:
    names = [f"{'x' * (number % 5)}{number}" for number in range(60)] + [""]
    baskets = []
    for _ in range(units):
        basket = [names[item] for item in generator.integers(0, len(names), generator.integers(1, 6))]
        baskets.append(basket + basket[:2])
    return baskets


@pytest.fixture(params=["hashes", "equal hashes"])
def aggregator(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ItemSums:
    if request.param == "equal hashes":

        def two_hashes(data: np.ndarray, offsets: np.ndarray, _: object) -> np.ndarray:
            return (np.diff(offsets) % 2).astype(np.uint64) << np.uint64(63)

        monkeypatch.setattr(item_sums, "hash_texts", two_hashes)
    return ItemSums(WEIGHTS, SALT)


def test_sums_are_those_of_a_counter(aggregator: ItemSums) -> None:
    generator = np.random.default_rng(1)
    first, second = random_baskets(generator, 40), random_baskets(generator, 30)
    accumulator = aggregator.add_pairs(aggregator.create(), pairs_of(first))
    accumulator = aggregator.add_pairs(accumulator, pairs_of(second))
    assert by_name(aggregator.extract(accumulator)) == reference(first + second, WEIGHTS)


def test_a_name_that_begins_another_is_another_item(aggregator: ItemSums) -> None:
    left = aggregator.add_pairs(aggregator.create(), pairs_of([["a"], ["a", "b"]]))
    right = aggregator.add_pairs(aggregator.create(), pairs_of([["abc"], [""], ["ab"]]))
    wanted = reference([["a"], ["a", "b"], ["abc"], [""], ["ab"]], WEIGHTS)
    assert by_name(aggregator.extract(aggregator.merge(left, right))) == wanted
    assert by_name(aggregator.extract(aggregator.merge(right, left))) == wanted


def test_slices_merged_apart_join_to_the_same_bits(aggregator: ItemSums) -> None:
    generator = np.random.default_rng(2)
    parts = [aggregator.add_pairs(aggregator.create(), pairs_of(random_baskets(generator, 30))) for _ in range(3)]
    whole = aggregator.merge(aggregator.merge(parts[0], parts[1]), parts[2])
    merged: dict[int, np.ndarray] = {}
    for part in reversed(parts):
        for number, piece in aggregator.split(part):
            merged[number] = aggregator.merge(merged[number], piece) if number in merged else piece
    assert len(merged) > 1
    np.testing.assert_array_equal(aggregator.join(merged.items()), whole)


def test_merging_changes_neither_side_and_zero_is_neutral(aggregator: ItemSums) -> None:
    left = aggregator.add_pairs(aggregator.create(), pairs_of([["a", "b"], ["b"]]))
    right = aggregator.add_pairs(aggregator.create(), pairs_of([["c"]]))
    before = left.copy(), right.copy()
    both = aggregator.merge(left, right)
    np.testing.assert_array_equal(left, before[0])
    np.testing.assert_array_equal(right, before[1])
    np.testing.assert_array_equal(aggregator.merge(both, aggregator.create()), both)
    np.testing.assert_array_equal(aggregator.merge(aggregator.create(), both), both)
    assert aggregator.extract(aggregator.join([])).sums.size == 0


def test_parts_hold_every_item_once() -> None:
    baskets = random_baskets(np.random.default_rng(3), 50)
    sums: dict[str, int] = {}
    for part in range(3):
        aggregator = ItemSums(WEIGHTS, SALT, part, 3)
        of_part = by_name(aggregator.extract(aggregator.add_pairs(aggregator.create(), pairs_of(baskets))))
        assert of_part
        assert not set(of_part) & set(sums)
        sums |= of_part
    assert sums == reference(baskets, WEIGHTS)


def test_a_unit_over_the_bound_is_refused() -> None:
    aggregator = ItemSums(WEIGHTS, SALT)
    with pytest.raises(IntegrityError, match="at most 5"):
        aggregator.add_pairs(aggregator.create(), pairs_of([["a", "b", "c", "d", "e", "f"]]))


@pytest.mark.parametrize("damage", ["lost slice", "slice twice", "cut", "negative", "too large"])
def test_damage_is_noticed(damage: str) -> None:
    aggregator = ItemSums(WEIGHTS, SALT)
    whole = aggregator.add_pairs(aggregator.create(), pairs_of(random_baskets(np.random.default_rng(4), 40)))
    slices = list(aggregator.split(whole))
    with pytest.raises(IntegrityError):
        aggregator.extract(damaged(aggregator, whole, slices, damage))


def damaged(aggregator: ItemSums, whole: np.ndarray, slices: list[tuple[int, np.ndarray]], damage: str) -> np.ndarray:
    changed = whole.copy()
    match damage:
        case "lost slice":
            return aggregator.join(slices[:-1])
        case "slice twice":
            again = aggregator.merge(slices[-1][1], slices[-1][1])
            return aggregator.join([*slices[:-1], (slices[-1][0], again)])
        case "cut":
            return whole[:-1]
        case "negative":
            changed[4 + changed[2]] = -5
        case _:
            changed[4 + changed[2]] += 1 << 40
            changed[1] += 1 << 40
    return changed


@pytest.mark.parametrize("files", [1, 4])
@pytest.mark.parametrize("text", [True, False])
def test_a_source_gives_the_sums_of_its_truncated_baskets(tmp_path: Path, files: int, text: bool) -> None:
    case = engine_cases.messy_baskets(bound=None)
    rows = case.rows
    if text:
        films = [None if film is None else f"film {film}" for film in rows["film"].to_pylist()]
        rows = rows.set_column(1, "film", pa.array(films, pa.string()))
    engine_cases.write(rows, tmp_path, files)
    layout = BasketLayout("user", "film", 10, max_items_per_unit=40, any_items=True)
    statistics = EngineStatistics(LocalEngine(2), open_source(str(tmp_path), layout, SALT))
    baskets: dict[object, list[str]] = {}
    for row in rows.to_pylist():
        if row["user"] is not None and row["film"] is not None:
            baskets.setdefault(row["user"], []).append(str(row["film"]))
    weights = weights_of(40)
    assert by_name(statistics.item_sums(weights, 0)) == reference(list(baskets.values()), weights)


def test_truncation_depends_on_names_and_units_alone(tmp_path: Path) -> None:
    case = engine_cases.messy_baskets()
    layout = BasketLayout("user", "film", 10, max_items_per_unit=3, any_items=True)
    found = []
    for files in (1, 5):
        engine_cases.write(case.rows, tmp_path / str(files), files)
        engine = LocalEngine(2, rows_in_memory=60 if files > 1 else 1000)
        statistics = EngineStatistics(engine, open_source(str(tmp_path / str(files)), layout, SALT))
        found.append(by_name(statistics.item_sums(WEIGHTS[:4], 0)))
    assert found[0] == found[1]
    assert sum(found[0].values()) <= 150 * max(k * int(WEIGHTS[k]) for k in range(4))


def test_excluded_items_are_as_if_nobody_had_them(tmp_path: Path) -> None:
    rows = engine_cases.messy_baskets().rows
    layout = BasketLayout("user", "film", 10, max_items_per_unit=3, any_items=True)
    excluded = (b"0", b"7", b"not there")
    engine_cases.write(rows, tmp_path / "all", 3)
    without = rows.filter(pc.fill_null(pc.invert(pc.is_in(rows["film"], pa.array([0, 7]))), True))
    engine_cases.write(without, tmp_path / "without", 3)
    all_rows, fewer = (
        EngineStatistics(LocalEngine(2), open_source(str(tmp_path / name), layout, SALT)) for name in ("all", "without")
    )
    wanted = by_name(fewer.item_sums(WEIGHTS[:4], 0))
    assert by_name(all_rows.item_sums(WEIGHTS[:4], 0, excluded)) == wanted
    assert by_name(all_rows.item_sums(WEIGHTS[:4], 0)) != wanted
