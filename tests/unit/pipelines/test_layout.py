from __future__ import annotations

import pytest

from dpcore.domain import BinaryView
from dpcore.errors import ConfigError
from dpcore.exact_statistics import Contribution, Shape
from pipelines.layout import BasketLayout, TableLayout
from pipelines.schema import Attribute, Kind, Schema

SCHEMA = Schema(
    (
        Attribute("sex", Kind.BOOLEAN, null=False),
        Attribute("age", Kind.INTEGER, edges=(0, 18, 99), column="years"),
        Attribute("decade", Kind.INTEGER, edges=(0, 10, 20, 99), column="years"),
    )
)


def test_a_table_reads_each_column_once_and_is_one_hot() -> None:
    layout = TableLayout("person", SCHEMA, max_rows_per_unit=3)
    assert layout.columns == ("person", "sex", "years")
    assert layout.contribution == Contribution(Shape.TABLE, 3)
    assert layout.view == BinaryView(9, ((0, 2), (2, 5), (5, 9)))


@pytest.mark.parametrize(("bound", "wanted"), [(None, 40), (7, 7), (400, 40)])
def test_a_basket_holds_at_most_every_item(bound: int | None, wanted: int) -> None:
    layout = BasketLayout("user", "film", 40, max_items_per_unit=bound)
    assert layout.columns == ("user", "film")
    assert layout.contribution == Contribution(Shape.BASKETS, wanted)
    assert layout.view == BinaryView(40)


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda: TableLayout("u", SCHEMA, max_rows_per_unit=0), "max_rows_per_unit is 0; want >= 1"),
        (lambda: BasketLayout("u", "i", 0), "items is 0; want 1"),
        (lambda: BasketLayout("u", "i", 2**31), "items is 2,147,483,648; want 1"),
        (lambda: BasketLayout("u", "i", 5, max_items_per_unit=0), "max_items_per_unit is 0; want >= 1"),
        (lambda: BasketLayout("u", "u", 5), "unit and item are both column 'u'"),
    ],
)
def test_refuses_bounds_that_hold_nothing(make: object, wanted: str) -> None:
    assert callable(make)
    with pytest.raises(ConfigError, match=wanted):
        make()
