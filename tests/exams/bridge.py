"""An exam runs in an environment of its own: tables go there as Parquet or CSV, and its scores come back as JSON."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.exams.tables import Table
from tests.support.datasets import ROOT
from tests.support.environments import environment

PROGRAMS = ROOT / "tests" / "exams" / "programs"
SECONDS = 1800


@dataclass(frozen=True)
class Question:
    """What a program is asked. released, held_out, synthetic: Files of rows, in codes. seed: Public seed of the attacks.
    sizes, ordered, secret: As of a table.
    """

    released: Path
    held_out: Path
    synthetic: Path
    sizes: dict[str, int]
    ordered: tuple[str, ...]
    secret: str
    seed: int


def question(files: Path, table: Table, synthetic: Path, seed: int) -> Question:
    """What is asked about a candidate, whose parts ``files`` holds."""
    parts = (files / "released.parquet", files / "held_out.parquet")
    return Question(*parts, synthetic, table.sizes, table.ordered, table.secret, seed)


def scores(exam: str, question: Question, folder: Path) -> dict[str, float]:
    """The scores that the program of an exam gives, by their names.

    Raises:
        RuntimeError: The program failed, or its answer is no table of numbers. The message holds what it said.
    """
    asked, answered = folder / f"{exam}.question.json", folder / f"{exam}.scores.json"
    answered.unlink(missing_ok=True)
    asked.write_text(json.dumps(vars(question), default=str))
    python = environment(f"exams-{exam}") / "python"
    command = [str(python), str(PROGRAMS / f"{exam}_scores.py"), str(asked), str(answered)]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode or not answered.exists():
        raise RuntimeError(f"{exam} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return parsed(json.loads(answered.read_text()))


def parsed(answer: Any) -> dict[str, float]:
    """The scores of an answer, which must be finite numbers by name.

    Raises:
        RuntimeError: It is something else.
    """
    if not isinstance(answer, dict) or not answer:
        raise RuntimeError(f"an exam must answer with scores by name, not {type(answer).__name__}")
    for name, value in answer.items():
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or value != value
            or abs(value) == float("inf")
        ):
            raise RuntimeError(f"the score {name!r} must be a finite number, not {value!r}")
    return {name: float(value) for name, value in answer.items()}


def version(exam: str) -> str:
    """The version of the package that sets an exam, as its environment has it."""
    python = environment(f"exams-{exam}") / "python"
    code = f"from importlib.metadata import version; print(version({exam!r}))"
    done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()
