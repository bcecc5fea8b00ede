"""The papers' figures: points of tiny sizes, and tables and plots from what is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.exact_statistics import Contribution, QueryAnswers, Request
from dpcore.mechanisms.additive_noise import Gaussian, Laplace
from dpcore.mechanisms.query_game.dual_query import DualQuery
from dpcore.queries import Marginals, UnitCount
from dpcore.testing.tiny_statistics import TinyTable
from tests.benchmarks import paper_figures
from tests.benchmarks.case import Run
from tests.benchmarks.figures import __main__ as command
from tests.benchmarks.figures import datasets, dual_panels, fem_panels, panel, published, tables
from tests.benchmarks.figures.accounting import epsilon_of_theorem, rounds_of_theorem
from tests.benchmarks.figures.panels import PANELS
from tests.benchmarks.figures.points import BASELINE, MEASURED, PUBLISHED, Point, point_of
from tests.benchmarks.figures.runs import Remembered, Series, Task, defaults, lines

UNITS = 400
DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4, "d": 2})
MADE = [
    Point("dual_query", 0.5, MEASURED, 0.25, 0.0125, 0.375, 1.5, 3, 40),
    Point("dual_query", 1.0, MEASURED, 0.125, 0.00625, 0.25, 2.5, 3, 80),
    Point("FEM, published", 1.0, PUBLISHED, 0.0625),
    Point("zeros", 0.5, BASELINE, 0.5, 0.03125),
]


class Counting:
    """Statistics that know how often they were asked."""

    def __init__(self, statistics: TinyTable) -> None:
        self.statistics = statistics
        self.asked = 0

    @property
    def contribution(self) -> Contribution:
        return self.statistics.contribution

    def aggregate(self, request: Request) -> NDArray[np.int64]:
        self.asked += 1
        return self.statistics.aggregate(request)


def table(units: int = UNITS) -> TinyTable:
    generator = np.random.default_rng(5)
    codes = np.stack([generator.integers(0, size, units) for size in DOMAIN.sizes], axis=1)
    codes[: units // 2, 1:] = 0  # A product of one-way marginals does not fit.
    return TinyTable(DOMAIN, codes)


def data() -> datasets.Dataset:
    return datasets.Dataset(table(), BinaryView.one_hot(DOMAIN), UNITS)


def split(found: Iterator[Point | str]) -> tuple[list[Point], list[str]]:
    everything = list(found)
    return [one for one in everything if isinstance(one, Point)], [one for one in everything if isinstance(one, str)]


def once(x: float) -> int:
    return 1


def made_panel(points: list[Point | str], name: str = "made") -> panel.Panel:
    return panel.Panel(
        name, "Figure 9", "Made up", "Nothing was run.", "epsilon", True, True,
        lambda folder: {}, lambda inputs: iter(points),
    )  # fmt: skip


@pytest.mark.parametrize(("units", "eta", "samples", "rounds"), [
    (30_162, 2.0, 1_000, 16), (494_021, 2.0, 1_000, 99), (480_189, 2.0, 5_000, 57), (500_000, 0.4, 50_000, 80),
])  # fmt: skip
def test_rounds_of_the_papers_accounting(units: int, eta: float, samples: int, rounds: int) -> None:
    assert rounds_of_theorem(1.0, eta, samples, units, 1e-3) == rounds
    assert epsilon_of_theorem(eta, samples, rounds + 1, units, 1e-3) > 1.0


def test_the_papers_setting_of_figure_3_is_not_what_it_says() -> None:
    assert epsilon_of_theorem(1.2, 1_750, 170, 494_021, 1e-3) == pytest.approx(1.859, abs=5e-4)


def test_no_round_is_bought_by_next_to_nothing() -> None:
    assert rounds_of_theorem(1e-9, 2.0, 1_000, 100, 1e-3) == 1


def test_exact_answers_are_asked_once() -> None:
    counting = Counting(table())
    remembered = Remembered(counting)
    queries = Marginals(DOMAIN, (("a", "b"),))
    first = remembered.aggregate(QueryAnswers(queries))
    first[:] = -1  # A caller's own copy.
    again = remembered.aggregate(QueryAnswers(Marginals(DOMAIN, (("a", "b"),))))
    assert again.tolist() == table().aggregate(QueryAnswers(queries)).tolist()
    assert counting.asked == 1
    assert remembered.aggregate(UnitCount()).tolist() == [UNITS]
    assert remembered.aggregate(QueryAnswers(Marginals(DOMAIN, (("a", "c"),)))).shape == (8,)
    assert counting.asked == 3
    assert remembered.contribution == counting.contribution


def test_figure_2_has_every_series_at_every_epsilon_beside_the_baselines() -> None:
    series = [*defaults("dual_query", runs=lambda x: 2), dual_panels.as_in_figure_2(UNITS, 5, "uniform", 1)]
    points, notes = split(dual_panels.versus_epsilon(data(), 60, series, negate=True))
    assert notes == []
    assert {point.series for point in points if point.kind == BASELINE} == {"zeros", "uniform", "product"}
    for name, runs in (("dual_query", 2), ("dual_query (paper)", 1)):
        line = [point for point in points if point.series == name]
        assert tuple(point.x for point in line) == dual_panels.EPSILONS
        assert all(point.runs == runs and 0 < point.mean <= point.max <= point.worst <= 1 for point in line)
    paper = [point.rounds for point in points if point.series == "dual_query (paper)"]
    assert paper == [rounds_of_theorem(x, 2.0, 5, UNITS, 1e-3) for x in dual_panels.EPSILONS]


def test_figure_3_asks_more_and_more_queries() -> None:
    points, _ = split(dual_panels.versus_queries(data(), (20, 60), defaults("dual_query", runs=once)))
    for name in ("zeros", "uniform", "product", "dual_query"):
        assert [point.x for point in points if point.series == name] == [20, 60]


def test_figure_4_asks_wider_and_wider_data() -> None:
    asked: list[int] = []

    def wide(attributes: int) -> datasets.Dataset:
        asked.append(attributes)
        return data()

    points, _ = split(dual_panels.versus_attributes(wide, (50, 500), 30, defaults("dual_query", runs=once)))
    assert asked == [50, 500]
    assert [point.x for point in points if point.series == "dual_query"] == [50, 500]


def test_the_papers_settings_of_figures_3_and_4() -> None:
    assert dual_panels.as_in_figure_3(once).mechanism(40_000) == DualQuery(
        eta=1.2, samples=1_750, rounds=170, profile="published"
    )
    widest = dual_panels.as_in_figure_4(once).mechanism(512_000)
    assert widest == DualQuery(eta=0.4, samples=50_000, rounds=80, free="uniform", profile="published")


def test_fem_figures_of_a_small_table() -> None:
    small = datasets.Table(table(), DOMAIN, UNITS)
    series = defaults("gaussian", runs=once)
    cliques = (("a", "b"), ("b", "c"), ("c", "d"))

    def workload(count: int) -> Marginals:
        return Marginals(DOMAIN, cliques[:count])

    task = fem_panels.task_of(small, workload(2))
    assert task.delta == UNITS**-2
    points, notes = split(fem_panels.versus_epsilon(task, series))
    assert notes == []
    line = [point for point in points if point.series == "gaussian"]
    assert tuple(point.x for point in line) == published.EPSILONS
    assert line[0].max > line[-1].max  # A tenth of the budget is ten times the noise.
    points, _ = split(fem_panels.versus_marginals(small, workload, (1, 3), series))
    assert [point.x for point in points if point.series == "gaussian"] == [1, 3]


def test_errors_are_those_of_the_answers() -> None:
    queries = Marginals(DOMAIN, (("a",), ("b",)))
    task = fem_panels.task_of(datasets.Table(table(), DOMAIN, UNITS), queries)
    precise = Task(task.statistics, task.workload, UNITS, 0.5)
    (point,) = (
        found
        for found in lines([(1.0, precise, 100.0)], [Series("gaussian", lambda x: Gaussian(), once)])
        if isinstance(found, Point) and found.kind == MEASURED
    )
    assert point.max < 2.0 / UNITS
    (zeros,) = (
        found for found in lines([(1.0, precise, 100.0)], []) if isinstance(found, Point) and found.series == "zeros"
    )
    assert zeros.max == pytest.approx(task.exact.max() / UNITS)
    assert zeros.mean == pytest.approx(task.exact.mean() / UNITS)


def test_a_mechanism_without_a_proof_is_noted_once_and_left_out() -> None:
    task = dual_panels.task_of(data(), 20, negate=False)
    series = [Series("laplace", lambda x: Laplace(), once), Series("gaussian", lambda x: Gaussian(), once)]
    points, notes = split(lines([(x, task, x) for x in (0.5, 1.0)], series))
    assert [note.split(" is not run: ")[0] for note in notes] == ["laplace"]
    assert "pure epsilon-DP" in notes[0]
    assert {point.series for point in points if point.kind == MEASURED} == {"gaussian"}


def test_a_series_ends_where_it_has_no_runs() -> None:
    task = dual_panels.task_of(data(), 20, negate=False)
    series = [Series("gaussian", lambda x: Gaussian(), lambda x: int(x < 1))]
    points, _ = split(lines([(x, task, x) for x in (0.5, 1.0)], series))
    assert [point.x for point in points if point.kind == MEASURED] == [0.5]


def test_marginals_begin_alike_and_end_where_there_are_no_more() -> None:
    small = datasets.Table(table(), DOMAIN, UNITS)
    few, all_of_them = (datasets.marginals(small, 2, count).cliques for count in (3, 100))
    assert len(set(all_of_them)) == 6
    assert all_of_them[:3] == few
    narrow = datasets.marginals(datasets.Table(table(), DOMAIN, 6), 2, 100)
    assert sorted(narrow.cliques) == [("a", "b"), ("a", "d"), ("b", "d")]
    points, _ = split(
        fem_panels.versus_marginals(
            small,
            lambda count: datasets.marginals(small, 2, count),
            (3, 100, 200),
            defaults("gaussian", runs=once),
        )
    )
    assert [point.x for point in points if point.kind == MEASURED] == [3, 6]


def test_points_survive_storage() -> None:
    for point in MADE:
        assert point_of(json.loads(json.dumps(point.stored()))) == point
    assert point_of(Point("a", 2.0, MEASURED, 0.123456).stored()).max == 0.1235
    with pytest.raises(ValueError, match="kind"):
        Point("a", 1.0, "guessed", 0.1)


def test_tables_hold_errors_costs_and_notes(tmp_path: Path) -> None:
    panel.compute(made_panel([*MADE, "dqrs is not run: no proof."]), tmp_path, tmp_path)
    text = panel.show(tmp_path, ("absent", "made")).read_text()
    assert "## Figure 9\n" in text
    assert "### Made up\n" in text
    assert "Nothing was run. dqrs is not run: no proof. Commit " in text
    assert "(figures/made.svg)" in text
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    assert rows == [
        ["epsilon", "dual_query", "FEM, published", "zeros"],
        ["---"] * 4,
        ["0.5", "0.25 / 0.013", "", "0.5 / 0.031"],
        ["1", "0.125 / 0.0063", "0.0625", "0.5 / 0.031"],
        ["epsilon: CPU s (rounds; runs)", "dual_query"],
        ["---"] * 2,
        ["0.5", "1.5 (40; 3)"],
        ["1", "2.5 (80; 3)"],
    ]


def test_panels_of_one_figure_stand_under_one_heading(tmp_path: Path) -> None:
    for name in ("one", "two"):
        panel.compute(made_panel(list(MADE), name), tmp_path, tmp_path)
    text = panel.show(tmp_path, ("one", "two")).read_text()
    assert text.count("## Figure 9\n") == 1
    assert text.index("figures/one.svg") < text.index("figures/two.svg")


def test_plots_show_every_series_and_change_only_with_the_points(tmp_path: Path) -> None:
    panel.compute(made_panel(list(MADE)), tmp_path, tmp_path)
    panel.show(tmp_path, ("made",))
    plot = tmp_path / "figures" / "made.svg"
    first = plot.read_bytes()
    said = {"".join(element.itertext()).strip() for element in ET.fromstring(first).iter()}
    assert {"dual_query", "FEM, published", "zeros", "largest error", "mean error", "CPU seconds of a run"} <= said
    panel.show(tmp_path, ("made",))
    assert plot.read_bytes() == first
    assert len(first) < 60_000


def test_stored_panels_name_no_path(tmp_path: Path) -> None:
    path = panel.compute(made_panel(list(MADE)), tmp_path, tmp_path)
    stored = json.loads(path.read_text())
    assert [point_of(point) for point in stored["points"]] == MADE
    assert str(tmp_path) not in path.read_text()


def test_the_command_computes_what_is_asked_and_shows_all(tmp_path: Path) -> None:
    calls: list[str] = []

    def counted(name: str) -> panel.Panel:
        made = made_panel(list(MADE), name)
        return panel.Panel(**{**vars(made), "points": lambda inputs: calls.append(name) or iter(MADE)})

    panels = {name: counted(name) for name in ("first_a", "first_b", "second")}
    places = ["--results", str(tmp_path), "--data", str(tmp_path)]
    assert command.main(["first", *places], panels) == 0
    assert calls == ["first_a", "first_b"]
    assert command.main(places, panels) == 0
    assert calls == ["first_a", "first_b"]
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == [
        "first_a.json", "first_a.svg", "first_b.json", "first_b.svg",
    ]  # fmt: skip
    assert command.main(["third", *places], panels) == 2
    assert calls == ["first_a", "first_b"]


def test_every_panel_of_the_papers_is_there() -> None:
    assert [name for name in PANELS if name.startswith("dual_")] == [
        "dual_2_adult", "dual_2_kdd99", "dual_2_netflix", "dual_3_kdd99", "dual_4_wide",
    ]  # fmt: skip
    assert {name for name in PANELS if name.startswith("fem_")} == {
        f"fem_{number}_{name}_{order}" for number in (1, 2) for name in ("adult", "loans") for order in (3, 5)
    }
    assert all(panel.name == name for name, panel in PANELS.items())


def test_published_errors_are_those_of_the_note() -> None:
    assert [point.max for point in published.fem_versus_epsilon("adult-3")] == [
        0.172,
        0.133,
        0.113,
        0.106,
        0.078,
        0.076,
    ]
    assert [point.x for point in published.fem_versus_epsilon("loans-3")] == [0.1, 0.15, 0.2, 0.25, 0.5, 1.0]
    assert published.fem_versus_epsilon("loans-5") == []


def test_ratios_compare_where_both_are_known() -> None:
    panels: dict[str, Any] = {"dual_2_x": MADE, "fem_1_x": MADE}
    assert paper_figures.largest_ratio(panels, "dual_2_", "dual_query", "FEM, published") == 2.0
    two = [*MADE, Point("other", 0.5, MEASURED, 0.5), Point("other", 1.0, MEASURED, 1.0)]
    assert paper_figures.largest_ratio({"dual_2_x": two}, "dual_2_", "dual_query", "other") == 0.5
    with pytest.raises(ValueError, match="empty"):
        paper_figures.largest_ratio(panels, "dual_3_", "dual_query", "zeros")


def test_the_case_is_judged_by_its_panels() -> None:
    ours = [Point("dual_query", x, MEASURED, 0.01 * x, 0.001, 0.02, 1.0, 2, 9) for x in (0.5, 1.0)]
    paper = [Point("dual_query (paper)", x, MEASURED, 0.1, 0.01, 0.1, 1.0, 2, 9) for x in (0.5, 1.0)]
    kdd99 = [*ours, *paper, Point("product", 0.5, BASELINE, 0.04, 0.002), Point("zeros", 0.5, BASELINE, 0.5, 0.05)]
    fem = [Point("fem", 0.1, MEASURED, 0.086, 0.01), *published.fem_versus_epsilon("adult-3")]
    panels = {name: kdd99 if name.startswith("dual_") else fem for name in PANELS}
    judgement = paper_figures.judge(None, panels)
    assert judgement.error == {"max": 0.01, "mean": 0.001}
    assert judgement.baselines == {"product": {"max": 0.04, "mean": 0.002}, "zeros": {"max": 0.5, "mean": 0.05}}
    assert judgement.facts == pytest.approx({
        "panels": 13, "points": 5 * len(kdd99) + 8 * len(fem), "dual_query_over_paper": 0.1,
        "dual_query_over_product": 0.25, "fem_over_published": 0.5,
    })  # fmt: skip
    run = Run(1, 2000.0, 2000.0, 2000.0, 1.0, judgement.error, judgement.baselines, judgement.facts)
    assert all(target.met(target.got([run])) for target in paper_figures.CASE.targets)


def test_the_page_stands_on_what_is_stored_alone() -> None:
    empty = tables.page([])
    assert empty.startswith("# Figures of the papers")
    assert "##" not in empty[1:]
