"""Synthetic rows on Spark and Beam: the files of the local threads, byte for byte, wherever the workers write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dpcore.errors import ConfigError, EngineError
from dpcore.estimation.graphical.answering.model import GraphicalModel
from jobs.config import EngineChoice
from jobs.planning.engines import FEW_ROWS, open_row_workers
from pipelines.attributes import Attribute, Kind
from pipelines.generate import spark_rows
from pipelines.generate.parallel_rows import LocalRowWorkers, RowsTask, RowWorkers
from pipelines.generate.row_files import part_name
from pipelines.generate.rows import write_rows
from pipelines.layout import TableLayout
from pipelines.schema import Schema
from tests.support import engines
from tests.support.graphical_models import random_model
from tests.support.graphs import SHAPES

UNITS, SIZE, SEED = 500, 64, 3


def model() -> GraphicalModel:
    return random_model(SHAPES["chain of three-way cliques"], 5)


def layout() -> TableLayout:
    sizes = zip(model().domain.names, model().domain.sizes, strict=True)
    attributes = (
        Attribute(name, Kind.CATEGORICAL, tuple(f"{name}{value}" for value in range(size)), null=False)
        for name, size in sizes
    )
    return TableLayout("person", Schema(tuple(attributes)))


def task() -> RowsTask:
    rounded = model().rounded(UNITS, np.random.default_rng(SEED))
    return RowsTask(rounded, layout(), SIZE, SEED)


def spark_workers() -> RowWorkers:
    from pipelines.engines.spark import open_session

    engines.spark_engine()
    return spark_rows.SparkRowWorkers(open_session())


def beam_workers() -> RowWorkers:
    from pipelines.generate.beam_rows import BeamRowWorkers

    return BeamRowWorkers()


def written(folder: Path, workers: RowWorkers) -> tuple[list[bytes], list[int]]:
    """The files in the order of their parts, and the progress."""
    seen: list[int] = []
    files = write_rows(
        model(),
        UNITS,
        layout(),
        folder,
        seed=SEED,
        size=SIZE,
        workers=workers,
        progress=lambda done, _: seen.append(done),
    )
    assert sorted(folder.iterdir()) == files
    return [path.read_bytes() for path in files], seen


WORKERS = [
    pytest.param(spark_workers, id="spark", marks=pytest.mark.spark),
    pytest.param(beam_workers, id="beam", marks=pytest.mark.beam),
]


@pytest.mark.parametrize("workers", WORKERS)
def test_workers_write_the_files_of_local_threads(workers: Callable[[], RowWorkers], tmp_path: Path) -> None:
    content, seen = written(tmp_path / "rows", workers())
    assert content == written(tmp_path / "local", LocalRowWorkers(2))[0]
    assert (len(content), seen[-1], sorted(seen)) == (8, UNITS, seen)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["local", "rows"], "nothing is left beside the rows"


@pytest.mark.spark
def test_executors_that_do_not_see_the_folder_return_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver, and it alone, gives the mark another name, as if executors looked at another machine's folder."""
    monkeypatch.setattr(spark_rows, "_MARK", "mark of the driver")
    monkeypatch.setattr(spark_rows, "_BYTES_IN_MEMORY", 3 * len(next(task().contents(range(1)))[1]))
    content, seen = written(tmp_path / "rows", spark_workers())
    assert content == written(tmp_path / "local", LocalRowWorkers(2))[0]
    assert seen[0] == SIZE, "the first job is of one part"
    assert max(np.diff(seen)) <= 4 * SIZE, "later jobs are of as many parts as fit into the driver's memory"


def test_a_part_is_written_only_where_the_mark_is_the_drivers(tmp_path: Path) -> None:
    returned = {"part": 2, "bytes": 5, "content": b"rows!"}
    assert spark_rows._result(tmp_path / "nowhere", "mine", 2, b"rows!") == returned
    (tmp_path / "mark").write_text("another's")
    assert spark_rows._result(tmp_path, "mine", 2, b"rows!") == returned
    (tmp_path / "mark").write_text("mine")
    assert spark_rows._result(tmp_path, "mine", 2, b"rows!") == {**returned, "content": None}
    assert (tmp_path / part_name(2)).read_bytes() == b"rows!"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mark", part_name(2)]


