"""The laws of every aggregator, and what each aggregator refuses."""

from __future__ import annotations

import pickle
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError, EngineError, IntegrityError
from dpcore.exact_statistics import QueryAnswers, Request
from dpcore.queries import Conjunctions, Marginals, UnitCount
from dpcore.queries.generation import all_parities, random_conjunctions
from dpcore.queries.mixed_orders import random_mixed_conjunctions
from pipelines.aggregators import Aggregator, BasketBlock, Block, TableBlock, aggregator_for, contingency, packing
from pipelines.aggregators.protocol import SLOTS
from pipelines.layout import BasketLayout, TableLayout
from pipelines.schema import Attribute, Kind, Schema
from tests.support.engine_cases import clipped_requests

SIZES = (2, 3, 5)
SCHEMA = Schema(
    tuple(
        Attribute(name, Kind.INTEGER, edges=tuple(range(size + 1)), null=False)
        for name, size in zip("abc", SIZES, strict=True)
    )
)
TABLE = TableLayout("u", SCHEMA)
BASKETS = BasketLayout("u", "i", 9)
CLIQUES = tuple(clique for order in range(4) for clique in combinations("abc", order))
MARGINALS = QueryAnswers(Marginals(SCHEMA.domain, CLIQUES))


def conjunctions(view: BinaryView, order: int, count: int) -> QueryAnswers:
    return QueryAnswers(random_conjunctions(view, count, order, np.random.default_rng(order), negate=True))


MIXED = random_mixed_conjunctions(BASKETS.view, 60, [1, 2, 4], np.random.default_rng(3), negate=True)
REQUESTS: list[tuple[Request, TableLayout | BasketLayout]] = [
    (UnitCount(), TABLE),
    (UnitCount(), BASKETS),
    (MARGINALS, TABLE),
    (conjunctions(TABLE.view, 2, 40), TABLE),
    (conjunctions(BASKETS.view, 1, 18), BASKETS),
    (conjunctions(BASKETS.view, 3, 60), BASKETS),
    (conjunctions(BASKETS.view, 5, 30), BASKETS),
    (QueryAnswers(MIXED), BASKETS),
    (QueryAnswers(all_parities(BASKETS.view, 3)), BASKETS),
    (QueryAnswers(all_parities(TABLE.view, 2)), TABLE),
    *(
        (request, layout)
        for layout in (TABLE, BASKETS)
        for request in clipped_requests(layout, np.random.default_rng(7))
    ),
]
AGGREGATORS = [
    pytest.param(aggregator_for(*row), row[1], id=f"{type(aggregator_for(*row)).__name__}") for row in REQUESTS
]


def block_of(layout: TableLayout | BasketLayout, units: int, seed: int) -> Block:
    draw = np.random.default_rng(seed)
    if isinstance(layout, TableLayout):
        codes = np.array([draw.integers(0, size, size=units) for size in SIZES], dtype=np.uint8)
        return TableBlock(codes.reshape(3, units), units)
    sizes = draw.integers(1, 12, size=units)
    items = draw.integers(0, 9, size=int(sizes.sum())).astype(np.int32)
    return BasketBlock(np.concatenate([[0], np.cumsum(sizes)]), items)


def cut(block: Block, place: int) -> tuple[Block, Block]:
    if isinstance(block, TableBlock):
        return TableBlock(block.codes[:, :place], place), TableBlock(block.codes[:, place:], block.units - place)
    pair = int(block.starts[place])
    return (
        BasketBlock(block.starts[: place + 1], block.items[:pair]),
        BasketBlock(block.starts[place:] - pair, block.items[pair:]),
    )


def counted(aggregator: Aggregator, *blocks: Block) -> list[int]:
    total = aggregator.create()
    for block in blocks:
        total = aggregator.add(total, block)
    assert total.dtype == np.int64
    return aggregator.extract(total).tolist()


@pytest.mark.parametrize(("aggregator", "layout"), AGGREGATORS)
@given(units=st.integers(0, 300), cuts=st.integers(0, 300), seed=st.integers(0, 99))
def test_blocks_may_be_cut_and_merged_anywhere(
    aggregator: Aggregator, layout: TableLayout | BasketLayout, units: int, cuts: int, seed: int
) -> None:
    whole = block_of(layout, units, seed)
    parts = cut(whole, min(cuts, units))
    wanted = counted(aggregator, whole)
    assert counted(aggregator, *parts) == wanted
    left, right = (aggregator.add(aggregator.create(), part) for part in parts)
    kept = right.copy()
    assert aggregator.extract(aggregator.merge(left, right)).tolist() == wanted
    assert (right == kept).all()
    assert aggregator.extract(aggregator.merge(aggregator.create(), kept)).tolist() == counted(aggregator, parts[1])


