"""marquee budget: what it prints, what it refuses, and with which exit code."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.cli import main
from tests.support.ledgers import past_the_ledger

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.chdir(tmp_path)

    def command(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(["budget", *words])
        out, err = capsys.readouterr()
        assert isinstance(stop.value.code, int)
        return stop.value.code, out, err

    return command


def create(budget: Command, *more: str, epsilon: str = "3", delta: str = "1e-6") -> str:
    code, out, err = budget("create", "--dataset", "adult", "--epsilon", epsilon, "--delta", delta, *more)
    assert (code, err) == (0, "")
    return out


def test_an_open_budget_says_that_its_first_release_decides(budget: Command) -> None:
    assert create(budget) == ("adult: epsilon 3, delta 1e-06; nothing spent; counted as its first release is\n")


@pytest.mark.parametrize(("accounting", "currency"), [("zcdp", "rho"), ("gdp", r"mu\^2")])
def test_show_gives_epsilon_for_each_amount(budget: Command, accounting: str, currency: str) -> None:
    create(budget, "--accounting", accounting, "--consumers-only")
    code, out, _ = budget("show")
    assert code == 0
    shown = rf"adult: epsilon 3, delta 1e-06; spent {currency} 0 of [\d.]+; left {currency} [\d.]+ \(epsilon 3 at delta"
    assert re.match(shown, out), out
    assert "for consumers only" in out


def test_grants_are_shown_with_dates_and_reasons(budget: Command) -> None:
    create(budget, delta="0")
    code, out, err = budget(
        "grant", "--dataset", "adult", "--consumer", "team", "--epsilon", "0.5", "--delta", "0", "--window", "month",
        "--reason", "pilot",
    )  # fmt: skip
    assert (code, out, err) == (0, "consumer team: epsilon 0.5, delta 0 each month\n", "")
    code, out, err = budget("grant", "--dataset", "adult", "--epsilon", "4", "--delta", "0", "--reason", "decision 12")
    assert (code, out) == (0, "adult: epsilon 4, delta 0; spent epsilon 0 of 4; left epsilon 4\n")
    for command in (("show",), ("history", "--dataset", "adult")):
        code, out, _ = budget(*command)
        assert code == 0
        assert re.search(r"\d{4}-\d\d-\d\dT\S+  granted to the dataset: epsilon 3, delta 0: created\n", out)
        assert re.search(
            r"\d{4}-\d\d-\d\dT\S+  granted to consumer team: epsilon 0.5, delta 0 each month: pilot\n", out
        )
        assert re.search(r"\d{4}-\d\d-\d\dT\S+  granted to the dataset: epsilon 4, delta 0: decision 12\n", out)
    team = "  consumer team: epsilon 0.5, delta 0 each month; spent epsilon 0 of 0.5; left epsilon 0.5 since "
    assert re.search(team + r"\d{4}-\d\d-01", budget("show")[1])


GRANT = ("grant", "--dataset", "adult", "--delta", "0")


@pytest.mark.parametrize(("words", "code", "says"), [
    ((*GRANT, "--epsilon", "4"), 2, "--reason is missing"),
    ((*GRANT, "--epsilon", "4", "--reason", "x", "--window", "day"), 2, "want --consumer"),
    ((*GRANT, "--epsilon", "1", "--reason", "x"), 2, "never lowered"),
    ((*GRANT, "--epsilon", "1000", "--reason", "x"), 2, "want 0 < epsilon"),
    ((*GRANT, "--epsilon", "1", "--consumer", ""), 2, "--consumer is empty"),
    ((*GRANT, "--epsilon", "1", "--consumer", "team", "--window", "week"), 2, "week"),
    (("grant", "--dataset", "adult", "--delta", "1e-6", "--epsilon", "4", "--reason", "x"), 2, "for ever"),
    (("grant", "--dataset", "none", "--delta", "0", "--epsilon", "4", "--reason", "x"), 4, "has no budget"),
    (("create", "--dataset", "adult", "--epsilon", "5", "--delta", "0"), 2, "budget grant"),
    (("create", "--dataset", "new", "--epsilon", "5", "--delta", "0", "--accounting", "gdp"), 2, "needs delta > 0"),
    (("create", "--dataset", "new", "--epsilon", "5", "--delta", "2"), 2, "want 0 <= delta < 1"),
    (("create", "--dataset", "", "--epsilon", "5", "--delta", "0"), 2, "--dataset is empty"),
    (("show", "--dataset", "none"), 2, "no dataset 'none'"),
    (("history", "--dataset", "none"), 4, "no budget"),
    (("show", "--ledger", "postgresql://127.0.0.1:1/x"), 5, "cannot be reached"),
])  # fmt: skip
def test_what_is_refused(budget: Command, words: tuple[str, ...], code: int, says: str) -> None:
    create(budget, delta="0")
    found, out, err = budget(*words)
    assert (found, out) == (code, ""), err
    assert says in err
    assert err.count("\n") == 1


def test_a_ledger_that_was_changed_by_hand_is_an_integrity_error(budget: Command, tmp_path: Path) -> None:
    create(budget, delta="0")
    past_the_ledger(f"sqlite:///{tmp_path / 'marquee.db'}", "UPDATE datasets SET total = '9'")
    for command in (("show",), ("history", "--dataset", "adult")):
        code, out, err = budget(*command)
        assert (code, out) == (7, "")
        assert "not those of its grants" in err


@pytest.mark.parametrize("command", ["create", "grant", "show", "history"])
def test_every_command_has_an_example(budget: Command, command: str) -> None:
    code, out, _ = budget(command, "--help")
    assert code == 0
    assert f"marquee budget {command}" in out.partition("Examples:")[2]


def test_help_says_that_windows_do_not_give_budget_back(budget: Command) -> None:
    said = " ".join(re.sub(r"[│\n]", " ", budget("grant", "--help")[1]).split())
    assert "A total is for ever" in said
