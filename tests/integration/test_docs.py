"""The pages of docs/: every snippet runs, generated pages are current, and every question has its answer's heading."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from docs.tools import gallery, reference
from dpcore.mechanisms.registry import MECHANISMS
from tests.support.checks import ROOT
from tests.support.snippets import DOCS, RUN, SHOWN, blocks, follows, run_page

GENERATED = {"gallery", "reference", "tools"}
PAGES = {
    str(path.relative_to(DOCS)): path.read_text()
    for path in sorted(DOCS.rglob("*.md"))
    if path.relative_to(DOCS).parts[0] not in GENERATED
}
LONG = {"start.md"}  # Its release is that of the folder in which other pages continue.
WITH_SNIPPETS = [
    name for name, page in PAGES.items() if name not in LONG and any(language in RUN for language, _ in blocks(page))
]
SHOWN_ONLY = {"guides/answers.md": {"r"}}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the five-minute start leaves."""
    folder = tmp_path_factory.mktemp("started")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        ran = run_page(PAGES["start.md"])
    assert set(ran) == {"generate", "plan", "validate", "budget", "run", "verify", "evaluate", "make"}
    assert any((folder / "data" / "people-synthetic").iterdir())
    return folder


@pytest.mark.parametrize("name", WITH_SNIPPETS)
def test_every_snippet_of_a_page_runs_in_order(
    name: str, started: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = PAGES[name]
    assert follows(page) in (None, "start.md")
    # The ledger binds data to their place, so that pages continue there and not in a copy.
    monkeypatch.chdir(started if follows(page) else tmp_path)
    assert run_page(page)


def test_every_block_runs_or_is_shown_on_purpose() -> None:
    for name, page in PAGES.items():
        languages = {language for language, _ in blocks(page)} - RUN - SHOWN_ONLY.get(name, set())
        assert languages <= SHOWN - {"r"}, name


@pytest.mark.parametrize("name", sorted(reference.pages()))
def test_generated_references_are_current(name: str) -> None:
    current = reference.pages()[name]
    assert (DOCS / "reference" / name).read_text() == current, "run python -m docs.tools.reference"


TASKS = sorted(path.name for path in gallery.TASKS.glob("*.md"))


@pytest.mark.parametrize("name", TASKS)
def test_the_gallery_has_the_commands_of_its_tasks(name: str) -> None:
    page = re.sub(r"^\n```text\n.*?^```\n", "", (gallery.FOLDER / name).read_text(), flags=re.DOTALL | re.MULTILINE)
    assert page == (gallery.TASKS / name).read_text(), "run python -m docs.tools.gallery"


@pytest.mark.full
@pytest.mark.parametrize("name", TASKS)
def test_a_new_run_of_the_gallery_differs_in_numbers_alone(name: str, tmp_path: Path) -> None:
    page = gallery.rendered((gallery.TASKS / name).read_text(), tmp_path.resolve())
    assert gallery.form(page) == gallery.form((gallery.FOLDER / name).read_text()), "run python -m docs.tools.gallery"


def test_the_form_of_a_page_hides_numbers_and_versions_and_shows_words() -> None:
    page = (gallery.FOLDER / "loans.md").read_text()
    later, count = re.subn(r"made by Marquee \S+,", "made by Marquee 98.7.65,", page)
    assert count == 1
    assert gallery.form(later) == gallery.form(page)
    page = (gallery.FOLDER / "census.md").read_text()
    assert gallery.form(page.replace("19,", "21,")) == gallery.form(page)
    assert gallery.form(page.replace("published:", "made:")) != gallery.form(page)


QUESTIONS = re.findall(r"^(\d)\. \[(.+?)\]\(([^)#]+)#([^)]+)\)$", PAGES["questions.md"], re.MULTILINE)


def test_each_reader_has_five_questions() -> None:
    sections = PAGES["questions.md"].split("\n## ")[1:]
    assert len(sections) == 5
    assert [number for number, *_ in QUESTIONS] == list("12345") * 5


@pytest.mark.parametrize(("page", "anchor"), [question[2:] for question in QUESTIONS], ids=lambda text: text)
def test_every_question_has_a_heading_with_text(page: str, anchor: str) -> None:
    plain = re.sub(
        r"^```.*?^```", lambda block: block[0].replace("\n#", "\n"), PAGES[page], flags=re.DOTALL | re.MULTILINE
    )
    headings = re.split(r"^#+ (.+)$", plain, flags=re.MULTILINE)
    texts = {_anchor(title): text for title, text in zip(headings[1::2], headings[2::2], strict=True)}
    assert len(texts[anchor].split()) > 10 or anchor == _anchor(headings[1])


def _anchor(title: str) -> str:
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


def test_every_mechanism_is_in_its_table() -> None:
    cells = [line.split("|")[1] for line in PAGES["mechanisms.md"].splitlines() if line.startswith("| `")]
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} - {"mechanism"} == set(MECHANISMS)


def test_the_map_names_every_folder() -> None:
    for name in ("dpcore", "pipelines", "jobs", "deploy", "tests"):
        assert re.search(rf"^{name}/ ", PAGES["design/index.md"], re.MULTILINE)
        assert (ROOT / name).is_dir()


@pytest.mark.full
def test_the_site_builds_without_a_warning_and_fetches_nothing(tmp_path: Path) -> None:
    command = ["make", "docs", f"DOCS={tmp_path / 'venv'}", f"SITE={tmp_path / 'site'}", f"PYTHON={sys.executable}"]
    built = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert "WARNING -" not in built.stderr  # As mkdocs writes it; pip has warnings of its own.
    pages = "".join(path.read_text() for path in (tmp_path / "site").rglob("*.html"))
    assert re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"https?://[^\"]+", pages) == []
    assert (tmp_path / "site" / "external_links.txt").read_text()


def test_every_page_is_in_the_navigation_and_fetches_nothing() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    listed = re.findall(r"[\w./]+\.md", yaml.safe_dump(site["nav"]))
    own = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    own |= {str(path.relative_to(ROOT)) for path in ROOT.glob("*/decisions/*.md")}
    assert own - {name for name in own if name.split("/")[0] in {"tools"}} <= set(listed)
    assert site["theme"]["font"] is False
    assert site["strict"] is True
    assert "repo_url" not in site


def test_every_link_between_pages_and_files_exists() -> None:
    for name, page in PAGES.items():
        prose = re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\(([^)#\s]+)", prose):
            assert "://" in target or (DOCS / name).parent.joinpath(target).exists(), (name, target)


def test_no_page_that_is_written_by_hand_is_long() -> None:
    assert [name for name, page in PAGES.items() if len(page.splitlines()) > 400] == []
