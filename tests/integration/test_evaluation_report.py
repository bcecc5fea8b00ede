"""marquee evaluate --report: the SENSITIVE twin of a report."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import numpy as np
import pytest

from dpcore.errors import ConfigError
from jobs.evaluation_report import write_evaluation_report
from jobs.evaluation_report.content import gathered
from jobs.evaluation_report.rows import scores
from jobs.release.evaluation import evaluate
from tests.support.browser import open_browser
from tests.support.releases import World, table_world


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    """A published release of a table, with synthetic rows."""
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    world.config["mechanism"] = {"name": "gaussian_pgm"}
    world.set("output.synthetic_rows", 300)
    world.budget()
    assert world.run()[0] == 0
    return world


def test_the_figures_are_those_of_evaluate(world: World) -> None:
    content, comparison = gathered(world.job()), evaluate(world.job()).truncated
    assert content.groups[0].mean["release"] / content.total == pytest.approx(comparison.rows["release"].mean)
    assert content.groups[0].largest["product"] / content.total == pytest.approx(comparison.rows["product"].max)
    assert sum(group.answers for group in content.groups[1:]) == content.groups[0].answers
    assert abs(content.worst[0].error) == pytest.approx(content.groups[0].largest["release"])
    means = [errors.mean["release"] for errors in content.marginals]
    assert means == sorted(means, reverse=True)
    assert content.rows is not None
    assert content.rows.synthetic == 300


def test_the_file_says_that_it_is_sensitive_and_only_its_owner_may_read_it(world: World) -> None:
    path = world.folder / "evaluation.html"
    code, out, err = world.marquee("evaluate", "release.yaml", "--report", str(path))
    assert code == 0, err
    assert f"SENSITIVE: {path}" in err
    assert out.startswith("SENSITIVE")
    text = path.read_text(encoding="utf-8")
    assert text.count("SENSITIVE") >= 3
    assert "<script" not in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(ConfigError, match="exists; want a new file"):
        write_evaluation_report(world.job(), path)


def test_a_classifier_knows_rows_of_another_distribution_and_not_those_of_the_same() -> None:
    random = np.random.default_rng(5)
    real = random.integers(0, 4, (2_000, 3))
    same = scores(real, random.integers(0, 4, (2_000, 3)), ("a", "b", "c"))
    other = scores(real, np.minimum(random.integers(0, 6, (2_000, 3)), 3), ("a", "b", "c"))
    assert 0.45 < same.auc < 0.55
    assert other.auc > 0.6
    assert other.propensity > 4 * same.propensity
    assert [entry.attribute for entry in same.learned] == ["a", "b", "c"]


def test_rows_that_keep_a_relation_teach_it() -> None:
    random = np.random.default_rng(6)
    first = random.integers(0, 3, 2_000)
    real = np.stack([first, first], axis=1)
    taught, shuffled = (
        scores(real, real, ("a", "b")),
        scores(real, np.stack([first, random.permutation(first)], 1), ("a", "b")),
    )
    assert taught.learned[0].from_synthetic == 1.0
    assert shuffled.learned[0].from_synthetic < 0.6
    assert shuffled.learned[0].from_real == 1.0


@pytest.mark.full
def test_a_browser_finds_the_page_accessible(world: World) -> None:
    from axe_playwright_python.sync_playwright import Axe

    path = write_evaluation_report(world.job(), world.folder / "evaluation.html")
    with open_browser() as browser:
        page = browser.new_page(viewport={"width": 400, "height": 800})
        page.goto(path.as_uri())
        violations = Axe().run(page).response["violations"]
        assert [found["id"] for found in violations if found["impact"] in ("serious", "critical")] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert re.search("SENSITIVE", page.inner_text("header"))
