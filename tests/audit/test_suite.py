"""The program of the audit: which sections and rows it runs, and what it stores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.audit import end_to_end
from tests.audit.__main__ import AUDIT
from tests.audit.section import Row, Section, Size
from tests.audit.suite import Suite, result_lines

pytestmark = pytest.mark.false_alarm(0)

NAMES = ("first", "second", "third")


def run(size: Size, names: Sequence[str] = NAMES) -> list[Row]:
    return [Row({"about": name, "runs": 2}, passed=True) for name in NAMES if name in names]


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """One section, whose stored result has no second row, and a first one that failed."""
    module = SimpleNamespace(NAMES=NAMES, COLUMN="about", run=run)
    made = Suite("example", "section", ["rows"], lambda name: Section(name, "Rows", "", module), lambda results: "")
    monkeypatch.setattr(Suite, "folder", tmp_path)
    (tmp_path / "results").mkdir()
    rows = [{"about": name, "runs": 1, "passed": name != "first"} for name in ("first", "third")]
    head = {"name": "rows", "title": "Rows", "claim": "", "version": "0", "commit": "c0ffee", "day": "2026-11-24"}
    head |= {"machine": {"cores": 2, "processor": "one"}, "cpu_seconds": 1.0, "wall_seconds": 1.0}
    (tmp_path / "results" / "rows.json").write_text(json.dumps(head | {"rows": rows, "passed": False}))
    return made


def stored(suite: Suite) -> dict[str, Any]:
    (result,) = suite.stored()
    return result


@pytest.mark.smoke
def test_some_rows_are_run_alone_and_put_among_the_others(suite: Suite) -> None:
    assert suite.main(["--one", "rows:second"]) == 1
    assert [(row["about"], row["runs"]) for row in stored(suite)["rows"]] == [("first", 1), ("second", 2), ("third", 1)]
    assert suite.main(["--one", "rows:first,second"]) == 0
    result = stored(suite)
    assert result["passed"]
    assert [(row["about"], row["runs"]) for row in result["rows"]] == [("first", 2), ("second", 2), ("third", 1)]
    assert [run["names"] for run in result["later"]] == [["first", "second"]]
    assert result["commit"] == "c0ffee"
    assert any(line.startswith("Rows about first, second: ") for line in result_lines(result))


def test_a_whole_section_replaces_everything(suite: Suite) -> None:
    suite.main(["--one", "rows:second"])
    assert suite.main(["--one", "rows"]) == 0
    assert "later" not in stored(suite)
    assert [row["runs"] for row in stored(suite)["rows"]] == [2, 2, 2]


@pytest.mark.parametrize(("argument", "problem"), [
    ("other", "unknown section 'other'"),
    ("sampler_laws:laplace", "no rows about 'laplace'; want sampler_laws"),
    ("end_to_end:laplcae", "no rows about 'laplcae'; want laplace"),
])  # fmt: skip
def test_an_unknown_name_is_refused(argument: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert AUDIT.main([argument]) == 2
    assert problem in capsys.readouterr().err


def test_rows_about_a_mechanism_are_replayed_alone() -> None:
    rows = AUDIT.load("grey_box").run(Size.FAST, ["clipped_gaussian"])
    assert {row.cells["mechanism"] for row in rows} == {"clipped_gaussian"}
    assert all(row.passed for row in rows)


def test_rows_run_alone_have_the_error_that_they_have_among_all(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Size, float]] = []
    monkeypatch.setattr(end_to_end, "audit", lambda case, size, error: asked.append((case.name, size, error)))
    AUDIT.load("end_to_end").run(Size.FULL, ["discover"])
    error = end_to_end.FAMILY_ERROR[Size.FULL] / len(list(end_to_end.cases(Size.FULL)))
    assert set(asked) == {("discover", Size.FULL, error)}
