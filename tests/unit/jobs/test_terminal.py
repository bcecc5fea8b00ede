"""What a person at a terminal sees: bars and tables there, plain aligned text elsewhere."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from jobs import heartbeat, tables
from jobs.budget_lines import BUDGET_COLUMNS
from jobs.progress import bar
from jobs.tables import echo_facts, echo_rows, plain_rows
from jobs.wording import number_of
from tests.support.releases import World, table_world


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("count", "text"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (12_345, "12,345 files")])
def test_numbers_in_sentences(count: int, text: str) -> None:
    assert number_of(count, "file") == text


def test_plain_rows_are_aligned_and_end_without_spaces() -> None:
    rows = [["a", "10", ""], ["long name", "2", "remark"]]
    assert plain_rows(("name", "n", ""), rows, right=("n",)) == [
        "name        n",
        "a          10",
        "long name   2  remark",
    ]


def test_facts_are_text_for_scripts_and_a_table_for_people(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = [("release", "ab[c]"), ("step", "one"), ("step", "two")]
    echo_facts(facts, 11)
    assert capsys.readouterr().out == "release    ab[c]\nstep       one\nstep       two\n"
    monkeypatch.setattr(tables, "is_for_people", lambda: True)
    echo_facts(facts, 11)
    shown = capsys.readouterr().out
    assert "ab[c]" in shown, "square brackets are no markup"
    assert shown.count("step") == 1


def test_rows_are_a_drawn_table_for_people(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "is_for_people", lambda: True)
    echo_rows(("dataset", "spent"), [["adult", "0.5"]], right=("spent",))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert "adult" in lines[3]


def test_a_bar_has_stage_percentage_and_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv(heartbeat.SETTING, "0")
    with heartbeat.activity("write"), bar("synthetic rows") as report:
        report(500, 1_000)
        assert heartbeat.beat() is None
    shown = terminal.getvalue()
    assert "write / synthetic rows" in shown
    assert "50%" in shown
    assert "rows per second" in shown


def test_budgets_are_a_table_on_a_terminal_and_the_same_lines_elsewhere(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = world.marquee("budget", "show")[1]
    assert "remaining" not in plain, "nothing is spent"
    monkeypatch.setattr("jobs.commands.budget.is_for_people", lambda: True)
    monkeypatch.setattr(tables, "is_for_people", lambda: True)
    monkeypatch.setenv("COLUMNS", "140")
    shown = world.marquee("budget", "show")[1]
    assert all(name in shown for name in BUDGET_COLUMNS)
    assert set(plain.splitlines()) <= set(shown.splitlines())


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    made = table_world(tmp_path, capsys)
    made.budget()
    return made
