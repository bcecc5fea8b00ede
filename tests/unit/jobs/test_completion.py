"""Completion in bash, zsh and fish, by the protocol through which each shell asks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.checks import ROOT


def answer(**variables: str) -> str:
    """What the program answers to a shell that asks with environment variables."""
    environment = {**os.environ, **variables}
    done = subprocess.run(
        [sys.executable, "-m", "jobs"], cwd=ROOT, env=environment, check=False, capture_output=True, text=True
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(("words", "offered", "withheld"), [
    ("marquee pl", {"plan"}, {"run"}),
    ("marquee budget ", {"create", "grant", "move", "show", "history"}, {"plan"}),
    ("marquee plan --comp", {"--compare"}, {"--json"}),
    ("marquee budget create --acc", {"--accounting"}, {"--unit"}),
    ("marquee do", {"doctor"}, {"demo"}),
])  # fmt: skip
def test_bash(words: str, offered: set[str], withheld: set[str]) -> None:
    index = len(words.split(" ")) - 1
    shown = set(answer(_MARQUEE_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(index)).split())
    assert offered <= shown
    assert not withheld & shown


def test_zsh() -> None:
    shown = answer(_MARQUEE_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="marquee verif")
    assert shown.startswith("_arguments")
    assert '"verify"' in shown


def test_fish() -> None:
    fish = {"_MARQUEE_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    assert answer(**fish, _TYPER_COMPLETE_ARGS="marquee stat").startswith("status\t")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_asks_for_marquee(shell: str) -> None:
    script = answer(_MARQUEE_COMPLETE=f"source_{shell}")
    assert "_MARQUEE_COMPLETE" in script
    assert f"complete_{shell}" in script
