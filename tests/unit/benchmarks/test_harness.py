"""The benchmark harness: what it measures, what it stores, when it fails."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import __main__ as command
from tests.benchmarks import harness
from tests.benchmarks.case import Peer, Target, load_case
from tests.benchmarks.generated import kept
from tests.benchmarks.harness import Processes, run_case, store
from tests.benchmarks.measured import PEER, WORK
from tests.benchmarks.provenance import commit, digest
from tests.benchmarks.table import table
from tests.support import toy_benchmark as toy

FIELDS = {
    "case", "commit", "machine", "params", "cpu_seconds", "wall_seconds", "process_cpu_seconds", "cold_cpu_seconds",
    "peak_rss_mb", "error", "baselines", "facts", "peer", "targets", "runs",
}  # fmt: skip
# Seconds that starting the child's interpreter and the clock's granularity may add.
SLACK = 0.9
TICK = 0.05  # Of the system's CPU clocks, generously.


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def result(data: Path) -> dict[str, Any]:
    return run_case("toy", "tests.support.toy_benchmark", data)


@pytest.mark.full
def test_cpu_is_that_of_the_whole_tree_during_the_work(result: dict[str, Any]) -> None:
    for run in result["runs"]:
        assert toy.OWN + toy.CHILD - TICK <= run["cpu_seconds"] < toy.OWN + toy.CHILD + SLACK
        assert run["process_cpu_seconds"] >= run["cpu_seconds"] + toy.PREPARING - TICK
        assert run["wall_seconds"] >= toy.OWN + toy.CHILD
    assert result["cpu_seconds"] == pytest.approx(sum(run["cpu_seconds"] for run in result["runs"]) / 2)


@pytest.mark.full
def test_compilation_is_in_the_cold_seconds_alone(result: dict[str, Any]) -> None:
    assert result["cold_cpu_seconds"] >= toy.OWN + toy.CHILD + toy.COMPILING - TICK


def test_a_case_that_is_not_run_cold_apart_runs_once_a_seed(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roles: list[str] = []
    run = Processes.run

    def watched(self: Processes, role: str, seed: int) -> tuple[dict[str, float], dict[str, Any]]:
        roles.append(role)
        return run(self, role, seed)

    monkeypatch.setattr(Processes, "run", watched)
    monkeypatch.setattr(harness, "load_case", lambda module: replace(toy.CASE, cold=False, seeds=(1,), peer=None))
    result = run_case("toy", "tests.support.toy_benchmark", data)
    assert roles == [WORK]
    assert result["cold_cpu_seconds"] == result["cpu_seconds"] >= toy.OWN + toy.CHILD + toy.COMPILING - TICK


def test_a_peer_has_figures_and_seeds_of_its_own(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def runs(self: Processes, role: str, seed: int) -> tuple[dict[str, float], dict[str, Any]]:
        times = {"cpu_seconds": 1.0, "wall_seconds": 1.0, "process_cpu_seconds": 1.0, "peak_rss_mb": 1.0}
        return times, ({"loss": 7.0 + seed} if role == PEER else {"error": {"max": 1}, "baselines": {}, "facts": {}})

    peer = Peer("other", lambda state: state, figures=lambda made: {}, seeds=(2, 4))
    monkeypatch.setattr(Processes, "run", runs)
    monkeypatch.setattr(harness, "load_case", lambda module: replace(toy.CASE, peer=peer))
    found = run_case("toy", "tests.support.toy_benchmark", data)["peer"]
    assert found == {
        "name": "other",
        "cpu_seconds": 1,
        "wall_seconds": 1,
        "process_cpu_seconds": 1,
        "peak_rss_mb": 1,
        "loss": 10,
    }


def test_means_are_over_the_runs_that_have_a_figure(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: dict[int, dict[str, Any]] = {
        1: {"error": {"a": 2.0}, "baselines": {"plain": {"a": 1.0, "b": 6.0}}, "facts": {}},
        3: {
            "error": {"a": 4.0, "b": 3.0},
            "baselines": {"plain": {"a": 5.0}, "other": {"a": 7.0}},
            "facts": {"f": 9.0},
        },
    }

    def runs(self: Processes, role: str, seed: int) -> tuple[dict[str, float], dict[str, Any]]:
        times = {"cpu_seconds": 1.0, "wall_seconds": 1.0, "process_cpu_seconds": 1.0, "peak_rss_mb": 1.0}
        return times, judged[seed]

    monkeypatch.setattr(Processes, "run", runs)
    monkeypatch.setattr(harness, "load_case", lambda module: replace(toy.CASE, targets=(), peer=None))
    found = run_case("toy", "tests.support.toy_benchmark", data)
    assert found["error"] == {"a": 3, "b": 3}
    assert found["baselines"] == {"plain": {"a": 3, "b": 6}, "other": {"a": 7}}
    assert found["facts"] == {"f": 9}


def test_a_peer_that_is_missing_is_named_and_ours_runs(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer("absent", lambda state: state, missing=lambda: "peer not installed: run make peers")
    monkeypatch.setattr(harness, "load_case", lambda module: replace(toy.CASE, cold=False, seeds=(1,), peer=peer))
    found = run_case("toy", "tests.support.toy_benchmark", data)
    assert found["peer"] == {"name": "absent", "missing": "peer not installed: run make peers"}
    assert found["cpu_seconds"] > 0
    assert "peer absent       peer not installed: run make peers" in re.sub(" +(?=peer not)", "       ", table(found))


@pytest.mark.full
def test_memory_is_that_of_the_whole_tree(result: dict[str, Any]) -> None:
    assert toy.MEGABYTES < result["peak_rss_mb"] < toy.MEGABYTES + 150
    assert result["peer"]["peak_rss_mb"] < toy.MEGABYTES


@pytest.mark.full
def test_the_result_has_every_field_and_stored_targets(result: dict[str, Any]) -> None:
    assert set(result) == FIELDS
    assert [run["seed"] for run in result["runs"]] == [1, 3]
    assert result["params"]["colour"] == "red"
    assert result["params"]["seeds"] == [1, 3]
    assert result["error"] == {"max": 30}
    assert result["baselines"] == {"zeros": {"max": 31}}
    assert result["facts"] == {"state": 3}
    assert result["peer"]["name"] == "idle"
    assert result["peer"]["cpu_seconds"] < toy.PREPARING
    assert result["targets"] == [
        {"name": "largest error", "wanted": "<= 40", "got": 40, "met": True},
        {"name": "seeds with an error under 30", "wanted": ">= 2", "got": 1, "met": False},
    ]


@pytest.mark.full
def test_the_file_holds_the_result_and_names_no_path(result: dict[str, Any], data: Path, tmp_path: Path) -> None:
    path = store(result, tmp_path / "results")
    assert path.name == "toy.json"
    assert json.loads(path.read_text()) == result
    assert str(data) not in path.read_text()
    assert str(Path.home()) + "/" not in path.read_text()


@pytest.mark.full
def test_the_table_shows_figures_and_verdicts(result: dict[str, Any]) -> None:
    text = table(result)
    assert "target: largest error: wanted <= 40, got 40: met" in text
    assert "target: seeds with an error under 30: wanted >= 2, got 1: MISSED" in text
    for name in ("cpu_seconds", "cold_cpu_seconds", "baseline zeros", "peer idle", "input numbers", "facts"):
        assert f"\n{name} " in text


@pytest.mark.smoke(1)
@pytest.mark.parametrize(("met", "status"), [((True, True), 0), ((True, False), 1), ((), 0)])
def test_the_exit_status_says_whether_all_targets_are_met(
    result: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, met: tuple[bool, ...], status: int
) -> None:
    targets = [{"name": "t", "wanted": "< 1", "got": 0.5, "met": each} for each in met]
    monkeypatch.setattr(command, "run_case", lambda name, module, data: {**result, "case": name, "targets": targets})
    assert command.main(["answers_10m"], results=tmp_path, data=tmp_path) == status
    assert (tmp_path / "answers_10m.json").exists()


@pytest.mark.parametrize("arguments", [[], ["answers_10"], ["answers_10m", "answers_10m"]])
def test_an_unknown_case_is_refused_with_the_nearest_name(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(arguments, results=tmp_path, data=tmp_path) == 2
    assert "did you mean" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", command.cases())
def test_every_case_can_be_loaded(name: str) -> None:
    case = load_case(f"tests.benchmarks.{name}")
    assert case.seeds
    assert case.targets


def test_a_failing_process_is_an_error(tmp_path: Path) -> None:
    processes = Processes("tests.support.no_such_benchmark", {}, tmp_path)
    with pytest.raises(subprocess.CalledProcessError):
        processes.run(WORK, 1)


@pytest.mark.parametrize(("relation", "got", "met"), [
    ("<", 2.9, True), ("<", 3.0, False), ("<=", 3.0, True), (">", 3.0, False), (">=", 3.0, True), ("==", 3.0, True),
    ("==", 3.1, False), ("<", float("nan"), False),
])  # fmt: skip
def test_targets_compare_as_they_say(relation: str, got: float, met: bool) -> None:
    assert Target("t", relation, 3.0, lambda runs: got).met(got) is met


def test_kept_inputs_are_made_once_and_never_by_halves(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        folder.mkdir()
        (folder / "half").touch()
        if len(made) == 1:
            raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        kept(tmp_path, "numbers", make)
    assert not (tmp_path / "numbers").exists()
    assert kept(tmp_path, "numbers", make) == kept(tmp_path, "numbers", make) == tmp_path / "numbers"
    assert len(made) == 2


def test_digests_see_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_text("1")
    first = digest(tmp_path / "a")
    assert (first["files"], first["bytes"]) == (1, 1)
    (tmp_path / "a" / "x").rename(tmp_path / "a" / "y")
    second = digest(tmp_path / "a")
    (tmp_path / "a" / "y").write_text("2")
    third = digest(tmp_path / "a")
    assert len({each["sha256"] for each in (first, second, third)}) == 3
    assert digest(tmp_path / "a" / "y")["bytes"] == 1


def test_a_commit_is_named_dirty_when_files_differ(tmp_path: Path) -> None:
    assert commit(tmp_path) == "unknown"
    if shutil.which("git") is None:
        return
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "m"]):
        subprocess.run([*git, *arguments], check=True)
    head = commit(tmp_path)
    assert len(head) == 40
    (tmp_path / "tests" / "benchmarks" / "results").mkdir(parents=True)
    (tmp_path / "tests" / "benchmarks" / "results" / "toy.json").touch()
    assert commit(tmp_path) == head
    (tmp_path / "code.py").touch()
    assert commit(tmp_path) == f"{head}-dirty"
