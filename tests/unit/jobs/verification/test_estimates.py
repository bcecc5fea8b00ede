"""The columns of estimates in answers.parquet, and their forgeries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.outputs.answers_table import ESTIMATES
from jobs.verification.findings import Outcome
from jobs.verification.tables import _answer_findings
from tests.support.estimates import ESTIMATE_COLUMNS

WRONG: dict[str, tuple[str, Any, str]] = {
    "a q-value above 1": ("q_value", [1.5, None], "q-value outside"),
    "a q-value of a query that was not measured": ("q_value", [0.5, 0.5], "without a standard deviation"),
    "a measured value without noise": ("stddev", [None, None], "without a standard deviation"),
    "an unknown guaranteed end": ("guaranteed_upper", [30.0, None], "guaranteed interval that is none"),
    "a reversed guaranteed interval": ("guaranteed_lower", [31.0, 0.0], "guaranteed interval that is none"),
    "an infinite measured value": ("measured", [float("inf"), None], "guaranteed interval that is none"),
    "an estimate outside its interval": ("answer", [6.0, 12.0], "outside its interval"),
    "a NaN": ("q_value", [float("nan"), None], "no finite number"),
    "another type": ("measured", [True, False], "other columns or types"),
}


def finding(folder: Path, columns: dict[str, list[Any]]) -> str:
    """What is said of an answers.parquet with these columns; empty if it passes."""
    typed = all(not isinstance(value, bool) for values in columns.values() for value in values)
    pq.write_table(pa.table(columns, schema=ESTIMATES if typed else None), folder / "answers.parquet")
    (result,) = _answer_findings(folder / "answers.parquet", 2)
    return result.text if result.outcome is Outcome.FAILED else ""


def test_estimates_pass(tmp_path: Path) -> None:
    assert finding(tmp_path, ESTIMATE_COLUMNS) == ""


@pytest.mark.parametrize("name", WRONG)
def test_forgeries_are_named(tmp_path: Path, name: str) -> None:
    column, values, text = WRONG[name]
    assert text in finding(tmp_path, {**ESTIMATE_COLUMNS, column: values})
