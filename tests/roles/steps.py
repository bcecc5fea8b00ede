"""The steps of a page: what a reader would type, in order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tests.support.snippets import blocks, commands

Kind = Literal["file", "command", "python"]


@dataclass(frozen=True)
class Step:
    """One thing that a reader does.

    kind: A file to write, a command to run, or Python to run.
    name: Name of the file, or the command.
    text: Content of the file, or the code; empty for a command.
    """

    kind: Kind
    name: str
    text: str = ""


def steps_of(page: str) -> list[Step]:
    """The steps of a page. Python blocks continue each other, so each step of Python holds all code up to it."""
    steps: list[Step] = []
    code = ""
    for language, block in blocks(page):
        if language == "console":
            steps += [step for shown in commands(block) if (step := _command(shown)) is not None]
        elif language == "python":
            code += block
            steps.append(Step("python", block.strip().splitlines()[0], code))
        elif language == "yaml" and (file := re.match(r"# (\S+\.yaml)\n", block)):
            steps.append(Step("file", file[1], block))
    return steps


def _command(shown: str) -> Step | None:
    """A command of marquee, or a file that ``cat`` shows; None for what belongs to a checkout, such as make."""
    first, _, printed = shown.partition("\n")
    words = first.partition("#")[0].split()
    if words[:1] == ["cat"]:
        return Step("file", words[1], printed)
    return Step("command", first.partition("  #")[0].strip()) if words[:1] == ["marquee"] else None
