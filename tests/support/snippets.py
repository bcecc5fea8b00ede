"""Runs the snippets of a page of the documentation, in order, in the working folder.

* ``console``: lines that begin with ``$ ``. ``marquee`` runs in this process, ``cat FILE`` writes what it shows,
  ``make`` is a dry run, and ``openssl`` and ``sqlite3`` run as they are.
* ``yaml``: a first line ``# NAME.yaml`` makes it a file; otherwise each line is a section of ``people.yaml``, and is
  planned.
* ``python``: run in one namespace per page. ``sql``: run by DuckDB.
* ``text``, ``r`` and ``json`` are shown, not run.

``<!-- after: PAGE -->`` says that the page continues in the folder that another page leaves.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobs.cli import main
from jobs.planning.job import load_job
from pipelines.yaml_file import read_yaml
from tests.support.checks import ROOT

DOCS = ROOT / "docs"
RUN = {"console", "yaml", "python", "sql"}
SHOWN = {"text", "r", "json"}
_PROGRAMS = {"openssl", "sqlite3"}


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and content of each fenced block of a page."""
    return re.findall(r"^```(\w*)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


def follows(page: str) -> str | None:
    """The page in whose folder the snippets of a page run, if it names one."""
    named = re.search(r"<!-- after: (\S+) -->", page)
    return named[1] if named else None


def run_page(page: str) -> list[str]:
    """Runs all snippets of a page; the names of the commands, sections and languages that ran."""
    ran: list[str] = []
    namespace: dict[str, Any] = {"__name__": "__docs__"}
    for language, block in blocks(page):
        if language == "console":
            ran += [run_command(shown) for shown in commands(block)]
        elif language == "python":
            exec(compile(block, "snippet", "exec"), namespace)
            ran.append(language)
        elif language == "sql":
            ran.append(_queried(block))
        elif language == "yaml" and (file := re.match(r"# (\S+\.yaml)\n", block)):
            Path(file[1]).write_text(block)
        elif language == "yaml":
            ran += [planned_section(line) for line in block.splitlines() if line]
    return ran


def _queried(block: str) -> str:
    duckdb = pytest.importorskip("duckdb")
    assert duckdb.sql(block).fetchall(), block
    return "sql"


def commands(block: str) -> list[str]:
    """Each command of a console block, with the lines that it prints."""
    return [shown for shown in re.split(r"^\$ ", block, flags=re.MULTILINE) if shown]


def run_command(shown: str) -> str:
    """Runs a command. Returns its name, or that of marquee's command."""
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
    if program in _PROGRAMS:
        subprocess.run([program, *arguments], check=True, capture_output=True)
        return program
    assert program == "make", first
    subprocess.run(["make", "--dry-run", *arguments], cwd=ROOT, check=True, capture_output=True)
    return program


def planned_section(line: str) -> str:
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
