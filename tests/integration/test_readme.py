"""What the README shows works as written."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from jobs.cli import main
from jobs.config import parse_config
from tests.support.datasets import ROOT

README = (ROOT / "README.md").read_text()
REST = {
    "privacy": {"epsilon": 1.0, "delta": 1e-6},
    "mechanism": {"name": "dual_query"},
    "output": {"path": "out"},
}
DATASET = {"name": "d", "snapshot": "1", "path": "p", "unit": "u"}
TABLE = {**REST, "dataset": {**DATASET, "shape": "table", "schema": "s.yaml"}}
BASKETS = {**REST, "dataset": {**DATASET, "shape": "baskets", "item": "i", "items": 9}}


def test_the_first_release_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its two files and its five commands, on data that the schema describes."""
    monkeypatch.chdir(tmp_path)
    for block in re.findall(r"```yaml\n(.*?)```", README, re.DOTALL):
        if name := re.match(r"# (\S+\.yaml)", block):
            Path(name.group(1)).write_text(block)
    _write_people(tmp_path / "data" / "people")
    commands = [line[2:].split("#")[0].split() for line in README.splitlines() if line.startswith("$ marquee ")]
    assert [command[1] for command in commands] == ["plan", "validate", "budget", "run", "evaluate"]
    for command in commands:
        assert _exit_code(command[1:]) == 0, command
    assert (tmp_path / "out" / "people" / "_SUCCESS").exists()


def test_every_workload_that_it_shows_is_one() -> None:
    shown = [yaml.safe_load(line) for line in README.splitlines() if line.startswith("workload: ")]
    assert len(shown) > 5
    for workload in shown:
        for shape in (TABLE, BASKETS) if "conjunctions" in workload["workload"] else (TABLE,):
            parse_config({**shape, **workload})


def test_every_file_it_points_at_exists() -> None:
    targets = [target for target in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in target]
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_every_mechanism_is_in_its_table() -> None:
    from dpcore.mechanisms.registry import MECHANISMS

    rows = {
        name
        for line in README.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert rows == set(MECHANISMS)


def _exit_code(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return int(end.value.code or 0)


def _write_people(folder: Path) -> None:
    rng = np.random.default_rng(5)
    folder.mkdir(parents=True)
    rows = 4_000
    pq.write_table(
        pa.table(
            {
                "person_id": np.arange(rows),
                "region": rng.choice(["north", "east", "south", "west", "moon"], rows),
                "age": rng.integers(0, 99, rows),
                "income": np.exp(rng.normal(9, 1, rows)),
                "insured": pa.array(rng.random(rows) < 0.7, mask=rng.random(rows) < 0.02),
            }
        ),
        folder / "part-0.parquet",
    )
