"""Text becomes the type that the schema gives; what is no value of the type becomes null."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest

from pipelines.source.text_values import typed

BIG = 2**63


@pytest.mark.parametrize(
    ("kind", "texts", "wanted"),
    [
        (pa.large_string(), ["00123", " a ", "", None], ["00123", " a ", "", None]),
        (pa.int64(), ["7", "-7", "+7", " 7 ", "007", "1.0", "1.5", "x", "", None], [7, -7, 7, 7, 7, 1, *[None] * 4]),
        (pa.int64(), [str(BIG), f"-{BIG}0", "9" * 40, "1"], [BIG - 1, -BIG, BIG - 1, 1]),
        (pa.uint64(), [str(BIG), "-3", "4"], [BIG, 0, 4]),
        (pa.uint64(), ["5", "-3", None], [5, 0, None]),
        (pa.float64(), ["1.5", "+2", ".5", "3.", "1e3", "1,5", "nan", "inf", "1e9999", "x"],
         [1.5, 2.0, 0.5, 3.0, 1000.0, *[None] * 5]),
        (pa.bool_(), ["true", "False", "1", "0", "yes", None], [True, False, True, False, None, None]),
        (pa.date32(), ["2026-02-28", "2026-02-28T23:59:59+02:00", "2026-02-31", "28.2.2026", None],
         [date(2026, 2, 28), date(2026, 2, 28), None, None, None]),
    ],
)  # fmt: skip
def test_values_are_read_as_their_type(kind: pa.DataType, texts: list[str | None], wanted: list[object]) -> None:
    values = typed(pa.array(texts, pa.string()), kind)
    assert values.type == kind
    assert values.to_pylist() == wanted


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.large_string()])
def test_no_rows_are_no_values(kind: pa.DataType) -> None:
    assert typed(pa.array([], pa.string()), kind).to_pylist() == []
