"""The grid of mechanisms: what is stored, what is not computed again, and what the page says."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.evaluation import exact_answers
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import all_k_way
from tests.benchmarks.figures.runs import Remembered
from tests.benchmarks.graphical import grid
from tests.benchmarks.graphical.cells import Cell, Outcome, Store, read
from tests.benchmarks.graphical.grid_report import (
    best_of_table,
    is_best,
    recommended_is_best,
    recommended_ties,
    winners,
    write_report,
)
from tests.benchmarks.graphical.limits import CutError, limited

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4, "d": 2})
UNITS = 300


def outcome(seed: int, mean: float, seconds: float = 1.0) -> Outcome:
    return Outcome(seed, mean, seconds, "abc", rows=mean + 0.5)


def cell(
    mechanism: str, *means: float, dataset: str = "adult", epsilon: float = 1.0, recommended: bool = False
) -> Cell:
    runs = tuple(outcome(seed, mean) for seed, mean in enumerate(means))
    return Cell(dataset, "ALL-3WAY", epsilon, mechanism, runs, "" if runs else "no proof", recommended)


def _spin() -> None:
    while True:
        pass


CELLS = [
    cell("aim", 0.1, 0.2, recommended=True),
    cell("mst", 0.3, 0.3),
    cell("laplace"),
    cell("aim", 0.5, epsilon=0.1, recommended=True),
    cell("mst", 0.25, epsilon=0.1),
    cell("aim", 0.4, dataset="nltcs"),
]


def task() -> grid.Task:
    codes = np.random.default_rng(1).integers(0, DOMAIN.sizes, size=(UNITS, 4))
    statistics, workload = Remembered(TinyTable(DOMAIN, codes)), all_k_way(DOMAIN, 3)
    return grid.Task("tiny", "ALL-3WAY", statistics, workload, exact_answers(statistics, workload.queries), UNITS)


def test_the_store_gives_back_what_it_holds(tmp_path: Path) -> None:
    store = Store.opened(tmp_path / "deep" / "adult.json", {"dataset": "adult"})
    for one in CELLS[:3]:
        store.put(one)
    assert sorted(read([store.path]), key=lambda one: one.mechanism) == [CELLS[0], CELLS[2], CELLS[1]]
    again = Store.opened(store.path, {"dataset": "adult"})
    assert again.get("ALL-3WAY", 1.0, "aim") == CELLS[0]
    assert again.get("ALL-3WAY", 0.1, "aim") is None
    text = store.path.read_text()
    again.put(CELLS[0])
    assert store.path.read_text() == text


def test_one_mechanism_is_recommended_the_last_that_was_stored(tmp_path: Path) -> None:
    store = Store.opened(tmp_path / "t.json", {"dataset": "t"})
    cells = [
        Cell("t", "ALL-3WAY", epsilon, name, recommended=True)
        for epsilon, name in ((1.0, "aim"), (0.1, "aim"), (1.0, "mst"))
    ]
    for cell in [*cells, Cell("t", "ALL-3WAY", 1.0, "hdmm")]:
        store.put(cell)
    found = {(cell.epsilon, cell.mechanism): cell.recommended for cell in read([store.path])}
    assert found == {(1.0, "aim"): False, (0.1, "aim"): True, (1.0, "mst"): True, (1.0, "hdmm"): False}


def test_only_runs_that_are_missing_are_made(tmp_path: Path) -> None:
    store = Store.opened(tmp_path / "tiny.json", {})
    first = grid.compute(task(), store, 1.0, "gaussian", (1,), 100)
    both = grid.compute(task(), store, 1.0, "gaussian", (1, 2), 100)
    assert both.runs[0] == first.runs[0]
    assert [run.seed for run in both.runs] == [1, 2]
    assert both.runs[0].mean != both.runs[1].mean
    assert grid.compute(task(), store, 1.0, "gaussian", (1,), 100, again=True).runs[0] != first.runs[0]


def test_more_budget_gives_less_error_and_rows_come_from_models_alone(tmp_path: Path) -> None:
    store = Store.opened(tmp_path / "tiny.json", {})
    small, large = (grid.compute(task(), store, epsilon, "independent", (1,), 100) for epsilon in (0.01, 100.0))
    assert large.error < small.error
    assert large.runs[0].rows is not None
    assert grid.compute(task(), store, 1.0, "gaussian", (1,), 100).runs[0].rows is None


def test_a_refusal_is_kept_and_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.opened(tmp_path / "tiny.json", {})
    found = grid.compute(task(), store, 1.0, "laplace", (1, 2), 100)
    assert found.runs == ()
    assert "laplace" in found.refused
    monkeypatch.setattr(grid, "_outcome", lambda *arguments: pytest.fail("asked again"))
    assert grid.compute(task(), store, 1.0, "laplace", (1, 2), 100) == found


def test_a_release_that_takes_too_long_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*arguments: object) -> Outcome:
        while True:
            try:
                sum(range(1000))
            except Exception:  # noqa: BLE001  # What an engine does with failures.
                continue

    monkeypatch.setattr(grid, "_outcome", endless)
    store = Store.opened(tmp_path / "tiny.json", {})
    found = grid.compute(task(), store, 1.0, "gaussian", (1, 2), 0.05)
    assert (found.refused, found.runs) == ("over 0.05 CPU seconds", ())
    monkeypatch.setattr(grid, "_outcome", lambda *arguments: pytest.fail("tried at another epsilon"))
    assert grid.compute(task(), store, 10.0, "gaussian", (1,), 100).refused == found.refused
    monkeypatch.setattr(grid, "_outcome", lambda *arguments: outcome(1, 0.5))
    assert grid.compute(task(), store, 10.0, "gaussian", (1,), 100, again=True).runs == (outcome(1, 0.5),)


def test_the_limit_ends_with_its_block() -> None:
    with pytest.raises(CutError), limited(0.02):
        _spin()
    with limited(0.02):
        pass
    sum(range(3_000_000))


def test_the_best_of_each_cell_is_found_where_two_were_run() -> None:
    best = winners(CELLS)
    assert {key: one.mechanism for key, one in best.items()} == {
        ("adult", "ALL-3WAY", 1.0): "aim",
        ("adult", "ALL-3WAY", 0.1): "mst",
    }
    assert recommended_is_best(CELLS) == 0.5
    assert is_best("aim", ("adult",), CELLS) == 0.5
    assert is_best("aim", ("nltcs",), CELLS) == 0.0
    assert recommended_is_best([]) == 0.0


def test_the_best_of_a_table_has_the_least_geometric_mean_of_errors() -> None:
    def table(**errors: tuple[float, ...]) -> list[Cell]:
        pairs = [(name, list(zip((0.1, 1.0, 10.0), means, strict=False))) for name, means in errors.items()]
        return [cell(name, mean, epsilon=epsilon) for name, row in pairs for epsilon, mean in row]

    assert best_of_table("adult", table(aim=(0.8, 0.1, 0.4), mst=(0.4, 0.3, 0.5))) == "aim"
    assert best_of_table("adult", table(aim=(0.8, 0.2, 0.4), mst=(0.4, 0.3, 0.5))) == "mst"
    cut = table(aim=(0.8, 0.2, 0.4), mst=(0.1, 0.1), mwem=(0.9, 0.9, 0.9))
    assert best_of_table("adult", cut) == "aim", "mst was not run everywhere"
    assert best_of_table("nltcs", CELLS) == ""


def test_a_recommended_mechanism_that_is_as_good_but_for_chance_is_counted_apart() -> None:
    def compared(*means: float) -> list[Cell]:
        return [cell("aim", *means, recommended=True), cell("mst", 0.2, 0.4)]  # Standard error .1.

    assert recommended_ties(compared(0.4, 0.6)) == 1.0  # .2 above, for a standard error of .1 * sqrt(2).
    assert recommended_ties(compared(0.5, 0.7)) == 0.0
    assert recommended_ties(compared(0.1, 0.1)) == 1.0
    assert recommended_ties([cell("aim", 0.31, recommended=True), cell("mst", 0.3)]) == 0.0  # One run tells no spread.
    assert recommended_ties(CELLS) == 0.5
    assert recommended_ties([]) == 0.0


def test_the_page_says_which_is_best_and_the_plot_is_xml(tmp_path: Path) -> None:
    folder = tmp_path / "graphical"
    for name in ("adult", "nltcs"):
        store = Store.opened(folder / f"{name}.json", {"dataset": name})
        for one in CELLS:
            if one.dataset == name:
                store.put(one)
    page = write_report(folder, tmp_path / "GRID.md").read_text()
    assert re.search(r"The least geometric mean of errors over all cells: adult (aim|mst) \(the best in 1 of 2\)", page)
    assert (
        "2 compared cells. The recommended mechanism is the best in 50%, and within two standard errors of the best in "
        "50%; the best are: aim 1, mst 1."
    ) in page
    assert "| aim | plan: 0.5 (1) | plan: **0.15** (0.1 to 0.2; 2) | 1 / 1 |" in page
    assert "| aim | 0.4 (1) | 1 |" in page
    assert "Not run: laplace (no proof)." in page
    text = (folder / "all-3way.svg").read_text()
    assert ET.fromstring(text).tag.endswith("svg")
    assert ">mst<" in text
    assert ">laplace<" not in text
    write_report(folder, tmp_path / "GRID.md")
    assert (folder / "all-3way.svg").read_text() == text


def test_equal_errors_whose_mean_is_rounded_below_them_are_drawn(tmp_path: Path) -> None:
    equal = cell("independent", *[3.355] * 5)
    assert equal.error < 3.355
    store = Store.opened(tmp_path / "graphical" / "adult.json", {"dataset": "adult"})
    store.put(equal)
    write_report(store.path.parent, tmp_path / "GRID.md")
    assert ">independent<" in (store.path.parent / "all-3way.svg").read_text()


def test_the_command_without_a_dataset_only_writes(tmp_path: Path) -> None:
    store = Store.opened(tmp_path / "graphical" / "adult.json", {"dataset": "adult"})
    store.put(dataclasses.replace(CELLS[0], recommended=False))
    before = store.path.read_text()
    assert grid.main([], folder=tmp_path / "graphical", data=tmp_path / "none") == 0
    assert store.path.read_text() == before
    assert (tmp_path / "GRID.md").exists()
