"""marquee report on a release of 500,000 conjunctions of baskets, opened in headless Chromium."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from jobs.ledger import SqlLedger
from jobs.planning.job import load_job
from jobs.release.run import release
from jobs.report import write_report
from pipelines.generate.baskets import write_baskets
from tests.benchmarks.case import Case, Inputs, Judgement, Run, Target, mean_cpu_seconds
from tests.support.browser import open_browser

ANSWERS: Final = 500_000
_CONFIG: Final = "release.yaml"


@dataclass(frozen=True)
class State:
    """The folder of a release, and the report to write."""

    folder: Path
    report: Path


def inputs(cache: Path) -> Inputs:
    """Makes the release once."""
    folder = cache / "report_500k"
    if not (folder / "out" / "_SUCCESS").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_baskets(folder / "shop", users=20_000, films=2_000, pairs=600_000, files=2, seed=1, threads=2)
        ledger = f"sqlite:///{folder / 'ledger.db'}"
        dataset = {"name": "shop", "snapshot": "1", "path": "shop", "shape": "baskets", "unit": "user_id"}
        config = {
            "dataset": {**dataset, "item": "movie_id", "items": 2_000},
            "privacy": {"epsilon": 1.0, "delta": 1e-6, "ledger": ledger},
            "workload": {"conjunctions": {"count": ANSWERS, "order": 3, "weights": "noisy_popularity"}},
            "mechanism": {"name": "clipped_gaussian"},
            "output": {"path": "out"},
        }
        (folder / _CONFIG).write_text(yaml.safe_dump(config))
        SqlLedger(ledger).create_dataset("shop", 1.0, 1e-6)
        release(load_job(folder / _CONFIG))
    return {"release": folder}


def prepare(paths: Inputs, seed: int) -> State:
    return State(paths["release"] / "out", Path(tempfile.mkdtemp()) / "report.html")


def work(state: State) -> Path:
    return write_report(state.folder, state.report)


def judge(state: State, report: Path) -> Judgement:
    """Requests beyond the file and messages of the console, which should be none; size, and time until it is loaded."""
    events: list[str] = []
    with open_browser() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("request", lambda request: events.append(request.url) if request.url != report.as_uri() else None)
        page.on("console", lambda message: events.append(message.text))
        page.on("pageerror", lambda error: events.append(str(error)))
        page.goto(report.as_uri())
        loaded = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    facts = {"report_mb": report.stat().st_size / 1e6, "loaded_seconds": loaded / 1e3}
    return Judgement({"events": float(len(events))}, facts=facts)


def _worst(name: str, runs: Sequence[Run]) -> float:
    return max(run.facts[name] for run in runs)


CASE = Case(
    {"answers": ANSWERS, "browser": "headless Chromium", "work": "write_report"},
    (1, 2, 3),
    inputs,
    prepare,
    work,
    judge,
    [
        Target("size of the file, MB", "<=", 3.0, lambda runs: _worst("report_mb", runs)),
        Target("seconds until the page is loaded, worst run", "<", 2.0, lambda runs: _worst("loaded_seconds", runs)),
        Target("requests and messages", "==", 0.0, lambda runs: max(run.error["events"] for run in runs)),
        Target("CPU seconds to write it", "<=", 10.0, mean_cpu_seconds),
    ],
    cold=False,
)
