"""The command line: help everywhere, global options anywhere, one sentence for whatever goes wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import jobs.cli
from jobs.cli import main
from jobs.version import VERSION
from tests.support.checks import ROOT

COMMANDS = [
    ("demo",), ("validate",), ("plan",), ("run",), ("status",), ("evaluate",), ("generate", "baskets"),
    ("generate", "table"), ("budget", "create"), ("budget", "show"), ("budget", "history"), ("warm",),
    ("verify",), ("doctor",), ("generate", "rows"), ("budget", "grant"), ("budget", "move"), ("store", "status"),
    ("store", "clean"),
    ("verify",), ("table",), ("schema", "draft"), ("schema", "check"), ("schema", "json"),
]  # fmt: skip


def marquee(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    out, err = capsys.readouterr()
    assert isinstance(stop.value.code, int)
    return stop.value.code, out, err


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_examples(capsys: pytest.CaptureFixture[str], command: tuple[str, ...]) -> None:
    code, out, _ = marquee(capsys, *command, "--help")
    assert code == 0
    assert f"marquee {' '.join(command)}" in out.split("Examples:")[1]


def test_all_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = marquee(capsys)
    assert code == 0
    assert all(command[0] in out for command in COMMANDS)
    assert "7 integrity" in " ".join(out.split())


@pytest.mark.parametrize("name", jobs.cli.COMMANDS)
def test_the_list_says_how_the_help_of_a_command_begins(capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, out, _ = marquee(capsys, name, "--help")
    assert code == 0
    assert " ".join(jobs.cli.COMMANDS[name].split()) in " ".join(out.split())


def test_every_module_of_commands_is_listed() -> None:
    folder = Path(jobs.cli.__file__).parent / "commands"
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == set(jobs.cli.COMMANDS)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["nonsense"], ["run", "--help"], ["plan", "--help"]])
def test_help_imports_nothing_that_computes(arguments: list[str]) -> None:
    program = (
        f"import sys; from jobs.cli import main\ntry: main({arguments})\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False, capture_output=True, text=True)
    imported = set(done.stderr.splitlines()[-1].split())
    assert "jobs.cli" in imported
    assert not imported & {"numba", "numpy", "scipy", "sqlalchemy", "pyarrow", "structlog"}


def test_a_release_starts_without_what_only_some_estimates_need() -> None:
    """Of 1.55 CPU seconds that all imports take, they would be 0.15."""
    program = "import sys, jobs.release.run; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)
    imported = set(done.stdout.split())
    assert "dpcore.mechanisms.adaptive.adaptive_residuals" in imported
    assert not imported & {"scipy.cluster", "scipy.optimize", "scipy.spatial", "scipy.stats", "pandas", "matplotlib"}


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert marquee(capsys, "--version") == (0, f"{VERSION}\n", "")


MISUSES = [
    (("nonsense",), "No such command"),
    (("budget",), "Missing command"),
    (("run",), "config"),
    (("run", "a", "b"), "b"),
    (("run", "--nonsense", "a"), "--nonsense"),
    (("plan",), "want a config file, or --schema"),
    (("budget", "create", "--dataset", "x", "--epsilon", "much", "--delta", "0"), "'--epsilon'"),
    (("budget", "create", "--dataset", "x", "--epsilon", "0", "--delta", "0"), "--epsilon is 0; want 0 < epsilon"),
    (("budget", "create", "--dataset", "x", "--epsilon", "nan", "--delta", "0"), "--epsilon is nan"),
    (("budget", "create", "--dataset", "x", "--epsilon", "1", "--delta", "1"), "--delta is 1; want 0 <= delta < 1"),
    (("budget", "create", "--dataset", "", "--epsilon", "1", "--delta", "0"), "--dataset is empty"),
    (("run", "a", "--log-format", "xml"), "xml"),
    (("run", "a", "--log-format"), "--log-format"),
]


@pytest.mark.parametrize(("arguments", "says"), MISUSES, ids=lambda part: str(part)[:60])
def test_misuse_is_one_sentence(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str) -> None:
    code, out, err = marquee(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("marquee: ")
    assert err.count("\n") == 1
    assert says in err


@pytest.mark.parametrize("arguments", [
    ("--log-format", "json", "run", "none.yaml"),
    ("run", "none.yaml", "--log-format", "json"),
    ("run", "--log-format=json", "none.yaml"),
])  # fmt: skip
def test_failures_are_events_for_machines(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    code, _, err = marquee(capsys, *arguments)
    event = json.loads(err)
    assert (code, event["exit_code"], event["level"]) == (2, 2, "error")
    assert event["event"] == "none.yaml does not exist; want a YAML config"


def failing(*_: object, **__: object) -> None:
    raise RuntimeError("a value of 42")


@pytest.mark.parametrize("debug", [False, True])
def test_a_trace_is_for_those_who_ask(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, debug: bool
) -> None:
    monkeypatch.setattr(jobs.cli, "app", failing)
    code, _, err = marquee(capsys, "run", "x", *(["--debug"] if debug else []))
    assert code == 70
    assert ("a value of 42" in err) == debug
    assert err.splitlines()[-1].startswith("marquee: unexpected RuntimeError")


def test_an_interruption_is_never_taken_for_success(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the parser treats the arguments, a scheduler must not read exit code 0."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("jobs.commands.budget.SqlLedger", interrupted)
    code, out, err = marquee(capsys, "budget", "show")
    assert (code, out) == (130, "")
    assert "run the same command again to continue" in err