@pytest.mark.parametrize(("aggregator", "layout"), AGGREGATORS)
def test_an_aggregator_travels_in_a_pickle(aggregator: Aggregator, layout: TableLayout | BasketLayout) -> None:
    block = block_of(layout, 70, 0)
    assert counted(pickle.loads(pickle.dumps(aggregator)), block) == counted(aggregator, block)


@pytest.mark.parametrize(("aggregator", "layout"), AGGREGATORS)
def test_merging_refuses_to_overflow(aggregator: Aggregator, layout: TableLayout | BasketLayout) -> None:
    full, one = aggregator.create(), aggregator.create()
    full[0], one[0] = np.iinfo(np.int64).max, 1
    with pytest.raises(EngineError, match="does not fit 64 bits"):
        aggregator.merge(full, one)
    assert aggregator.merge(full, aggregator.create())[0] == np.iinfo(np.int64).max


def accumulated(aggregator: Aggregator, layout: TableLayout | BasketLayout, units: int = 200) -> np.ndarray:
    return aggregator.add(aggregator.create(), block_of(layout, units, 1))


@pytest.mark.parametrize("row", [0, 2, 3])
@pytest.mark.parametrize("units", [199, 0, 201])
def test_a_block_over_its_bound_never_enters(row: int, units: int) -> None:
    """200 rows of too few units (more rows than declared), of none, or of more units (some of them without a row)."""
    aggregator = aggregator_for(*REQUESTS[row])
    codes = np.zeros((3, 200), dtype=np.uint8)
    with pytest.raises(IntegrityError, match=r"want 1 \.\. 1 per unit"):
        aggregator.add(aggregator.create(), TableBlock(codes, units))


def test_a_unit_of_several_rows_may_hold_them_all_and_no_more() -> None:
    layout = TableLayout("u", SCHEMA, max_rows_per_unit=3)
    aggregator = aggregator_for(MARGINALS, layout)
    rows = np.zeros((3, 30), dtype=np.uint8)
    assert counted(aggregator, TableBlock(rows, 10))[0] == 30
    with pytest.raises(IntegrityError, match=r"want 1 \.\. 3 per unit"):
        aggregator.add(aggregator.create(), TableBlock(rows, 9))


@pytest.mark.parametrize(("aggregator", "layout"), AGGREGATORS)
def test_whole_accumulators_are_checked_when_they_merge(
    aggregator: Aggregator, layout: TableLayout | BasketLayout
) -> None:
    for slot, change in ((-2, 1), (-1, -1), (-2, -1), (-1, 1)):
        wrong = accumulated(aggregator, layout)
        wrong[slot] += change
        with pytest.raises(IntegrityError):
            aggregator.merge(wrong, aggregator.create())
        with pytest.raises(IntegrityError):
            aggregator.extract(wrong)


@pytest.mark.parametrize(("aggregator", "layout"), AGGREGATORS)
@pytest.mark.parametrize("size", [1, 2, 7])
def test_a_negative_count_is_found_in_any_slice(
    aggregator: Aggregator, layout: TableLayout | BasketLayout, size: int
) -> None:
    whole = accumulated(aggregator, layout)
    for start in range(0, whole.size, size):
        wrong = whole[start : start + size].copy()
        wrong[0] = -1
        for left, right in ((wrong, wrong.copy()), (np.zeros_like(wrong), wrong)):
            with pytest.raises(IntegrityError, match="negative"):
                aggregator.merge(left.copy(), right)


@pytest.mark.parametrize(("aggregator", "layout"), AGGREGATORS)
def test_a_slice_that_is_lost_or_merged_twice_is_found(
    aggregator: Aggregator, layout: TableLayout | BasketLayout
) -> None:
    """Slices of the counts and of the totals travel apart; tables must hold every row once, conjunctions never more."""
    queries = aggregator.create().size - SLOTS
    with pytest.raises(IntegrityError):
        aggregator.extract(accumulated(aggregator, layout)[:-1])
    lost = accumulated(aggregator, layout)
    lost[queries:] = 0
    with pytest.raises(IntegrityError):
        aggregator.extract(lost)
    twice = accumulated(aggregator, layout)
    twice[int(np.argmax(twice[:queries]))] += twice[-2]
    with pytest.raises(IntegrityError):
        aggregator.extract(twice)


def test_a_table_that_misses_a_row_is_found() -> None:
    aggregator = aggregator_for(MARGINALS, TABLE)
    for cell in (0, 1, 40):
        wrong = accumulated(aggregator, TABLE)
        wrong[cell] += 1
        with pytest.raises(IntegrityError, match="does not count every row once"):
            aggregator.extract(wrong)


def ones_of(block: Block, layout: TableLayout | BasketLayout) -> np.ndarray:
    """Records as a dense 0/1 matrix."""
    if isinstance(block, TableBlock):
        return np.concatenate(
            [np.eye(size, dtype=bool)[codes] for size, codes in zip(SIZES, block.codes, strict=True)], 1
        )
    ones = np.zeros((block.units, layout.view.columns), dtype=bool)
    ones[np.repeat(np.arange(block.units), np.diff(block.starts)), block.items] = True
    return ones


