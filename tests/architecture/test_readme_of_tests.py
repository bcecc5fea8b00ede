"""tests/README.md: every folder of tests is described, and every command that it names exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.support.checks import ROOT

TESTS = ROOT / "tests"
README = (TESTS / "README.md").read_text()


def folders_with_code(path: Path) -> set[str]:
    return {folder.name for folder in path.iterdir() if folder.is_dir() and any(folder.rglob("*.py"))}


def test_every_folder_of_tests_has_a_row() -> None:
    rows = set(re.findall(r"^\| `(\w+)` \|", README.split("## How to run them")[0], flags=re.MULTILINE))
    assert rows == folders_with_code(TESTS) - {"support"}


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"`make ([\w-]+)", README))
    assert named
    assert named - targets == set()


def test_every_marker_has_a_row() -> None:
    markers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    names = {re.split(r"[(:]", marker)[0] for marker in markers}
    assert names == set(re.findall(r"^\| `(\w+)(?:\(\w\))?` \|", README.split("## Markers")[1], flags=re.MULTILINE))
