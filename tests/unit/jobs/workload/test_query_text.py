"""Queries as text and back, and the errors for texts that are no queries."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from dpcore.domain import BinaryView
from dpcore.queries import Conjunctions, CountingQueries, Parities
from dpcore.queries.generation import random_conjunctions
from jobs.outputs.answers_table import query_texts
from jobs.workload.query_text import LiteralError, read_columns, read_conjunctions
from pipelines.attributes import Attribute, Kind
from pipelines.layout import BasketLayout, Layout, TableLayout
from pipelines.schema import Schema

TABLE = TableLayout(
    "person",
    Schema(
        (
            Attribute("sex", Kind.CATEGORICAL, values=("female", "male"), null=False),
            Attribute("age", Kind.INTEGER, edges=(0, 30, 100)),
            Attribute(
                "job & rank", Kind.CATEGORICAL, values=("a=b", "plain", 'say "x"', "x^y"), other=True, null=False
            ),
        )
    ),
)
BASKETS = BasketLayout("user", "item", 1000)


def texts(queries: CountingQueries, layout: Layout) -> list[str]:
    return [text for part in query_texts(queries, layout) for text in part.to_pylist()]


def literals(text: str, layout: Layout = TABLE) -> list[tuple[int, bool]]:
    found = read_conjunctions([text], layout)
    return list(zip(found.columns[0].tolist(), found.negated[0].tolist(), strict=True))


@pytest.mark.parametrize("layout", [TABLE, BASKETS])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_what_is_written_is_read_back(layout: Layout, order: int) -> None:
    queries = random_conjunctions(layout.view, 15, order, np.random.default_rng(order), negate=True)
    found = read_conjunctions(texts(queries, layout), layout)
    assert np.array_equal(found.columns, queries.columns)
    assert np.array_equal(found.negated, queries.negated)


@pytest.mark.parametrize("layout", [TABLE, BASKETS])
def test_mixed_orders_are_read_back(layout: Layout) -> None:
    generator = np.random.default_rng(5)
    parts = [random_conjunctions(layout.view, 6, order, generator, negate=True) for order in (3, 1, 2)]
    queries = Conjunctions.joined(parts)
    written = texts(queries, layout)
    assert [text.replace("job & rank", "").count("&") + 1 for text in written] == queries.orders.tolist()
    found = read_conjunctions(written, layout)
    assert np.array_equal(found.columns, queries.columns)
    assert np.array_equal(found.negated, queries.negated)


def test_every_column_is_read_back() -> None:
    named = [text for (text,) in zip(texts(Conjunctions.single_columns(TABLE.view), TABLE), strict=True)]
    assert read_columns(named, TABLE).tolist() == list(range(TABLE.view.columns))
    assert read_columns([" 7", "0", "999 "], BASKETS).tolist() == [7, 0, 999]


def test_spaces_and_needless_quotes_are_free() -> None:
    assert literals('  "sex"  !=  male&age = [0, 30)  ') == [(1, True), (2, False)]
    assert literals('"job & rank"="a=b" & sex=female') == [(5, False), (0, False)]
    assert literals("! 12 &7", BASKETS) == [(12, True), (7, False)]


def test_texts_of_versions_before_0_13_are_read_too() -> None:
    rich = Attribute("in<come", Kind.CATEGORICAL, values=("<=50K", ">50K", "50|60"), other=False, null=False)
    layout = TableLayout("person", Schema((rich,)))
    written = [f'"in<come"="{label}"' for label in rich.labels]
    assert read_columns(written, layout).tolist() == [0, 1, 2]
    before = ['in<come="<=50K"', "in<come=>50K", "in<come=50|60"]
    assert read_columns(before, layout).tolist() == [0, 1, 2]
    queries = Conjunctions(layout.view, np.array([[0], [1], [2]], dtype=np.int32), np.zeros((3, 1), dtype=np.bool_))
    assert texts(queries, layout) == written
    assert literals("in<come!=>50K", layout) == [(1, True)]


def test_two_negated_values_of_one_attribute_are_a_query() -> None:
    assert literals("age!=[0, 30) & age!=__null__ & sex=male") == [(2, True), (4, True), (1, False)]
    assert literals("sex=male & sex!=female") == [(1, False), (0, True)]


BAD: list[tuple[list[str], Layout, int, str]] = [
    (["1 & 2 & 3", "1 & 1"], BASKETS, 1, "names an item or a value twice"),
    (["1 & 2 & 3", "4 & !4"], BASKETS, 1, "names an item or a value twice"),
    (["sex=male", "sex=male & sex=female"], TABLE, 1, "requires two values of one attribute"),
    (["1 & 2", "3 & 1000"], BASKETS, 1, r"item 1000 is out of range; want 0 \.\. 999"),
    (["1 & -2"], BASKETS, 0, "'-2' is not a literal; want the number of an item, or ! and a number"),
    (["1 & 2", "5 & 5"], BASKETS, 1, "names an item or a value twice"),
    (["5 & !5"], BASKETS, 0, "names an item or a value twice"),
    (["5 & "], BASKETS, 0, "has an empty literal"),
    (["sex=male", "sexx=male"], TABLE, 1, "unknown attribute 'sexx'; did you mean 'sex'"),
    (["sex=males"], TABLE, 0, "unknown value 'males' of attribute 'sex'; did you mean 'male'"),
    (["sex=9"], TABLE, 0, r"want one of \['female', 'male'\]"),
    (["sex"], TABLE, 0, "'sex' is not a literal; want attribute=value or attribute!=value"),
    (["sex=male=x"], TABLE, 0, "'sex=male=x' is not a literal"),
    (['"sex=male'], TABLE, 0, "not a literal|not quoted correctly"),
    (["age=[0, 30) & sex=male", "sex=male & sex=female"], TABLE, 1, "requires two values of one attribute"),
]


@pytest.mark.parametrize(("given", "layout", "place", "says"), BAD)
def test_what_is_no_conjunction_is_told_so(given: list[str], layout: Layout, place: int, says: str) -> None:
    with pytest.raises(LiteralError, match=says) as caught:
        read_conjunctions(given, layout)
    assert caught.value.index == place


@pytest.mark.parametrize(
    ("given", "layout", "place", "says"),
    [
        (["3", "!4"], BASKETS, 1, "'!4' is a negation; want a column without negation"),
        (["3", "03"], BASKETS, 1, "names '03' a second time"),
        (["sex=male", "sex"], TABLE, 1, "not a literal"),
    ],
)
def test_what_is_no_column_is_told_so(given: list[str], layout: Layout, place: int, says: str) -> None:
    with pytest.raises(LiteralError, match=says) as caught:
        read_columns(given, layout)
    assert caught.value.index == place


def test_parities_are_named_as_even_sets() -> None:
    assert texts(Parities.of_sets(BinaryView(1000), [[12], [845, 3], [5, 9, 7]]), BASKETS) == [
        "even(12)",
        "even(3 ^ 845)",
        "even(5 ^ 7 ^ 9)",
    ]
    assert texts(Parities.of_sets(TABLE.view, [[1, 2, 5], [8]]), TABLE) == [
        'even(sex=male ^ age=[0, 30) ^ "job & rank"="a=b")',
        'even("job & rank"="x^y")',
    ]


def test_different_parities_have_different_texts() -> None:
    sets = [row for order in (1, 2, 3) for row in combinations(range(TABLE.view.columns), order)]
    assert len(set(texts(Parities.of_sets(TABLE.view, sets), TABLE))) == len(sets)