@pytest.mark.parametrize("cache", [1, 4096, packing._CACHE])
@pytest.mark.parametrize("units", [0, 1, 63, 64, 65, 511, 512, 513, 1500])
@pytest.mark.parametrize("row", [3, 4, 5, 6])
def test_conjunctions_equal_a_dense_count(row: int, units: int, cache: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_CACHE", cache)
    request, layout = REQUESTS[row]
    assert isinstance(request, QueryAnswers)
    assert isinstance(request.queries, Conjunctions)
    block = block_of(layout, units, units)
    ones = ones_of(block, layout)
    wanted = [
        int((ones[:, columns] != negated).all(axis=1).sum())
        for columns, negated in zip(request.queries.columns, request.queries.negated, strict=True)
    ]
    assert counted(aggregator_for(request, layout), block) == wanted


def test_conjunctions_of_negated_literals_count_records_without_any_named_column() -> None:
    queries = Conjunctions(BASKETS.view, np.array([[0, 1]]), np.ones((1, 2), dtype=np.bool_))
    block = BasketBlock(np.array([0, 1, 2, 3]), np.array([8, 7, 0], dtype=np.int32))
    assert counted(aggregator_for(QueryAnswers(queries), BASKETS), block) == [2]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32])
@pytest.mark.parametrize("rows", [0, 1, contingency._CHUNK, 2 * contingency._CHUNK + 1])
def test_contingency_tables_equal_a_dense_histogram(rows: int, dtype: type) -> None:
    draw = np.random.default_rng(rows)
    codes = np.array([draw.integers(0, size, size=rows) for size in SIZES]).astype(dtype)
    full = np.zeros(SIZES, dtype=np.int64)
    np.add.at(full, tuple(codes.astype(int)), 1)
    queries = MARGINALS.queries
    assert isinstance(queries, Marginals)
    wanted = [
        full.sum(axis=tuple(axis for axis in range(3) if "abc"[axis] not in clique)).ravel() for clique in CLIQUES
    ]
    assert counted(aggregator_for(MARGINALS, TABLE), TableBlock(codes, rows)) == np.concatenate(wanted).tolist()


def test_marginals_may_speak_of_some_attributes_in_their_own_order() -> None:
    queries = Marginals(Domain.of({"c": 5, "a": 2}), (("a", "c"),))
    block = TableBlock(np.array([[1], [0], [4]], dtype=np.uint8), 1)
    answers = counted(aggregator_for(QueryAnswers(queries), TABLE), block)
    assert np.flatnonzero(answers).tolist() == [4 * 2 + 1]


@pytest.mark.parametrize(
    ("request_", "layout", "wanted"),
    [
        (MARGINALS, BASKETS, "baskets have no marginals"),
        (conjunctions(BinaryView(4), 1, 2), BASKETS, "the queries have 4 columns; want 9, as many as the data"),
        (conjunctions(BinaryView(10), 1, 2), TABLE, "the queries are over other columns"),
        (QueryAnswers(Marginals(Domain.of({"z": 2}), (("z",),))), TABLE, "attribute 'z' of size 2"),
        (QueryAnswers(Marginals(Domain.of({"a": 3}), (("a",),))), TABLE, "attribute 'a' of size 3"),
    ],
)
def test_refuses_a_request_about_other_data(request_: Request, layout: TableLayout | BasketLayout, wanted: str) -> None:
    with pytest.raises(ConfigError, match=wanted):
        aggregator_for(request_, layout)


def test_contingency_tables_refuse_baskets() -> None:
    aggregator = aggregator_for(MARGINALS, TABLE)
    with pytest.raises(EngineError, match="do not fit baskets"):
        aggregator.add(aggregator.create(), block_of(BASKETS, 3, 0))


def test_totals_are_records_and_units() -> None:
    """Two units of a table hold three rows."""
    layout = TableLayout("u", SCHEMA, max_rows_per_unit=2)
    aggregator = aggregator_for(MARGINALS, layout)
    total = aggregator.add(aggregator.create(), TableBlock(np.zeros((3, 3), dtype=np.uint8), 2))
    assert total[-SLOTS:].tolist() == [3, 2]


def test_a_negative_count_is_found_where_the_sums_are_right() -> None:
    """As a slice would have it that was changed on its way."""
    aggregator = aggregator_for(MARGINALS, TABLE)
    wrong = accumulated(aggregator, TABLE)
    wrong[1] -= wrong[1] + 1
    wrong[2] += accumulated(aggregator, TABLE)[1] + 1
    with pytest.raises(IntegrityError, match="counts >= 0"):
        aggregator.extract(wrong)
