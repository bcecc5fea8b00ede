"""auto writes as many rows as the noisy total says, unless that may be noise alone."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs

from jobs.config import parse_config
from jobs.config.release import LARGEST_ROWS
from jobs.outputs.plan_report import LedgerFacts, plan_lines
from jobs.planning.job import Job, job_of
from jobs.planning.rows import LARGEST_UNCERTAIN, auto_rows, smallest_certain_number
from tests.support.releases import BASKETS, SCHEMA, TABLE

NO_LEDGER = LedgerFacts("sqlite:///marquee.db", None, "refused now: there is no ledger")


def job(folder: Path, base: dict[str, Any] = TABLE, rows: int = 1, **privacy: Any) -> Job:
    (folder / "people.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    document = copy.deepcopy(base)
    document["privacy"] |= privacy
    if base is TABLE:
        document["dataset"]["max_rows_per_unit"] = rows
    return job_of(parse_config(document), folder)


@pytest.mark.parametrize(("privacy", "deviation"), [
    ({"epsilon": 0.5, "delta": 0}, 2**0.5 / 0.5),
    ({"epsilon": 1.0, "accounting": "zcdp"}, (2 * 0.0243560) ** -0.5),
    ({"epsilon": 1.0, "accounting": "gdp"}, 4.2247),
])  # fmt: skip
def test_the_limit_is_ten_deviations_of_a_count(privacy: dict[str, Any], deviation: float, tmp_path: Path) -> None:
    assert smallest_certain_number(job(tmp_path, **privacy)) == pytest.approx(10 * deviation, rel=0.05)
    assert smallest_certain_number(job(tmp_path, rows=7, **privacy)) == pytest.approx(70 * deviation, rel=0.05)


def test_baskets_count_units_and_public_units_are_certain(tmp_path: Path) -> None:
    assert smallest_certain_number(job(tmp_path, BASKETS, epsilon=1.0)) < 100
    assert smallest_certain_number(job(tmp_path, units=300, epsilon=1e-6)) == 0


def test_rows_of_a_tiny_budget_are_capped(tmp_path: Path) -> None:
    """Attack "rows of noise": at epsilon 1e-6 the noise alone asked for millions of rows of 300 people."""
    tiny = job(tmp_path, epsilon=1e-6)
    with capture_logs() as logs:
        assert auto_rows(tiny, 123_456.7) == LARGEST_UNCERTAIN == 10_000
    assert ["auto writes 10,000 synthetic rows" in entry["event"] for entry in logs] == [True]
    with capture_logs() as logs:
        assert auto_rows(tiny, 9_999.6) == 10_000
        plain = job(tmp_path)
        assert [auto_rows(plain, total) for total in (0.0, 300.4, 2e6)] == [0, 300, 2_000_000]
    assert logs == []
    with capture_logs() as logs:
        assert auto_rows(tiny, 1e12) == LARGEST_ROWS == 10**9
    assert ["auto writes 1,000,000,000 synthetic rows" in entry["event"] for entry in logs] == [True]


def test_the_plan_says_so(tmp_path: Path) -> None:
    note = "auto then writes at most 10,000 synthetic rows"
    assert [note in "\n".join(plan_lines(job(tmp_path, epsilon=epsilon), NO_LEDGER)) for epsilon in (1e-6, 1.0)] == [
        True,
        False,
    ]
