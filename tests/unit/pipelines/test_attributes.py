from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa
import pytest

from dpcore.errors import ConfigError
from pipelines.attributes import Attribute, Kind, days_since_epoch

ADULT_WORKCLASS = (
    "Private",
    "Self-emp-not-inc",
    "Self-emp-inc",
    "Federal-gov",
    "Local-gov",
    "State-gov",
    "Without-pay",
    "Never-worked",
)


def categorical(**settings: object) -> Attribute:
    return Attribute("a", Kind.CATEGORICAL, values=("x", "y"), **settings)


def test_workclass_of_adult_has_nine_codes() -> None:
    workclass = Attribute("workclass", Kind.CATEGORICAL, values=ADULT_WORKCLASS, other=False, null=True)
    assert workclass.size == 9
    assert workclass.labels == (*ADULT_WORKCLASS, "__null__")
    assert workclass.other_code == workclass.null_code == 8


@pytest.mark.parametrize(
    ("other", "null", "size", "other_code", "null_code"),
    [
        (True, True, 4, 2, 3),
        (True, False, 3, 2, 2),
        (False, True, 3, 2, 2),
        (False, False, 2, 0, 0),
        ("y", True, 3, 1, 2),
        ("y", False, 2, 1, 0),
        (True, "y", 3, 2, 1),
        (False, "y", 2, 0, 1),
        ("x", "y", 2, 0, 1),
    ],
)
def test_codes_of_unknown_and_null(
    other: bool | str, null: bool | str, size: int, other_code: int, null_code: int
) -> None:
    attribute = categorical(other=other, null=null)
    assert (attribute.size, attribute.other_code, attribute.null_code) == (size, other_code, null_code)


@pytest.mark.parametrize(
    ("attribute", "labels", "decoded"),
    [
        (categorical(other=True), ("x", "y", "__other__", "__null__"), pa.array(["x", "y", "__other__", None])),
        (
            Attribute("a", Kind.CATEGORICAL, values=(7, 3), other=True, null=False),
            ("7", "3", "__other__"),
            pa.array([7, 3, None], pa.int64()),
        ),
        (
            Attribute("a", Kind.CATEGORICAL, values=(2**64 - 1, 0), null=False),
            (str(2**64 - 1), "0"),
            pa.array([2**64 - 1, 0], pa.uint64()),
        ),
        (Attribute("a", Kind.BOOLEAN), ("false", "true", "__null__"), pa.array([False, True, None])),
        (
            Attribute("a", Kind.INTEGER, edges=(17, 25, 91)),
            ("[17, 25)", "[25, 91]", "__null__"),
            pa.array([21, 58, None], pa.int64()),
        ),
        (
            Attribute("a", Kind.INTEGER, edges=(-4, -1, 0), null=False),
            ("[-4, -1)", "[-1, 0]"),
            pa.array([-3, -1], pa.int64()),
        ),
        (
            Attribute("a", Kind.FLOAT, edges=(0, 0.5, 1e300), null=False),
            ("[0, 0.5)", "[0.5, 1e+300]"),
            pa.array([0.25, 5e299], pa.float64()),
        ),
        (
            Attribute("a", Kind.DATE, edges=(0, 31, 59)),
            ("[1970-01-01, 1970-02-01)", "[1970-02-01, 1970-03-01]", "__null__"),
            pa.array([date(1970, 1, 16), date(1970, 2, 15), None], pa.date32()),
        ),
    ],
    ids=lambda value: value.kind if isinstance(value, Attribute) else "",
)
def test_labels_and_decoded_values_of_every_code(
    attribute: Attribute, labels: tuple[str, ...], decoded: pa.Array
) -> None:
    assert attribute.labels == labels
    codes = np.arange(attribute.size, dtype=np.uint8)
    assert attribute.decode(codes).equals(decoded)
    assert attribute.decode(codes[::-1].copy()).to_pylist() == decoded.to_pylist()[::-1]


def test_days_since_epoch_counts_from_1970() -> None:
    assert days_since_epoch(date(1969, 12, 31)) == -1
    assert days_since_epoch(date(2026, 1, 1)) == 20_454


def test_the_column_is_the_name_unless_it_is_given() -> None:
    assert categorical().column == "a"
    assert categorical(column="b").column == "b"


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"kind": Kind.CATEGORICAL}, "want a list of strings, integers or booleans"),
        ({"kind": Kind.CATEGORICAL, "values": ("x", 1)}, "types: integer, string; want"),
        ({"kind": Kind.CATEGORICAL, "values": (True, 1)}, "types: boolean, integer; want"),
        ({"kind": Kind.CATEGORICAL, "values": (1.5,)}, "types: decimal number; want"),
        ({"kind": Kind.CATEGORICAL, "values": ("x", "x")}, "lists a value twice"),
        ({"kind": Kind.CATEGORICAL, "values": ("x", "__other__")}, "reserved"),
        ({"kind": Kind.CATEGORICAL, "values": (2**64,)}, "more than 64 bits"),
        (
            {"kind": Kind.CATEGORICAL, "values": ("x",), "other": "z"},
            "other is not one of its values; want true, false or",
        ),
        (
            {"kind": Kind.CATEGORICAL, "values": (0, 1), "null": "x"},
            "null is not one of its values; want true, false or",
        ),
        ({"kind": Kind.CATEGORICAL, "values": ("x",), "edges": (0, 1)}, "has edges; want values alone"),
        ({"kind": Kind.INTEGER, "edges": (1,)}, "fewer than two edges"),
        ({"kind": Kind.INTEGER, "edges": (1, 1)}, "edge 1 follows 1"),
        ({"kind": Kind.INTEGER, "edges": (0, 1.5)}, "finite integer values"),
        ({"kind": Kind.INTEGER, "edges": (0, 2**63)}, "finite integer values"),
        ({"kind": Kind.FLOAT, "edges": (0.0, float("nan"))}, "finite float values"),
        ({"kind": Kind.FLOAT, "edges": (0.0, float("inf"))}, "finite float values"),
        ({"kind": Kind.FLOAT, "edges": (0, 1), "other": True}, "other: true; want false"),
        ({"kind": Kind.FLOAT, "edges": (0, 1), "null": "x"}, "a value for null; want true or false"),
        ({"kind": Kind.BOOLEAN, "other": True}, "other: true; want false"),
    ],
)
def test_refuses_what_has_no_meaning_and_names_the_attribute(settings: dict[str, object], wanted: str) -> None:
    with pytest.raises(ConfigError, match="attribute 'a'") as refused:
        Attribute("a", **settings)
    assert wanted in str(refused.value)
