"""Every wrong input of a run has its exit code and its message in one table; nothing is written or charged.

The table is ``tests/golden/bad_inputs.txt``, to be read from top to bottom. ``python -m
tests.integration.test_bad_input_table`` writes it anew.
"""

from __future__ import annotations

import io
import os
import re
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.bad_inputs import CASES, Case
from tests.support.checks import ROOT
from tests.support.releases import World, baskets_world, table_world

TABLE = ROOT / "tests" / "golden" / "bad_inputs.txt"
ALL = [case for cases in CASES.values() for case in cases]
SECONDS, MEGABYTES = 2.0, 300
NEXT_STEPS = ("want ", "did you mean ", "save the file", "restore ", "create one with: ", "needs it")


class Streams:
    """Takes what is written to stdout and stderr, as pytest's ``capsys`` does, also outside pytest."""

    def __init__(self) -> None:
        self.readouterr()

    def readouterr(self) -> tuple[str, str]:
        out, err = (stream.getvalue() if isinstance(stream, io.StringIO) else "" for stream in (sys.stdout, sys.stderr))
        sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
        return out, err


def entry(case: Case, folder: Path) -> str:
    """The case with its exit code and message, as in the table."""
    world = (baskets_world if case.baskets else table_world)(folder, cast(Any, Streams()))
    world.budget()
    case.spoil(world)
    before = world.files()
    seconds, peak = time.process_time(), _peak_megabytes()
    code, out, err = world.marquee("run", case.config)
    assert time.process_time() - seconds < SECONDS
    assert _peak_megabytes() - peak < MEGABYTES
    assert out == ""
    assert world.files() == before
    sentences = [line for line in err.splitlines() if line.startswith("marquee: ")]
    assert len(sentences) == 1, err
    assert err.endswith(sentences[0] + "\n")
    assert "Traceback" not in err
    return f"{case.name}\n  {code}  {_plain(sentences[0].removeprefix('marquee: '), world)}\n"


def _plain(message: str, world: World) -> str:
    """The message without what differs from run to run, or from version to version."""
    message = message.replace(f"{world.folder}/", "").replace(str(world.folder), "FOLDER")
    return re.sub("x{300}", "xxx...", re.sub(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{12}\b", "RELEASE", message))


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _entries() -> dict[str, str]:
    """The entries of the table by the name of their case."""
    blocks = re.findall(r"^(?!#)(\S.*)\n(  .*\n)", TABLE.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: f"{name}\n{message}" for name, message in blocks}


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_a_wrong_input_is_refused_as_the_table_says(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    found = entry(case, tmp_path)
    assert found.splitlines()[1].startswith(f"  {case.code}  ")
    assert found == _entries()[case.name]


def test_the_table_holds_every_case_once_and_says_what_to_do() -> None:
    entries = _entries()
    assert list(entries) == [case.name for case in ALL]
    assert len(entries) >= 100
    for name, text in entries.items():
        assert any(step in text for step in NEXT_STEPS), name
        assert not re.search(r"\w(Error|Exception|Invalid)\b", text), name


def _write_table() -> None:
    lines = ["# What `marquee run` says about a wrong input, with its exit code. Nothing is written or charged.\n"]
    stdout, stderr = sys.stdout, sys.stderr
    try:
        for section, cases in CASES.items():
            lines.append(f"\n## {section}\n")
            for case in cases:
                with tempfile.TemporaryDirectory() as place:
                    os.chdir(place)
                    lines.append(entry(case, Path(os.path.realpath(place))))
                    os.chdir(ROOT)
    finally:
        sys.stdout, sys.stderr = stdout, stderr
    TABLE.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    _write_table()
