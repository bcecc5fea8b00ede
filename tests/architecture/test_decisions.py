"""The pages of dpcore/decisions: sections in order, files that exist, and an index that is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.checks import ROOT

FOLDER = ROOT / "dpcore" / "decisions"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
SECTIONS = ["Current choice", "Why", "What was measured", "Tried and dropped", "History (superseded)"]
NAMED_FILE = re.compile(r"`((?:dpcore|pipelines|jobs|tests)(?:/[\w.]+)+)/?`")
NOTHING_SUPERSEDED = "- No entry of this page has been superseded."


def sections(page: str) -> dict[str, str]:
    """Text of each second-level section of a page, by its heading and in the order of the page."""
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def entries(section: str) -> list[str]:
    """Items of the bulleted list that a section consists of, each with its continuation lines."""
    return re.split(r"^(?=- )", section.strip(), flags=re.MULTILINE)[1:]


def missing_files(page: str) -> list[str]:
    return [name for name in NAMED_FILE.findall(page) if not (ROOT / name).exists()]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_sections_come_in_order_and_none_is_empty(path: Path) -> None:
    found = sections(path.read_text())
    assert list(found) == SECTIONS
    assert all(content.strip() for content in found.values())


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_file_that_a_page_names_exists(path: Path) -> None:
    page = path.read_text()
    assert NAMED_FILE.findall(page)
    assert missing_files(page) == []


def test_a_file_that_does_not_exist_is_noticed() -> None:
    assert missing_files("see `dpcore/no_such_file.py` and `dpcore/kernel/noise.py`") == ["dpcore/no_such_file.py"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_entry_of_the_history_says_what_superseded_it(path: Path) -> None:
    history = entries(sections(path.read_text())[SECTIONS[-1]])
    assert history
    if history != [NOTHING_SUPERSEDED]:
        assert [entry for entry in history if "superseded by" not in " ".join(entry.split())] == []


@pytest.mark.parametrize("path", [*PAGES, FOLDER / "README.md"], ids=lambda path: path.name)
def test_running_text_is_wrapped(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert [line for line in lines if len(line) > 200 and not line.startswith("|")] == []


def test_the_index_lists_every_page_once() -> None:
    listed = re.findall(r"^- \[[^\]]+\]\((\w+\.md)\): ", (FOLDER / "README.md").read_text(), flags=re.MULTILINE)
    assert sorted(listed) == [path.name for path in PAGES]
