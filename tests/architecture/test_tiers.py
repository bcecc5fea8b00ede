"""Every test is run by exactly one command of `make test` and `make test-rest`, and every file of tests is reached."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from contextlib import nullcontext
from itertools import product
from types import SimpleNamespace

import pytest
from _pytest.mark.expression import Expression

from tests.support.checks import ROOT
from tests.support.tiers import UNTIL, assign_tiers, late_tests, skip_after_deadline

PYTEST = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
MARKERS = [re.split(r"[(:]", marker)[0] for marker in PYTEST["markers"]]


def selections(target: str) -> list[str]:
    """The marker expressions of a target of the Makefile, as make prints its commands."""
    command = ["make", "--dry-run", "--no-print-directory", target, "VENV=/nowhere"]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return re.findall(r'-m pytest .*-m "(.*)"', printed)


def test_every_test_is_of_exactly_one_command() -> None:
    """Over every combination of markers that a test may have."""
    fast, rest = selections("test"), selections("test-rest")
    assert len(fast) == len(rest) == 2
    assert sorted(selections("test-full")) == sorted(fast + rest)
    for has in product((False, True), repeat=len(MARKERS)):
        marked = dict(zip(MARKERS, has, strict=True))
        chosen = [text for text in fast + rest if Expression.compile(text).evaluate(lambda name, **_: marked[name])]  # noqa: B023
        assert len(chosen) == 1
        assert (chosen[0] in rest) == marked["full"]


def test_every_test_is_in_a_file_that_is_collected() -> None:
    """A test in a file of another name, or a file of that name without a test, would never run."""
    for path in (ROOT / "tests").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tests = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
        assert bool(tests) == path.name.startswith("test_"), path
    assert PYTEST["testpaths"] == ["tests"]
    assert not [option for option in PYTEST["addopts"] if "ignore" in option or "deselect" in option]


@pytest.mark.full
def test_both_tiers_together_are_the_whole_suite() -> None:
    """By collection: no test is lost, none is twice, and every file has some."""
    everything = collected()
    fast, rest = collected("not full"), collected("full")
    assert len(everything) == len(set(everything)) == len(fast) + len(rest)
    assert set(everything) == set(fast) | set(rest)
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    assert {test.split("::")[0] for test in everything} == files
    # Every section of the audit, and every statistical test of a law, has a smoke test.
    for folder in ("audit", "statistical"):
        reached = {test.split("::")[0] for test in fast}
        missed = {file for file in files if file.startswith(f"tests/{folder}/")} - reached
        assert missed <= {"tests/statistical/test_generated_baskets.py"}


def collected(markers: str = "") -> list[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-m", markers]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [line for line in printed.splitlines() if line.startswith("tests/")]


class FakeItem:
    """What assigning tiers asks of a test."""

    def __init__(self, nodeid: str, smoke: pytest.MarkDecorator | None) -> None:
        self.nodeid, self.path, self.marks = nodeid, ROOT / nodeid.split("::")[0], [] if smoke is None else [smoke.mark]

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next((mark for mark in self.marks if mark.name == name), None)

    def add_marker(self, marker: pytest.MarkDecorator) -> None:
        self.marks.append(marker.mark)


def test_smoke_keeps_cases_that_are_spread_evenly() -> None:
    smoke = pytest.mark.smoke
    items = [
        *(FakeItem(f"tests/unit/test_a.py::test_two[{case}]", smoke(2)) for case in range(5)),
        *(FakeItem(f"tests/audit/test_a.py::test_all[{case}]", smoke) for case in range(3)),
        FakeItem("tests/unit/test_a.py::test_plain", None),
        FakeItem("tests/audit/test_a.py::test_plain", None),
        FakeItem("tests/statistical/test_a.py::test_plain", None),
    ]
    assign_tiers(items)  # type: ignore[arg-type]
    assert [item.nodeid.split("::")[1] for item in items if item.get_closest_marker("full")] == [
        "test_two[1]", "test_two[3]", "test_two[4]", "test_plain", "test_plain",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("until", "marked", "skipped"), [("", True, False), ("9e9", True, False), ("0", True, True), ("0", False, False)]
)
def test_after_the_deadline_no_test_of_the_full_tier_begins(
    monkeypatch: pytest.MonkeyPatch, until: str, marked: bool, skipped: bool
) -> None:
    monkeypatch.setenv(UNTIL, until)
    item = FakeItem("tests/unit/test_a.py::test_plain", None)
    if marked:
        item.add_marker(pytest.mark.full)
    with pytest.raises(pytest.skip.Exception) if skipped else nullcontext() as said:
        skip_after_deadline(item)  # type: ignore[arg-type]
    reports = [] if said is None else [SimpleNamespace(longrepr=("a", 1, f"Skipped: {said.value}"))] * 3
    assert late_tests(reports).startswith("3 of" if skipped else "")  # type: ignore[arg-type]
    assert bool(late_tests(reports)) == skipped  # type: ignore[arg-type]
