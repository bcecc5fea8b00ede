"""The report of a release: what it says, what it never runs, and how it behaves in a browser."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.errors import ConfigError
from jobs.config import parse_config
from jobs.ledger import SqlLedger
from jobs.planning.job import job_of
from jobs.release.run import release
from jobs.report import write_report
from jobs.report.figures import MOST_SEARCHED
from tests.support.browser import open_browser

HOSTILE = "</script><img src=x onerror=alert(1)>"
ATTRIBUTES: list[dict[str, Any]] = [
    {"name": HOSTILE, "type": "categorical", "values": ["a & b", HOSTILE, "zwölf \u2028"], "column": "h"},
    {"name": "sex", "type": "categorical", "values": ["female", "male"], "other": False, "null": False},
    {"name": "income", "type": "float", "bins": {"low": 0, "high": 100, "count": 7}, "null": False},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose names and values are an attack, and baskets, both released."""
    folder = tmp_path_factory.mktemp("report")
    random = np.random.default_rng(3)
    rows = {
        "id": np.arange(800),
        "h": random.choice(["a & b", HOSTILE], 800),
        "sex": random.choice(["female", "male"], 800),
        "income": random.uniform(0, 100, 800),
    }
    (folder / "table").mkdir()
    pq.write_table(pa.table(rows), folder / "table" / "a.parquet")
    (folder / "schema.yaml").write_text(json.dumps({"version": 1, "attributes": ATTRIBUTES}))
    baskets = pa.table({"user": np.repeat(np.arange(200), 3), "item": np.tile([1, 2, 3], 200)})
    (folder / "baskets").mkdir()
    pq.write_table(baskets, folder / "baskets" / "a.parquet")
    ledger = f"sqlite:///{folder / 'ledger.db'}"
    table = {"shape": "table", "unit": "id", "schema": "schema.yaml"}
    shop = {"shape": "baskets", "unit": "user", "item": "item", "items": 30}
    marginals = {"marginals": {"order": 2}}
    conjunctions = {"conjunctions": {"count": 40, "order": 2}}
    for name, dataset, workload, mechanism in (
        ("table", table, marginals, "gaussian_pgm"),
        ("baskets", shop, conjunctions, "gaussian"),
    ):
        SqlLedger(ledger).create_dataset(name, 5.0, 1e-6)
        config = {
            "dataset": {"name": name, "snapshot": "first", "path": name, **dataset},
            "privacy": {"epsilon": 5.0, "delta": 1e-6, "ledger": ledger},
            "workload": workload,
            "mechanism": {"name": mechanism},
            "output": {"path": f"out/{name}"},
        }
        release(job_of(parse_config(config), folder))
        write_report(folder / "out" / name, folder / f"{name}.html")
    return folder


def text_of(folder: Path, name: str) -> str:
    return (folder / f"{name}.html").read_text(encoding="utf-8")


def test_the_report_says_what_the_certificate_says(folder: Path) -> None:
    certificate = json.loads((folder / "out/table/certificate.json").read_text())
    text = text_of(folder, "table")
    assert certificate["release_id"] in text
    assert "factor of at most 148, except with a probability of at most about 1e-06" in text
    assert all(limit.split(".")[0][:40].replace("'", "&#39;") in text for limit in certificate["limits"])
    assert f"of {certificate['synthetic_rows']:,} rows that were drawn" in text


def test_the_policy_admits_the_scripts_of_the_page_alone(folder: Path) -> None:
    text = text_of(folder, "table")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert html.unescape(policy[1]).count("'sha256-") == 3
    assert "script-src 'sha256-" in html.unescape(policy[1])
    assert not re.search(r"\b(src|href)=[\"'](https?:)?//", text)
    assert HOSTILE not in text


def test_a_report_is_written_beside_the_release_not_into_it(folder: Path) -> None:
    with pytest.raises(ConfigError, match="lies in the release"):
        write_report(folder / "out/table", folder / "out/table/report.html")
    with pytest.raises(ConfigError, match="is not a complete release"):
        write_report(folder / "table", folder / "x.html")


def test_figures_hold_what_was_published(folder: Path) -> None:
    found = re.search(r'id="figures">(.*?)</script>', text_of(folder, "baskets"), re.DOTALL)
    assert found is not None
    searched = json.loads(found[1])["searched"]
    answers = pq.read_table(folder / "out/baskets/answers.parquet").to_pydict()
    wanted = sorted((round(answer, 1) for answer in answers["answer"]), reverse=True)
    assert [row["answer"] for row in searched] == wanted[:MOST_SEARCHED]
    assert {row["query"] for row in searched} == set(answers["query"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as browser:
        yield browser


def opened(browser: Any, path: Path, width: int) -> tuple[Any, list[str]]:
    """A page, and what it has requested or complained about."""
    page, events = browser.new_page(viewport={"width": width, "height": 900}), []
    page.on("console", lambda message: events.append(message.text))
    page.on("pageerror", lambda error: events.append(str(error)))
    page.on("request", lambda request: events.append(request.url) if request.url != path.as_uri() else None)
    page.on("dialog", lambda dialog: events.append(dialog.message))
    page.goto(path.as_uri())
    return page, events


@pytest.mark.full
@pytest.mark.parametrize("name", ["table", "baskets"])
@pytest.mark.parametrize("width", [1280, 360])
def test_a_browser_fetches_nothing_and_finds_everything_accessible(
    folder: Path, browser: Any, name: str, width: int
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page, events = opened(browser, folder / f"{name}.html", width)
    for summary in page.query_selector_all("summary"):
        summary.click()
    violations = Axe().run(page).response["violations"]
    assert [found["id"] for found in violations if found["impact"] in ("serious", "critical")] == []
    assert events == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.query_selector("img") is None
    page.emulate_media(media="print")
    assert not page.is_visible("nav")
    page.close()


@pytest.mark.full
def test_search_and_pairs_work_by_keyboard(folder: Path, browser: Any) -> None:
    page, events = opened(browser, folder / "table.html", 1280)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.focus("#words")
    page.keyboard.type("sex=female")
    rows = page.query_selector_all("#found tbody tr")
    assert rows
    assert all("sex=female" in row.inner_text() for row in rows)
    page.select_option("#first", "income")
    page.select_option("#second", "sex")
    assert page.inner_text("#pair-title") == "income by sex"
    assert len(page.query_selector_all("#pair-table tbody tr")) == 7
    assert len(page.query_selector_all("#pair-chart svg[role=img]")) >= 1
    assert page.inner_text("figure.single figcaption") == HOSTILE
    assert events == []
    page.close()
