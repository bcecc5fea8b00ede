"""Conditions on synthetic rows."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from dpcore.errors import ConfigError
from marquee.synthetic import codes_of
from pipelines.layout import BasketLayout, TableLayout
from pipelines.schema import schema_from
from tests.support.releases import SCHEMA

DAYS = {"name": "day", "type": "date", "edges": [date(2026, 1, 1), date(2026, 2, 1), date(2026, 3, 1)]}
LAYOUT = TableLayout("person", schema_from({"version": 1, "attributes": [*SCHEMA["attributes"], DAYS]}))


@pytest.mark.parametrize(("where", "codes"), [
    ({"sex": "male"}, {"sex": [1]}),
    ({"sex": ["male", "female"]}, {"sex": [0, 1]}),
    ({"home": True}, {"home": [1]}),
    ({"home": None}, {"home": [2]}),
    ({"work": "__other__"}, {"work": [3]}),
    ({"age": "[18, 40)"}, {"age": [1]}),
    ({"age": 18}, {"age": [1]}),
    ({"age": 17.9}, {"age": [0]}),
    ({"age": 100}, {"age": [3]}),
    ({"age": [3, 4, 50]}, {"age": [0, 2]}),
    ({"day": "[2026-02-01, 2026-03-01]"}, {"day": [1]}),
    (None, {}),
])  # fmt: skip
def test_a_condition_is_a_set_of_codes(where: Any, codes: dict[str, list[int]]) -> None:
    assert {name: allowed.tolist() for name, allowed in codes_of(where, LAYOUT).items()} == codes


@pytest.mark.parametrize(("where", "problem"), [
    ({"sxe": 1}, "unknown attribute 'sxe'"), ({"sex": "mael"}, "where has 'mael' for attribute 'sex'"),
    ({"age": 101}, "where has 101 for attribute 'age'"), ({"age": True}, "where has True for attribute 'age'"),
])  # fmt: skip
def test_an_unknown_value_is_refused(where: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        codes_of(where, LAYOUT)


def test_baskets_have_no_attributes() -> None:
    assert codes_of(None, BasketLayout("user", "item", 5, None)) == {}
    with pytest.raises(ConfigError, match="the release is about baskets; want no where"):
        codes_of({"item": 1}, BasketLayout("user", "item", 5, None))
