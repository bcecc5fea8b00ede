"""The checks of `make check`, run on a copy of the packages that a test may damage."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("dpcore", "pipelines", "jobs", "marquee")
_UNCOPIED = shutil.ignore_patterns("__pycache__")


def copy_of_the_packages(folder: Path) -> Path:
    """The packages with their settings and Makefile, copied into ``folder``."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=_UNCOPIED)
    for name in ("pyproject.toml", "Makefile"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def command_of_make_check(tool: str) -> str:
    """The one command line with which `make check` calls ``tool``, with the tool taken from this environment."""
    printed = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "check", f"VENV={sys.prefix}"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    (line,) = [line for line in printed.splitlines() if f"/bin/{tool}" in line]
    return line


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command line in ``folder``, wide enough that no tool wraps what it prints."""
    return subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env={**os.environ, "COLUMNS": "400", "NO_COLOR": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
