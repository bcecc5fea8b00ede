"""The Beam engine's own behaviour: its temporary folder, its failures and its worker processes."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import apache_beam
import numpy as np
import pytest
from apache_beam.runners.dataflow.dataflow_runner import DataflowPipelineResult, DataflowRunner
from apache_beam.runners.runner import PipelineState

from dpcore.errors import ConfigError, EngineError, InputError
from dpcore.queries import UnitCount
from pipelines.aggregators import aggregator_for
from pipelines.aggregators.protocol import Aggregator
from pipelines.engines import beam, worker_tasks
from pipelines.engines.beam import BeamEngine
from pipelines.engines.beam_files import StoredTask
from pipelines.engines.local import LocalEngine
from pipelines.source import Source, open_source
from tests.support import engine_cases
from tests.support.engine_cases import SALT
from tests.support.quoting import SECRET, Quoting

PLACE = r"^a task failed with ValueError at pipelines/engines/accumulation\.py:\d+$"
pytestmark = pytest.mark.beam


@pytest.fixture(params=[True, False], ids=["clustered", "shuffled"])
def task(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Source, Aggregator]:
    case = engine_cases.messy_table()
    layout = case.clustered() if request.param else case.layout
    engine_cases.write(case.rows, tmp_path / "data", 3)
    return open_source(str(tmp_path / "data"), layout, SALT), aggregator_for(case.requests[0], layout)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A new folder for --temp_location, which is empty before and must be empty afterwards."""
    (tmp_path / "temporary").mkdir()
    return tmp_path / "temporary"


def test_sums_answers_of_many_slices_and_leaves_no_exact_count_behind(
    task: tuple[Source, Aggregator], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_tasks, "_SLICE", 3)
    counted = BeamEngine([f"--temp_location={folder}"]).reduce(*task)
    assert counted.size > 30
    np.testing.assert_array_equal(counted, LocalEngine(1).reduce(*task))
    assert list(folder.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("task", [False], ids=["shuffled"], indirect=True)
def test_worker_processes_give_the_same_counts(task: tuple[Source, Aggregator], folder: Path) -> None:
    processes = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    counted = BeamEngine([f"--temp_location={folder}", *processes]).reduce(*task)
    np.testing.assert_array_equal(counted, LocalEngine(1).reduce(*task))


def test_a_failed_task_quotes_no_value_and_leaves_nothing_behind(
    task: tuple[Source, Aggregator], folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(EngineError, match=PLACE):
        BeamEngine([f"--temp_location={folder}"]).reduce(task[0], Quoting())
    assert "a task failed with ValueError" in caplog.text
    assert SECRET not in caplog.text
    assert list(folder.iterdir()) == []


class Bomb:
    """Unpickling it creates a folder."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def __reduce__(self) -> tuple[object, tuple[str, int]]:
        return os.mkdir, (self._path, 0o700)


def test_a_task_that_somebody_has_replaced_is_not_unpickled(
    task: tuple[Source, Aggregator], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = beam.store_task

    def replaced(place: str, work: object) -> StoredTask:
        stored = store(place, work)
        Path(stored.path).write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
        return stored

    monkeypatch.setattr(beam, "store_task", replaced)
    with pytest.raises(EngineError):
        BeamEngine([f"--temp_location={folder}"]).reduce(*task)
    assert not (tmp_path / "exploded").exists()


def test_a_damaged_file_is_named(task: tuple[Source, Aggregator]) -> None:
    source, aggregator = task
    path = Path(source.paths[1])
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"^{path} .*; it is damaged or truncated: want a whole file$"):
        BeamEngine().reduce(source, aggregator)


def test_workers_elsewhere_need_a_folder_that_they_reach() -> None:
    with pytest.raises(ConfigError, match="Beam runner 'DataflowRunner' has no --temp_location; want a folder"):
        BeamEngine(["--runner=DataflowRunner"])


@pytest.mark.parametrize("task", [True], ids=["clustered"], indirect=True)
def test_a_runner_that_loses_tasks_is_an_error_and_not_zeros(
    task: tuple[Source, Aggregator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runner loses two of three files on their way to the workers."""
    lost = apache_beam.Filter(lambda path: path == task[0].files[0])
    monkeypatch.setattr(beam.beam, "Reshuffle", lambda: lost)
    with pytest.raises(EngineError, match="says that it is done, but not all tasks have arrived at its workers; want"):
        BeamEngine().reduce(*task)


def test_a_template_is_refused_because_it_would_run_nothing() -> None:
    assert DataflowPipelineResult(None, DataflowRunner()).wait_until_finish() == PipelineState.DONE
    with pytest.raises(ConfigError, match="^Beam option --template_location makes a template of a pipeline and does"):
        BeamEngine(["--runner=DataflowRunner", "--temp_location=gs://b/t", "--template_location=gs://b/template"])


def test_no_unit_at_all_is_zero(tmp_path: Path) -> None:
    case = engine_cases.messy_table()
    nobody = case.rows.filter(case.rows["person"].is_null())
    engine_cases.write(nobody, tmp_path, 2)
    source = open_source(str(tmp_path), case.layout, SALT)
    units = aggregator_for(UnitCount(), case.layout)
    assert units.extract(BeamEngine().reduce(source, units)).tolist() == [0]
