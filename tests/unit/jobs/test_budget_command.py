"""marquee budget: what it prints, what it refuses, and with which exit code."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest

from dpcore.kernel.budget import Budget
from jobs.cli import main
from jobs.ledger import SqlLedger
from tests.support.ledgers import Clock, past_the_ledger, reserve

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
    fixes = "the first release fixes the accounting (zCDP or Gaussian DP)"
    whom = "for the unit and the neighbours of the first release"
    assert create(budget) == f"adult: epsilon 3, delta 1e-06 {whom}; nothing spent; {fixes}\n"


@pytest.mark.parametrize(("accounting", "currency"), [("zcdp", "rho"), ("gdp", r"mu\^2")])
def test_show_gives_epsilon_for_each_amount(budget: Command, accounting: str, currency: str) -> None:
    create(budget, "--accounting", accounting, "--consumers-only")
    code, out, _ = budget("show")
    assert code == 0
    spent = rf"adult: epsilon 3, delta 1e-06 for the unit and .* release; spent {currency} 0 of [\d.]+; "
    shown = spent + rf"remaining {currency} [\d.]+ \(epsilon 3 at delta"
    first, second, *_ = out.splitlines()
    assert re.fullmatch(r"ledger [0-9a-f]{16} at sqlite:////.*marquee\.db", first), out
    assert re.match(shown, second), out
    assert "consumers only" in out


def test_grants_are_shown_with_dates_and_reasons(budget: Command) -> None:
    create(budget, delta="0")
    code, out, err = budget(
        "grant", "--dataset", "adult", "--consumer", "team", "--epsilon", "0.5", "--delta", "0", "--window", "month",
        "--reason", "pilot",
    )  # fmt: skip
    assert (code, out, err) == (0, "consumer team: epsilon 0.5, delta 0 each month\n", "")
    code, out, err = budget("grant", "--dataset", "adult", "--epsilon", "4", "--delta", "0", "--reason", "decision 12")
    whom = "for the unit and the neighbours of the first release"
    assert (code, out) == (0, f"adult: epsilon 4, delta 0 {whom}; spent epsilon 0 of 4; remaining epsilon 4\n")
    for command in (("show",), ("history", "--dataset", "adult")):
        code, out, _ = budget(*command)
        assert code == 0
        assert re.search(r"\d{4}-\d\d-\d\dT\S+  granted to the dataset: epsilon 3, delta 0: created\n", out)
        assert re.search(
            r"\d{4}-\d\d-\d\dT\S+  granted to consumer team: epsilon 0.5, delta 0 each month: pilot\n", out
        )
        assert re.search(r"\d{4}-\d\d-\d\dT\S+  granted to the dataset: epsilon 4, delta 0: decision 12\n", out)
    team = "  consumer team: epsilon 0.5, delta 0 each month; spent epsilon 0 of 0.5; remaining epsilon 0.5 since "
    assert re.search(team + r"\d{4}-\d\d-01", budget("show")[1])


GRANT = ("grant", "--dataset", "adult", "--delta", "0")
MOVE = ("move", "--dataset", "adult")


@pytest.mark.parametrize(("words", "code", "says"), [
    ((*GRANT, "--epsilon", "4"), 2, "--reason is missing"),
    ((*GRANT, "--epsilon", "4", "--reason", "x", "--window", "day"), 2, "want --consumer"),
    ((*GRANT, "--epsilon", "1", "--reason", "x"), 2, "never lowered"),
    ((*GRANT, "--epsilon", "1000", "--reason", "x"), 2, "want 0 < epsilon"),
    ((*GRANT, "--epsilon", "1", "--consumer", ""), 2, "--consumer is empty"),
    ((*GRANT, "--epsilon", "1", "--consumer", "team", "--window", "week"), 2, "week"),
    (("grant", "--dataset", "adult", "--delta", "1e-6", "--epsilon", "4", "--reason", "x"), 2, "cannot be changed"),
    (("grant", "--dataset", "none", "--delta", "0", "--epsilon", "4", "--reason", "x"), 4, "has no budget"),
    (("create", "--dataset", "adult", "--epsilon", "5", "--delta", "0"), 2, "budget grant"),
    (("create", "--dataset", "new", "--epsilon", "5", "--delta", "0", "--accounting", "gdp"), 2, "needs delta > 0"),
    (("create", "--dataset", "new", "--epsilon", "5", "--delta", "2"), 2, "want 0 <= delta < 1"),
    (("create", "--dataset", "", "--epsilon", "5", "--delta", "0"), 2, "--dataset is empty"),
    (("create", "--dataset", "x" * 201, "--epsilon", "5", "--delta", "0"), 2, "201 characters; want at most 200"),
    (("create", "--dataset", "a\nb", "--epsilon", "5", "--delta", "0"), 2, "--dataset contains the control"),
    (("create", "--dataset", "new", "--epsilon", "1", "--delta", "1e-310"), 2, "--epsilon 1 with --delta 1e-310"),
    ((*GRANT, "--epsilon", "1", "--consumer", "x" * 201), 2, "--consumer has 201 characters"),
    ((*GRANT, "--epsilon", "1", "--consumer", "a\x1b[2J"), 2, "--consumer contains the control character U+001B"),
    ((*GRANT, "--epsilon", "4", "--reason", "fine\n2026"), 2, "--reason contains the control character U+000A"),
    ((*GRANT, "--epsilon", "4", "--reason", "\0"), 2, "--reason contains the control character U+0000"),
    ((*GRANT, "--epsilon", "1", "--consumer", "c", "--reason", "\u2028"), 2, "control character U+2028"),
    ((*MOVE, "--path", "/new", "--reason", "x"), 2, "its first run will bind it"),
    ((*MOVE, "--path", "/new", "--reason", " "), 2, "--reason is empty"),
    ((*MOVE, "--path", "", "--reason", "x"), 2, "--path is empty"),
    ((*MOVE, "--path", "/a\rb", "--reason", "x"), 2, "--path contains the control character U+000D"),
    (("show", "--dataset", "none"), 4, "marquee budget create --ledger"),
    (("history", "--dataset", "none"), 4, "marquee budget create --ledger"),
    (("show", "--ledger", "sqlite://"), 2, "want a file"),
    (("history", "--dataset", "adult", "--ledger", "sqlite:///:memory:"), 2, "want a file"),
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
        assert "do not match its grants" in err


def test_a_damaged_dataset_hides_no_other(budget: Command, tmp_path: Path) -> None:
    create(budget, delta="0")
    assert budget("create", "--dataset", "retail", "--epsilon", "1", "--delta", "0")[0] == 0
    past_the_ledger(f"sqlite:///{tmp_path / 'marquee.db'}", "UPDATE datasets SET total = '9' WHERE name = 'retail'")
    assert [budget(*words)[0] for words in (("show", "--dataset", "adult"), ("show", "--dataset", "retail"))] == [0, 7]
    assert budget("show")[0] == 7


@pytest.mark.parametrize("content", [None, b""])
def test_a_missing_ledger_is_not_an_empty_one(budget: Command, tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "marquee.db").write_bytes(content)
    for words in (("show",), ("show", "--dataset", "adult"), ("history", "--dataset", "adult"),
                  (*GRANT, "--epsilon", "1", "--reason", "x"), (*MOVE, "--path", "/new", "--reason", "x")):  # fmt: skip
        code, out, err = budget(*words)
        assert (code, out, err.count("\n")) == (4, "", 1)
        assert "there is no ledger at sqlite:////" in err
        assert "if there was one, restore its backup, otherwise create one with: marquee budget create --ledger" in err
    assert [file.stat().st_size for file in tmp_path.iterdir()] == ([] if content is None else [0])


def test_a_budget_that_is_refused_leaves_no_file(budget: Command, tmp_path: Path) -> None:
    words = ("create", "--dataset", "adult", "--epsilon", "1")
    for more in (("--delta", "0", "--accounting", "gdp"), ("--delta", "1e-310")):
        assert budget(*words, *more)[0] == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("delta", "warns"), [("0.5", True), ("1.1e-5", True), ("1e-5", False), ("0", False)])
def test_a_large_delta_is_warned_of(budget: Command, delta: str, warns: bool) -> None:
    code, _, err = budget("create", "--dataset", "adult", "--epsilon", "1", "--delta", delta)
    assert (code, "--delta is large" in err) == (0, warns)


def test_a_clock_that_goes_back_reorders_nothing_of_a_kind(budget: Command, tmp_path: Path) -> None:
    create(budget, delta="0")
    clock = Clock(datetime(2126, 11, 20, 12, tzinfo=UTC))
    ledger = SqlLedger(f"sqlite:///{tmp_path / 'marquee.db'}", clock=clock)
    for step, hour in enumerate((12, 9, 12, 14)):
        clock.set(2126, 11, 20, hour)
        reserve(ledger, f"{step}" * 64, Budget.pure(Fraction(1, 10)))
        ledger.raise_total("adult", 4.0 + step, 0.0, f"step {step}")
    lines = budget("history", "--dataset", "adult")[1].splitlines()
    order = [re.sub(r".*: |\S+  (\w{4}).*", r"\1", line) for line in lines]
    bound = "bound by the first release"
    assert order == ["created", bound, "step 0", "step 1", "step 2", "0000", "1111", "2222", "step 3", "3333"]


def test_a_move_is_in_the_history_with_its_reason(budget: Command, tmp_path: Path) -> None:
    create(budget, delta="0")
    reserve(SqlLedger(f"sqlite:///{tmp_path / 'marquee.db'}"))
    code, out, err = budget(*MOVE, "--path", "new/*.parquet", "--reason", "new disk")
    assert (code, err) == (0, "")
    whom = "for units of column 'person' (add_remove_unit, 1 row per unit)"
    assert out.startswith(f"adult: epsilon 3, delta 0 {whom}; spent")
    moved = f"granted to the dataset: epsilon 3, delta 0 {whom}: moved to {(tmp_path / 'new').resolve()}: new disk\n"
    assert moved in budget("history", "--dataset", "adult")[1]
    assert moved in budget("show", "--dataset", "adult")[1]


@pytest.mark.parametrize("command", ["create", "grant", "move", "show", "history"])
def test_every_command_has_an_example(budget: Command, command: str) -> None:
    code, out, _ = budget(command, "--help")
    assert code == 0
    assert f"marquee budget {command}" in out.partition("Examples:")[2]


def test_help_says_that_windows_do_not_give_budget_back(budget: Command) -> None:
    said = " ".join(re.sub(r"[│\n]", " ", budget("grant", "--help")[1]).split())
    assert "it never restores budget" in said
    assert "it cannot be changed later" in said


def test_create_binds_whom_the_total_protects_and_show_says_it_beside_every_figure(budget: Command) -> None:
    whom = "for units of column 'person_id' (replace_one_unit, 5 rows per unit)"
    options = ("--unit", "person_id", "--rows-per-unit", "5", "--neighbours", "replace_one_unit")
    assert create(budget, *options, delta="0").startswith(f"adult: epsilon 3, delta 0 {whom}; spent epsilon 0 of 3")
    assert f"granted to the dataset: epsilon 3, delta 0 {whom}: created" in budget("show")[1]
    create(budget, delta="0")


@pytest.mark.parametrize(("words", "code", "says"), [
    (("--rows-per-unit", "5"), 2, "want --unit"),
    (("--unit", "u", "--rows-per-unit", "5", "--items-per-unit", "5"), 2, "want one of them"),
    (("--unit", "u", "--rows-per-unit", "0"), 2, "rows-per-unit"),
    (("--unit", ""), 2, "--unit is empty"),
    (("--shares-with", "adult"), 2, "want --reason"),
    (("--shares-with", "nobody", "--reason", "households"), 4, "'nobody' has no budget"),
])  # fmt: skip
def test_a_total_that_protects_nobody_is_refused(budget: Command, words: tuple[str, ...], code: int, says: str) -> None:
    create(budget, delta="0")
    found, out, err = budget("create", "--dataset", "second", "--epsilon", "1", "--delta", "0", *words)
    assert (found, out) == (code, ""), err
    assert says in err


def test_history_says_whom_each_charge_protects_and_that_epsilons_do_not_add_up(
    budget: Command, tmp_path: Path
) -> None:
    create(budget, "--accounting", "zcdp", "--unit", "person", "--neighbours", "replace_one_unit")
    reserve(SqlLedger(f"sqlite:///{tmp_path / 'marquee.db'}"), budget=Budget.zcdp(Fraction(1, 1000)))
    out = budget("history", "--dataset", "adult")[1]
    charged = "for units of column 'person' (add_remove_unit, 1 row per unit), charged for replace_one_unit"
    assert re.search(rf"0.004  1/250  {re.escape(charged)}\n", out), out
    for text in (out, budget("show")[1]):
        assert "Only amounts of rho or mu^2 add up and subtract. The epsilons in brackets do not" in text