def test_a_file_that_is_not_whole_is_an_engine_error(tmp_path: Path) -> None:
    for name in ("scratch", "rows"):
        (tmp_path / name).mkdir()
    (tmp_path / "scratch" / part_name(0)).write_bytes(b"short")
    with pytest.raises(EngineError, match="does not see all 6 bytes"):
        spark_rows.SparkRowWorkers._move(tmp_path / "scratch", tmp_path / "rows", 0, 6, None)
    with pytest.raises(EngineError, match="does not see all 6 bytes"):
        spark_rows.SparkRowWorkers._move(tmp_path / "scratch", tmp_path / "rows", 1, 6, None)


class Broken:
    """Counts that no worker can split."""

    units = UNITS

    def half(self, units: int, generator: np.random.Generator, *, first: bool) -> Broken:
        raise ValueError("secret")


@pytest.mark.parametrize(("workers", "engine"), [
    pytest.param(spark_workers, "Spark", marks=pytest.mark.spark),
    pytest.param(beam_workers, "Beam", marks=pytest.mark.beam),
])  # fmt: skip
def test_a_failed_task_is_an_engine_error(workers: Callable[[], RowWorkers], engine: str, tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    broken = RowsTask(Broken(), layout(), SIZE, SEED)  # type: ignore[arg-type]
    with pytest.raises(EngineError, match=f"{engine} did not finish the synthetic rows"):
        list(workers().write(broken, tmp_path / "rows"))
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]


@pytest.mark.beam
def test_beam_passes_parts_through_its_temporary_folder(tmp_path: Path) -> None:
    from pipelines.generate.beam_rows import BeamRowWorkers

    workers = BeamRowWorkers(["--temp_location", str(tmp_path / "new" / "shared")])
    assert written(tmp_path / "rows", workers)[0] == written(tmp_path / "local", LocalRowWorkers(2))[0]
    assert list((tmp_path / "new" / "shared").iterdir()) == []


@pytest.mark.beam
def test_a_task_that_was_replaced_is_not_loaded(tmp_path: Path) -> None:
    from pipelines.engines import beam_files

    stored = beam_files.store_task(str(tmp_path), task())
    assert beam_files.load_task(stored).units_before(8) == UNITS
    beam_files.load_task.cache_clear()
    Path(stored.path).write_bytes(b"another task")
    with pytest.raises(EngineError, match="is not the task of this run"):
        beam_files.load_task(stored)


def test_runs_hold_every_part_once() -> None:
    assert [task().units_before(part) for part in (0, 1, 7, 8)] == [0, 64, 448, 500]
    for workers, runs in ((None, 2), (1, 2), (2, 2), (3, 4), (8, 8), (100, 8)):
        found = task().runs(workers)
        assert [part for run in found for part in run] == list(range(8))
        assert len(found) == runs


def test_parts_of_a_run_are_those_made_alone() -> None:
    together = dict(task().contents(range(3, 7)))
    assert together == {part: dict(task().contents(range(part, part + 1)))[part] for part in range(3, 7)}


def test_few_rows_are_made_here_whatever_the_engine() -> None:
    for name in ("spark", "beam"):
        assert open_row_workers(EngineChoice(name=name), FEW_ROWS) == LocalRowWorkers()  # type: ignore[arg-type]
    local = EngineChoice(name="local", options={"threads": 3, "rows_in_memory": 5})
    assert open_row_workers(local, FEW_ROWS + 1) == LocalRowWorkers(3)
    with pytest.raises(ConfigError, match=r"engine.options.threads is 0"):
        open_row_workers(EngineChoice(name="local", options={"threads": 0}), 5)


@pytest.mark.parametrize(("name", "kind"), [
    pytest.param("spark", "SparkRowWorkers", marks=pytest.mark.spark),
    pytest.param("beam", "BeamRowWorkers", marks=pytest.mark.beam),
])  # fmt: skip
def test_many_rows_are_made_by_the_engine(name: str, kind: str) -> None:
    if name == "spark":
        engines.spark_engine()
    choice = EngineChoice(name=name)  # type: ignore[arg-type]
    assert type(open_row_workers(choice, FEW_ROWS + 1)).__name__ == kind
