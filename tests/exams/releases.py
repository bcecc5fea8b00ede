"""Releases of a table through the command line, as anyone makes them: a budget, a config, ``run``."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.exams.tables import Table
from tests.support.checks import ROOT

DELTA = 1e-6


@dataclass(frozen=True)
class Recipe:
    """How a release is made. order: Order of all marginals that the workload asks for."""

    mechanism: str
    epsilon: float
    order: int = 2

    @property
    def name(self) -> str:
        return f"{self.mechanism}, epsilon {self.epsilon:g}"


def marquee(*arguments: str | Path) -> str:
    """Runs a command of Marquee in a process of its own, and returns what it printed.

    Raises:
        RuntimeError: The command failed. The message holds what it said.
    """
    command = [sys.executable, "-m", "jobs", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"marquee {arguments[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def release(table: Table, recipe: Recipe, rows: int, folder: Path) -> Path:
    """The folder of the synthetic rows of a release of ``table``; its noise has no seed."""
    table.write(folder / "data" / "part.parquet", unit=True)
    (folder / "schema.yaml").write_text(yaml.safe_dump(schema(table)))
    (folder / "config.yaml").write_text(yaml.safe_dump(config(table, recipe, rows, folder)))
    marquee(
        "budget", "create", "--dataset", table.name, "--epsilon", str(recipe.epsilon), "--delta", str(DELTA),
        "--ledger", _ledger(folder),
    )  # fmt: skip
    marquee("run", folder / "config.yaml")
    return folder / "out" / "synthetic"


def schema(table: Table) -> dict[str, Any]:
    """Bins of width one, so that a code is an integer before and after."""
    attributes = [
        {"name": name, "type": "integer", "edges": list(range(size + 1)), "null": False}
        for name, size in table.sizes.items()
    ]
    return {"version": 1, "attributes": attributes}


def config(table: Table, recipe: Recipe, rows: int, folder: Path) -> dict[str, Any]:
    dataset = {"name": table.name, "snapshot": "exam", "path": str(folder / "data"), "shape": "table"}
    layout = {"unit": "person_id", "max_rows_per_unit": 1, "schema": str(folder / "schema.yaml")}
    privacy = {"epsilon": recipe.epsilon, "delta": DELTA, "neighbours": "add_remove_unit", "units": "private"}
    return {
        "version": 1,
        "dataset": {**dataset, **layout},
        "privacy": {**privacy, "ledger": _ledger(folder)},
        "workload": {"marginals": {"order": recipe.order}},
        "mechanism": {"name": recipe.mechanism},
        "output": {"path": str(folder / "out"), "synthetic_rows": rows},
    }


def _ledger(folder: Path) -> str:
    return f"sqlite:///{folder / 'ledger.db'}"
