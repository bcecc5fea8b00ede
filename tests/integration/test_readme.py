"""Everything that the README shows runs as written, in order, in an empty folder."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from jobs.cli import main
from jobs.planning.job import load_job
from pipelines.yaml_file import read_yaml
from tests.support.datasets import ROOT

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)


def test_every_snippet_runs_in_order_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran: list[str] = []
    for language, block in BLOCKS:
        if language == "console":
            ran += [_command(shown) for shown in _commands(block)]
        elif file := re.match(r"# (\S+\.yaml)\n", block):
            Path(file[1]).write_text(block)
        else:
            ran += [_section(line) for line in block.splitlines() if line]
    assert (tmp_path / "out" / "people" / "_SUCCESS").exists()
    assert any((tmp_path / "data" / "people-synthetic").iterdir())
    known = {
        "generate",
        "plan",
        "validate",
        "budget",
        "run",
        "verify",
        "evaluate",
        "cat",
        "make",
        "workload",
        "dataset",
    }
    assert set(ran) == known


def test_every_block_is_of_a_kind_that_runs() -> None:
    assert {language for language, _ in BLOCKS} == {"console", "yaml"}
    plain = re.findall(
        r"^```\n(.*?)^```", re.sub(r"```\w+\n.*?```", "", README, flags=re.DOTALL), re.DOTALL | re.MULTILINE
    )
    assert [block.split()[0] for block in plain] == ["dpcore/"]  # The map of folders.


def test_the_map_names_every_folder() -> None:
    for name in ("dpcore", "pipelines", "jobs", "deploy", "tests"):
        assert re.search(rf"^{name}/ ", README, re.MULTILINE)
        assert (ROOT / name).is_dir()


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


def _commands(block: str) -> list[str]:
    """Each command of a console block, with the lines that it prints."""
    return [shown for shown in re.split(r"^\$ ", block, flags=re.MULTILINE) if shown]


def _command(shown: str) -> str:
    """Runs a command; ``cat`` shows the content of a file, which is written. Returns the name of the command."""
    first, _, printed = shown.partition("\n")
    program, *arguments = shlex.split(first, comments=True)
    if program == "marquee":
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 0, first
        return arguments[0]
    if program == "cat":
        Path(arguments[0]).write_text(printed)
        return program
    assert program == "make"
    subprocess.run(["make", "--dry-run", *arguments], cwd=ROOT, check=True, capture_output=True)
    return program


def _section(line: str) -> str:
    """Plans the release of people.yaml with another workload or dataset, by a mechanism that takes every workload."""
    config = read_yaml(Path("people.yaml"), "config", dates=False)
    Path("other.yaml").write_text(line)
    ((name, section),) = read_yaml(Path("other.yaml"), "config", dates=False).items()
    if name == "dataset":
        section = config[name] | section
        if {"table", "catalog"} & section.keys():
            del section["path"]
        if "catalog" in section:
            config["engine"] = {"name": "spark"}
    config |= {name: section, "mechanism": {"name": "independent"}}
    Path("other.yaml").write_text(yaml.safe_dump(config))
    assert load_job("other.yaml").plan.steps, line
    return name
