"""The study of recommendations: what is computed and stored, what counts as best, and the rule that is learnt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from jobs.version import VERSION
from tests.benchmarks.study import __main__ as command
from tests.benchmarks.study import run, worker
from tests.benchmarks.study.comparison import Comparison, comparisons, mean_ratio, share
from tests.benchmarks.study.configurations import configuration
from tests.benchmarks.study.facts import FEATURES, facts_of
from tests.benchmarks.study.report import write_report
from tests.benchmarks.study.rule import LEAST_SETTINGS, Leaf, Split, _best_limit, choice, learnt, left_out, loss
from tests.benchmarks.study.store import Cell, Store
from tests.benchmarks.study.worker import CANDIDATES, EndedError, Task, Worker

SMALL = configuration("independent", 22)  # 5 marginals of 5 attributes, 3,000 rows, epsilon 20.


@dataclass
class Scripted:
    """Stands in for the child: answers by candidate and seed."""

    answers: Callable[[Task], Any]
    seconds: float = 60.0
    spent: float = 0.0
    asked: list[Task] = field(default_factory=list)

    def ask(self, task: Task, seconds: float | None = None) -> Any:
        self.asked.append(task)
        self.spent += 1
        if not task.candidate:
            return facts_of(configuration(task.family, task.number))
        return self.answers(task)

    def stop(self) -> None: ...


def scripted(**errors: float) -> Scripted:
    """Errors by candidate, a little higher with each seed; others are ten times the largest. No release is cheap."""
    return Scripted(lambda task: (errors.get(task.candidate, 10 * max(errors.values())) + task.seed / 1e6, 2.0))


def studied(store: Store, child: Scripted, again: set[str] | None = None, minutes: float = 1.0) -> None:
    run.study([SMALL], store, child, minutes, again or set())  # type: ignore[arg-type]


def comparison(
    key: str, facts: dict[str, float | str] | None = None, **errors: float | tuple[float, ...]
) -> Comparison:
    cells = {
        name: Cell(key, name, value if isinstance(value, tuple) else (value,), (1.0,)) for name, value in errors.items()
    }
    about: dict[str, float | str] = dict.fromkeys((*FEATURES, "rows"), 1.0)
    about |= {"key": key, "family": key.split("-")[0], "kind": "pairs", "recommended": "aim", "with_rows": "aim"}
    return Comparison(about | (facts or {}), cells)


def test_facts_are_public_numbers_of_the_workload() -> None:
    facts = facts_of(SMALL)
    sizes = SMALL.workload.queries.sizes  # type: ignore[union-attr]
    assert (facts["marginals"], facts["answers"]) == (len(sizes), sum(sizes))
    assert facts["closure"] == 20
    assert facts["recommended"] == "adaptive_residuals"
    single, plain, noise = (float(facts[name]) for name in ("single_noise", "plain_noise", "noise"))
    assert plain == pytest.approx(single * np.sqrt(5), rel=1e-3)
    assert single < noise < plain
    assert float(facts["signal"]) * single == pytest.approx(float(facts["mean_cells"]), rel=1e-3)


def test_the_store_keeps_the_last_line_of_a_cell(tmp_path: Path) -> None:
    store = Store.opened(tmp_path / "study")
    store.put_facts(facts_of(SMALL))
    store.put([Cell("k", "aim", cut=5.0), Cell("k", "mst", refused="too large")])
    better = Cell("k", "aim").with_run(0.123456, 1.0).with_run(0.2, 2.0)
    store.put([better])
    for opened in (Store.opened(store.folder), store):
        assert opened.cells["k"] == {"aim": better, "mst": Cell("k", "mst", refused="too large")}
        assert opened.facts == {SMALL.key: facts_of(SMALL)}
    lines = len(store.cells_file.read_text().splitlines())
    store.compact()
    assert lines - len(store.cells_file.read_text().splitlines()) == 1
    assert Store.opened(store.folder).cells == store.cells
    assert (better.errors, better.error) == ((0.1235, 0.2), pytest.approx(0.16175))
    assert better.standard_error == pytest.approx(0.0765 / 2)
    assert Cell("k", "aim", (0.1,), (1.0,), cut=5.0).error == float("inf")


def test_what_may_be_the_best_runs_again_and_what_cannot_does_not(tmp_path: Path) -> None:
    store, child = Store.opened(tmp_path), scripted(hdmm=0.1, aim=0.101, clique_tree=0.15, mst=0.2)
    studied(store, child)
    runs = {name: len(cell.errors) for name, cell in store.cells[SMALL.key].items()}
    assert set(runs) == set(CANDIDATES)
    assert {name for name, count in runs.items() if count == run.RUNS} == {"hdmm", "aim", "adaptive_residuals"}
    assert (runs["clique_tree"], runs["mst"]) == (2, 1)  # The second release shows that 0.15 is no chance.
    again = scripted(hdmm=0.2)
    studied(store, again)
    assert again.asked == []


def test_a_cell_keeps_the_version_of_its_first_release_until_it_is_computed_again(tmp_path: Path) -> None:
    store = Store.opened(tmp_path)
    studied(store, scripted(hdmm=0.1, aim=0.101))
    assert {cell.version for cell in store.cells[SMALL.key].values()} == {VERSION}
    earlier = {name: replace(cell, version="0.9.0") for name, cell in store.cells[SMALL.key].items()}
    store.put(list(earlier.values()))
    studied(store, scripted(hdmm=0.1, aim=0.101), again={"aim"})
    versions = {name: cell.version for name, cell in store.cells[SMALL.key].items()}
    assert versions == dict.fromkeys(earlier, "0.9.0") | {"aim": VERSION}


def test_cheap_releases_are_repeated_more_often(tmp_path: Path) -> None:
    store, child = Store.opened(tmp_path), Scripted(lambda task: (0.1, 0.01))
    studied(store, child)
    assert {len(cell.errors) for cell in store.cells[SMALL.key].values()} == {run.MORE_RUNS}


@pytest.mark.parametrize(
    ("error", "repeated"), [(0.100, True), (0.105, True), (0.14, True), (0.2, False), (0.08, True), (0.05, False)]
)
def test_where_chance_may_decide_the_recommended_and_the_best_run_again(
    tmp_path: Path, error: float, repeated: bool
) -> None:
    """On either side of 3 %, or where it seems worse, until the releases cost too much or are too many."""
    errors = {"hdmm": 0.1, "adaptive_residuals": error}
    store = Store.opened(tmp_path)
    child = Scripted(lambda task: (errors.get(task.candidate, 0.5) * (1 + 0.2 * (-1) ** task.seed), 2.0))
    studied(store, child, minutes=10.0)
    runs = {name: len(cell.errors) for name, cell in store.cells[SMALL.key].items()}
    assert (runs["adaptive_residuals"] > run.RUNS) == repeated
    assert runs["adaptive_residuals"] <= run.DECIDING_RUNS
    assert runs["mst"] < run.RUNS
    child.asked.clear()
    studied(store, child, minutes=10.0)
    assert child.asked == []  # It is decided now, or too expensive.


def test_a_rival_with_all_its_releases_does_not_keep_the_recommended_from_more() -> None:
    """As after a change of the recommended mechanism, whose releases are then made again."""

    def deciding(best: int, recommended: int) -> list[str]:
        one = comparison(
            "t-1", {"recommended": "ours", "with_rows": "ours"}, best=(0.1,) * best, ours=(0.11,) * recommended
        )
        return run.to_repeat(one.facts, one.cells)

    assert deciding(run.DECIDING_RUNS, run.RUNS) == ["ours"]
    assert deciding(run.RUNS, run.DECIDING_RUNS) == ["best"]
    assert deciding(run.RUNS, run.RUNS) == ["ours", "best"]
    assert deciding(run.DECIDING_RUNS, run.DECIDING_RUNS) == []


def test_cut_and_refused_cells_are_stored_and_cut_ones_tried_again_with_more_time(tmp_path: Path) -> None:
    def answer(task: Task) -> Any:
        if task.candidate == "aim":
            raise EndedError
        return "ConfigError: no" if task.candidate == "mst" else (0.1, 1.0)

    store, child = Store.opened(tmp_path), Scripted(answer)
    studied(store, child)
    assert store.cells[SMALL.key]["aim"] == Cell(SMALL.key, "aim", cut=60.0, version=VERSION)
    assert store.cells[SMALL.key]["mst"].refused == "ConfigError: no"
    assert run.missing(SMALL, store, 60.0, set()) == []
    assert run.missing(SMALL, store, 120.0, set()) == ["aim"]
    assert run.missing(SMALL, store, 60.0, {"hdmm"}) == ["hdmm"]


def test_what_is_recommended_is_asked_again_and_gets_the_releases_of_a_recommended_mechanism(tmp_path: Path) -> None:
    store = Store.opened(tmp_path)
    studied(store, scripted(hdmm=0.1, mst=0.2))
    assert len(store.cells[SMALL.key]["mst"].errors) == 1
    store.put_facts({**store.facts[SMALL.key], "recommended": "mst"})
    child = scripted(hdmm=0.1, mst=0.2)
    studied(store, child)
    assert [task.candidate for task in child.asked] == ["mst"] * (run.RUNS - 1)
    run.refresh([SMALL, configuration("tree", 0)], store)
    assert store.facts == {SMALL.key: facts_of(SMALL)}
    stored = store.facts_file.read_text()
    run.refresh([SMALL], store)
    assert store.facts_file.read_text() == stored


def test_the_study_ends_with_its_minutes(tmp_path: Path) -> None:
    child = scripted(hdmm=1.0)
    child.spent = 60.0
    studied(Store.opened(tmp_path), child)
    assert child.asked == []
    studied(Store.opened(tmp_path), child, minutes=2.0)
    assert child.asked


def test_a_child_that_takes_too_much_is_ended_and_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_POLL", 0.01)
    child, task = Worker(seconds=-1.0), Task(SMALL.family, SMALL.number, "hdmm", 1)
    with pytest.raises(EndedError):
        child.ask(task)
    error, seconds = child.ask(task, 100.0)
    assert 0.001 < error < 0.01
    assert seconds > 0
    refused = child.ask(Task("chain", 16, "gaussian_pgm"), 100.0)
    assert refused.startswith("DomainTooLargeError: the model of mechanism gaussian_pgm")
    child.stop()


def test_within_three_percent_or_two_standard_errors_is_as_good() -> None:
    one = comparison("t-1", best=0.1, near=0.1029, far=0.1031, noisy=(0.1, 0.14), cut=0.1)
    cells = dict(one.cells) | {"cut": Cell("t-1", "cut", cut=60.0), "no": Cell("t-1", "no", refused="no")}
    one = Comparison(one.facts, cells)
    assert one.best.mechanism == "best"
    good = {name for name in one.cells if one.is_best(name)}
    assert good == {"best", "near", "noisy"}
    assert (one.ratio("far"), one.ratio("cut"), one.ratio("absent")) == (pytest.approx(1.031), np.inf, np.inf)
    assert (one.accepts("cut"), one.accepts("no"), one.accepts("absent")) == (True, False, False)


def test_shares_and_ratios_of_a_choice() -> None:
    settings = [comparison("a-1", aim=1.0, mst=2.0), comparison("a-2", aim=4.0, mst=1.0)]
    always = {"a-1": "aim", "a-2": "aim"}
    assert share(settings, always) == 0.5
    assert mean_ratio(settings, always) == pytest.approx(2.0)
    assert (share([], {}), mean_ratio([], {})) == (0.0, 1.0)
    assert mean_ratio(settings, {"a-1": "none", "a-2": "mst"}) == pytest.approx(np.sqrt(10))


def noisy_families() -> list[Comparison]:
    """``mst`` is the best above a noise of 1, ``hdmm`` below."""
    return [
        comparison(f"{family}-{index}", {"noise": noise}, mst=1.0, hdmm=noise)
        for family in "abc"
        for index, noise in enumerate(np.geomspace(0.1, 10, 2 * LEAST_SETTINGS))
    ]


def test_a_rule_is_learnt_and_holds_in_families_that_it_has_not_seen() -> None:
    settings = noisy_families()
    rule = learnt(settings, ["noise", "epsilon"], ["mst", "hdmm"])
    assert isinstance(rule, Split)
    assert rule.fact == "noise"
    assert 0.7 < rule.limit < 1.3
    assert [rule.choose({"noise": noise})[0] for noise in (0.5, 2.0)] == ["hdmm", "mst"]
    assert [line.split(" (")[0].strip() for line in rule.lines()][1::2] == ["hdmm", "mst"]
    chosen = left_out(settings, ["noise"], ["mst", "hdmm"])
    assert share(settings, chosen) == 1.0
    assert left_out(settings[:3], ["noise"], ["mst", "hdmm"]) == {}


def test_without_a_gain_nothing_is_split_and_refused_mechanisms_are_passed_over() -> None:
    settings = [comparison(f"a-{index}", {"noise": float(index)}, mst=1.0, hdmm=2.0) for index in range(20)]
    rule = learnt(settings, ["noise"], ["hdmm", "mst"])
    assert rule == Leaf(("mst", "hdmm"), 20)
    refusing = Comparison(settings[0].facts, {**settings[0].cells, "mst": Cell("a-0", "mst", refused="no")})
    assert (choice(rule, settings[0]), choice(rule, refusing)) == ("mst", "hdmm")


def test_the_best_limit_is_that_of_trying_all() -> None:
    generator = np.random.default_rng(0)
    values, losses = generator.integers(1, 9, 40).astype(float), generator.random((40, 3))
    tried = []
    for limit in range(1, 9):
        low = values <= limit
        if min(low.sum(), (~low).sum()) >= LEAST_SETTINGS:
            tried.append((losses[low].sum(axis=0).min() + losses[~low].sum(axis=0).min(), limit))
    total, limit = _best_limit(values, losses)
    assert total == pytest.approx(min(tried)[0])
    assert min(tried)[1] <= limit < min(tried)[1] + 1
    assert _best_limit(np.ones(40), losses)[0] == float("inf")


def test_a_loss_grows_with_the_error_and_is_bounded() -> None:
    one = comparison("a-1", aim=1.0, near=1.02, far=1.5, worse=100.0)
    losses = [loss(one, name) for name in ("aim", "near", "far", "worse", "absent")]
    assert losses == pytest.approx([0.0, 0.0, 0.5 + np.log(1.5), 1.5, 1.5])


def test_the_page_says_where_the_recommended_is_not_the_best(tmp_path: Path) -> None:
    store = Store.opened(tmp_path / "study")
    for index, (family, aim) in enumerate([("tree", 1.0), ("tree", 3.0), ("chain", 1.01)]):
        key = f"{family}-{index:02d}"
        store.put_facts(comparison(key).facts)
        store.put([Cell(key, "aim", (aim,), (9.0,)), Cell(key, "mst", (1.0,), (0.1,)), Cell(key, "hdmm", cut=60.0)])
    page = write_report(store, tmp_path / "STUDY.md").read_text()
    assert "3 settings. What `plan` recommends is the best, or as good, in 67%." in page
    assert "The best are: mst 2, aim 1. Releases that did not end in time: hdmm 3." in page
    assert "| tree | 2 | 50% (1.732) |" in page
    assert "| tree-01 | aim | mst | 3.00 | pairs |" in page
    assert "not the best (1 settings)" in page
    assert ET.fromstring((store.folder / "recommended.svg").read_text()).tag.endswith("svg")
    assert comparisons(Store(tmp_path / "none")) == []


def test_the_command_computes_a_setting_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With three real mechanisms in a child; a second call computes nothing."""
    some = {name: CANDIDATES[name] for name in ("gaussian", "independent", "hdmm")}
    monkeypatch.setattr(run, "CANDIDATES", some)
    monkeypatch.setattr(run, "recommended_of", lambda facts: {"gaussian"})
    asked = ["--minutes", "1", "--settings", "1", "--family", "independent"]
    assert command.main(asked, tmp_path / "study") == 0
    store = Store.opened(tmp_path / "study")
    errors = {name: cell.error for name, cell in store.cells[SMALL.key].items()}
    assert errors["hdmm"] < errors["gaussian"] < errors["independent"] < 0.1
    before = store.cells_file.read_text()
    assert command.main(asked, tmp_path / "study") == 0
    assert store.cells_file.read_text() == before
    page = tmp_path / "STUDY.md"
    assert SMALL.key in page.read_text()
    page.unlink()
    assert command.main([], tmp_path / "study") == 0
    assert SMALL.key in page.read_text()


def test_the_command_computes_only_the_named_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []
    monkeypatch.setattr(command, "study", lambda settings, *rest: computed.extend(one.key for one in settings))
    command.main(["--minutes", "1", "--only", "tree-01", "chain-02"], tmp_path / "study")
    assert computed == ["tree-01", "chain-02"]
    with pytest.raises(SystemExit, match="--only tree-99: no such setting; want family and number, such as tree-"):
        command.main(["--minutes", "1", "--family", "tree", "--only", "tree-01", "tree-99"], tmp_path / "study")


def test_the_page_says_with_which_versions_the_recommended_cells_were_made(tmp_path: Path) -> None:
    store = Store.opened(tmp_path / "study")
    for number, version in enumerate(["", "0.9.0", "0.10.0", "0.10.0"]):
        facts = dict(comparison(f"a-{number}").facts)
        store.put_facts(facts)
        store.put([Cell(f"a-{number}", name, (1.0,), (1.0,), version=version) for name in ("aim", "mst")])
    page = " ".join(write_report(store, tmp_path / "STUDY.md").read_text().split())
    assert "by the version that made them: 0.10.0 2, 0.9.0 1, older 1." in page
