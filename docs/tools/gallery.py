"""Writes the pages of docs/gallery by running them: python -m docs.tools.gallery [NAME ...]

A page is a template in ``tasks`` with files (``yaml``) and commands (``console``). The commands run in an empty folder,
and what each prints on stdout is put below it, at most ``MAX_LINES`` lines. Runs draw new noise, so two runs print
other numbers: ``form`` is what they share.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TASKS = HERE / "tasks"
FOLDER = HERE.parent / "gallery"
MAX_LINES = 24
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?")


def rendered(template: str, folder: Path) -> str:
    """A page: its template with the output of each command.

    template: Markdown.
    folder: An empty folder, in which the commands run.

    Raises: RuntimeError when a command fails.
    """
    return _BLOCK.sub(lambda block: block[0] + _after(block[1], block[2], folder), template)


def _after(language: str, block: str, folder: Path) -> str:
    if language == "yaml":
        (folder / block.split("\n")[0].removeprefix("# ")).write_text(block)
        return ""
    if language != "console":
        return ""
    printed = [_output(line.removeprefix("$ "), folder) for line in block.splitlines()]
    lines = "\n".join(text for text in printed if text).splitlines()
    cut = [*lines[:MAX_LINES], "..."] if len(lines) > MAX_LINES else lines
    return "\n```text\n" + "\n".join(line.rstrip() for line in cut) + "\n```\n" if cut else ""


def _output(command: str, folder: Path) -> str:
    program, *arguments = shlex.split(command)
    if program != "marquee":
        raise RuntimeError(f"the gallery runs marquee alone; got {command!r}")
    made = subprocess.run(
        [sys.executable, "-m", "jobs", *arguments], cwd=folder, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}, check=False,
    )  # fmt: skip
    if made.returncode:
        raise RuntimeError(f"{command!r} ended with exit code {made.returncode}: {made.stderr}")
    return made.stdout.replace(f"{folder}/", "").replace(str(folder), ".")


def form(page: str) -> list[str]:
    """What two runs of a page share: its text without numbers, versions, hashes and widths of columns."""
    page = re.sub(r"\b[0-9a-f]{12,64}\b", "ID", page)
    page = re.sub(r"\b\d{4}-\d\d-\d\d(T[\d:+.]+)?", "DATE", page)
    page = re.sub(r"\b\d+\.\d+\.\d+\b", "VERSION", page)
    page = _NUMBER.sub("#", page)
    return [re.sub(r"[-\s]+", " ", line).strip() for line in page.splitlines()]


def main(names: list[str]) -> None:
    """Runs the named tasks, or all, and writes their pages."""
    FOLDER.mkdir(exist_ok=True)
    for path in sorted(TASKS.glob("*.md")):
        if not names or path.stem in names:
            with tempfile.TemporaryDirectory() as folder:
                (FOLDER / path.name).write_text(rendered(path.read_text(), Path(folder).resolve()))


if __name__ == "__main__":
    main(sys.argv[1:])
