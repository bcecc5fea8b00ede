"""The least work of a release: typing errors are refused before the charge, and the plan says time and bytes."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpcore.errors import ConfigError
from dpcore.mechanisms.api import Plan
from jobs.config import parse_config
from jobs.outputs.plan_report import LedgerFacts, plan_facts, plan_lines
from jobs.planning.job import Job, job_of
from jobs.planning.work import LARGEST_SECONDS, work_of
from tests.support.releases import BASKETS, SCHEMA, TABLE

NO_LEDGER = LedgerFacts("sqlite:///marquee.db", None, "refused now: there is no ledger")


def job(folder: Path, base: dict[str, Any] = TABLE, **sections: dict[str, Any]) -> Job:
    (folder / "people.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    document = copy.deepcopy(base)
    for name, section in sections.items():
        document[name] = document[name] | section
    return job_of(parse_config(document), folder)


def plan_of(rounds: int) -> Plan:
    return Plan((), rounds, 0, None)


def test_rounds_that_never_end_are_refused_with_a_number_that_is_accepted(tmp_path: Path) -> None:
    layout = job(tmp_path).layout
    with pytest.raises(
        ConfigError, match=r"^mechanism: 1,000,000 rounds over 20,000,000 answers take .* at least 278 hours; want"
    ) as refused:
        work_of(plan_of(1_000_000), 20_000_000, 0, layout)
    most = int(re.findall(r"at most ([0-9,]+) rounds", str(refused.value))[0].replace(",", ""))
    assert work_of(plan_of(most), 20_000_000, 0, layout).seconds <= LARGEST_SECONDS
    with pytest.raises(ConfigError, match="rounds over"):
        work_of(plan_of(most + 1), 20_000_000, 0, layout)


def test_rounds_and_rows_of_a_config_are_counted(tmp_path: Path) -> None:
    few = job(tmp_path, mechanism={"rounds": 3}, output={"synthetic_rows": 0}).work
    many = job(tmp_path, mechanism={"rounds": 30_000}, output={"synthetic_rows": 0}).work
    assert many.seconds == pytest.approx(10_000 * few.seconds)
    rows = job(tmp_path, mechanism={"rounds": 3}, output={"synthetic_rows": 10**8}).work
    assert rows.seconds - few.seconds == pytest.approx(8, rel=0.01)
    assert few.rows_bytes == 0
    assert rows.rows_bytes == round(10**8 * (0.1 + 8 / 8))  # Codes of 1, 3, 2 and 2 bits.


def test_the_number_of_rows_may_be_unknown(tmp_path: Path) -> None:
    assert job(tmp_path).work.rows_bytes is None
    public = job(tmp_path, privacy={"units": 10_000, "neighbours": "replace_one_unit"})
    assert public.work.rows_bytes == job(tmp_path, output={"synthetic_rows": 10_000}).work.rows_bytes
    assert job(tmp_path, BASKETS).work.rows_bytes == 0, "gaussian writes no rows"
    baskets = job(tmp_path, {**BASKETS, "mechanism": {"name": "dual_query"}}, output={"synthetic_rows": 50})
    assert baskets.work.rows_bytes is None


@pytest.mark.parametrize(("rows", "time_said", "disk_said"), [
    (1_000, "less than a second", "less than 0.1 MB"), (10**9, "at least 80.0 seconds", "about 1,100.0 MB"),
])  # fmt: skip
def test_the_plan_says_time_and_bytes(tmp_path: Path, rows: int, time_said: str, disk_said: str) -> None:
    made = job(tmp_path, output={"synthetic_rows": rows})
    lines = plan_lines(made, NO_LEDGER)
    fit = ", not counting the fit of a model"
    assert f"time       {time_said} of CPU time on the driver, for rounds and synthetic rows{fit}" in lines
    assert f"disk       {disk_said} of synthetic rows" in lines
    facts = plan_facts(made, NO_LEDGER)
    assert (facts["seconds_at_least"], facts["rows_bytes"]) == (made.work.seconds, made.work.rows_bytes)


def test_a_plan_without_a_number_of_rows_says_nothing_about_the_disk(tmp_path: Path) -> None:
    assert not [line for line in plan_lines(job(tmp_path), NO_LEDGER) if line.startswith("disk")]


@pytest.mark.parametrize(("engine", "rows", "place"), [
    ("spark", 10_000_000, "on the driver,"), ("spark", 10_000_001, "on the driver and the engine's workers,"),
    ("local", 10_000_001, "on the driver,"), ("beam", "auto", "on the driver,"),
])  # fmt: skip
def test_the_plan_says_where_rows_are_made(tmp_path: Path, engine: str, rows: int | str, place: str) -> None:
    made = job(tmp_path, {**TABLE, "engine": {"name": engine}}, output={"synthetic_rows": rows})
    (line,) = [line for line in plan_lines(made, NO_LEDGER) if line.startswith("time ")]
    assert place in line
