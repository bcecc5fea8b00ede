"""Properties of encoding, bounding and counting, for any rows in any batches."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dpcore.exact_statistics import QueryAnswers, Request
from dpcore.queries import Marginals, UnitCount
from dpcore.queries.generation import random_conjunctions
from pipelines.aggregators import aggregator_for
from pipelines.attributes import Attribute, Kind
from pipelines.column_codes import encode_column
from pipelines.engines.accumulation import accumulate, split_by_unit, units_in_many_files
from pipelines.layout import BasketLayout, Layout, TableLayout
from pipelines.schema import Schema
from pipelines.source import Source
from tests.support import reference
from tests.support.engine_cases import SALT

SCHEMA = Schema(
    (
        Attribute("c", Kind.CATEGORICAL, values=("x", "y"), other=True),
        Attribute("n", Kind.INTEGER, edges=(-2, 0, 3)),
        Attribute("b", Kind.BOOLEAN, null=False),
    )
)
UNITS = st.one_of(st.none(), st.integers(-3, 6), st.sampled_from([-(2**63), 2**63 - 1]))
TABLE_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "u": UNITS,
            "c": st.sampled_from(["x", "y", "z", None]),
            "n": st.one_of(st.none(), st.integers(-5, 5)),
            "b": st.sampled_from([True, False, None]),
        }
    ),
    max_size=30,
)
PAIR_ROWS = st.lists(
    st.fixed_dictionaries({"u": UNITS, "i": st.one_of(st.none(), st.integers(-1, 6), st.just(2**40))}), max_size=40
)
TABLE_TYPES = pa.schema({"u": pa.int64(), "c": pa.string(), "n": pa.int64(), "b": pa.bool_()})
PAIR_TYPES = pa.schema({"u": pa.int64(), "i": pa.int64()})
PIECES = st.integers(1, 5)
SALTS = st.binary(min_size=16, max_size=16)
BOUNDS = st.integers(1, 4)


def batches_of(rows: list[dict[str, object]], types: pa.Schema, pieces: int) -> list[pa.RecordBatch]:
    cuts = np.linspace(0, len(rows), pieces + 1).astype(int)
    parts = [rows[low:high] for low, high in pairwise(cuts)]
    return [pa.RecordBatch.from_pylist(part, schema=types) for part in parts]


def requests_of(layout: Layout) -> list[Request]:
    conjunctions = random_conjunctions(layout.view, 20, 2, np.random.default_rng(0), negate=True)
    some: list[Request] = [UnitCount(), QueryAnswers(conjunctions)]
    if isinstance(layout, TableLayout):
        some.append(QueryAnswers(Marginals(layout.schema.domain, (("c", "b"), ("n",), ()))))
    return some


@given(rows=TABLE_ROWS, bound=BOUNDS, pieces=PIECES, salt=SALTS)
def test_tables_equal_the_slow_reference(rows: list[dict[str, object]], bound: int, pieces: int, salt: bytes) -> None:
    layout = TableLayout("u", SCHEMA, max_rows_per_unit=bound)
    batches = batches_of(rows, TABLE_TYPES, pieces)
    for request in requests_of(layout):
        aggregator = aggregator_for(request, layout)
        counted = aggregator.extract(accumulate(batches, Source((), layout, salt), aggregator))
        assert counted.tolist() == reference.answers([rows], layout, salt, request)


@given(rows=PAIR_ROWS, bound=st.one_of(st.none(), BOUNDS), pieces=PIECES, salt=SALTS)
def test_baskets_equal_the_slow_reference(
    rows: list[dict[str, object]], bound: int | None, pieces: int, salt: bytes
) -> None:
    layout = BasketLayout("u", "i", 6, max_items_per_unit=bound)
    batches = batches_of(rows, PAIR_TYPES, pieces)
    for request in requests_of(layout):
        aggregator = aggregator_for(request, layout)
        counted = aggregator.extract(accumulate(batches, Source((), layout, salt), aggregator))
        assert counted.tolist() == reference.answers([rows], layout, salt, request)


@given(rows=TABLE_ROWS, order=st.randoms(use_true_random=False), shards=PIECES)
def test_shards_of_shuffled_rows_add_up_to_the_whole(
    rows: list[dict[str, object]], order: random.Random, shards: int
) -> None:
    layout = TableLayout("u", SCHEMA, max_rows_per_unit=2)
    source = Source((), layout, SALT)
    aggregator = aggregator_for(requests_of(layout)[2], layout)
    whole = accumulate(batches_of(rows, TABLE_TYPES, 1), source, aggregator)
    shuffled = list(rows)
    order.shuffle(shuffled)
    split = [split_by_unit(batch, source, shards) for batch in batches_of(shuffled, TABLE_TYPES, 3)]
    parts = [accumulate(shard, source, aggregator) for shard in zip(*split, strict=True)]
    assert np.sum(parts, axis=0).tolist() == whole.tolist()


@given(rows=TABLE_ROWS, newcomer=TABLE_ROWS, bound=BOUNDS)
def test_one_more_unit_moves_a_marginal_by_at_most_its_bound(
    rows: list[dict[str, object]], newcomer: list[dict[str, object]], bound: int
) -> None:
    layout = TableLayout("u", SCHEMA, max_rows_per_unit=bound)
    source = Source((), layout, SALT)
    aggregator = aggregator_for(QueryAnswers(Marginals(SCHEMA.domain, (("c", "n", "b"),))), layout)
    before = accumulate(batches_of(rows, TABLE_TYPES, 1), source, aggregator)
    more = [*rows, *({**row, "u": 77} for row in newcomer)]
    after = accumulate(batches_of(more, TABLE_TYPES, 1), source, aggregator)
    moved = aggregator.extract(after) - aggregator.extract(before)
    assert moved.min() >= 0
    assert moved.sum() == min(len(newcomer), bound)


@given(files=st.lists(st.sets(st.integers(-20, 20)), max_size=6))
def test_units_in_many_files_are_those_that_a_counter_finds(files: list[set[int]]) -> None:
    counted = Counter(unit for units in files for unit in units)
    found = units_in_many_files([pa.array(list(units), pa.int64()) for units in files])
    assert sorted(found.to_pylist()) == sorted(unit for unit, count in counted.items() if count > 1)


EDGES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=9, unique=True).map(lambda edges: tuple(sorted(edges)))


@given(edges=EDGES, values=st.lists(st.one_of(st.none(), st.floats(), st.sampled_from([-0.0, 5e-324])), max_size=20))
def test_every_float_has_the_code_of_the_published_rule(edges: tuple[float, ...], values: list[float | None]) -> None:
    attribute = Attribute("a", Kind.FLOAT, edges=edges)
    codes = encode_column(pa.array([*values, edges[0], edges[-1]], pa.float64()), attribute, np.dtype(np.uint8))
    assert codes.tolist() == [reference.code(value, attribute) for value in (*values, edges[0], edges[-1])]


@given(edges=EDGES, values=st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), max_size=20))
def test_every_integer_has_the_code_of_the_published_rule(edges: tuple[float, ...], values: list[int | None]) -> None:
    attribute = Attribute("a", Kind.FLOAT, edges=edges)
    near = [round(edge) for edge in edges]
    codes = encode_column(pa.array([*values, *near], pa.int64()), attribute, np.dtype(np.uint8))
    assert codes.tolist() == [reference.code(value, attribute) for value in (*values, *near)]
