"""Everything that the README shows runs as written, in order, in an empty folder; and it stays short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.checks import ROOT
from tests.support.snippets import DOCS, blocks, commands, run_page

README = (ROOT / "README.md").read_text()
WITHOUT_PYTHON = re.sub(r"^```python\n.*?^```", "", README, flags=re.DOTALL | re.MULTILINE)


def test_every_command_runs_in_order_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run_page(WITHOUT_PYTHON)
    assert (tmp_path / "out" / "people" / "_SUCCESS").exists()
    assert any((tmp_path / "data" / "people-synthetic").iterdir())
    assert set(ran) == {"generate", "schema", "plan", "budget", "run", "verify", "table", "report", "make"}


def test_the_python_runs_and_has_about_ten_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (snippet,) = [block for language, block in blocks(README) if language == "python"]
    assert len([line for line in snippet.splitlines() if line]) <= 10
    assert run_page(f"```python\n{snippet}```") == ["python"]


def test_it_has_at_most_120_lines() -> None:
    assert len(README.splitlines()) <= 120


def test_every_block_is_of_a_kind_that_runs() -> None:
    assert {language for language, _ in blocks(README)} == {"console", "yaml", "python"}
    assert all(commands(block) for language, block in blocks(README) if language == "console")


def test_every_file_it_points_at_exists() -> None:
    targets = [target for target in re.findall(r"\]\(([^)#]+)", README) if "://" not in target]
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_the_picture_is_small_and_fetches_nothing() -> None:
    picture = (DOCS / "flow.svg").read_text()
    assert len(picture) < 100_000
    assert set(re.findall(r"https?://[^\"\s]+", picture)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(script|image|foreignObject)\b", picture)
