from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.errors import ConfigError, EngineError
from dpcore.queries import UnitCount
from pipelines.aggregators import Block, aggregator_for
from pipelines.engines import local, parts
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.source import Source, open_source
from tests.support import engine_cases, reference
from tests.support.engine_cases import SALT, Case


def source_of(case: Case, folder: Path, files: int, clustered: bool = False) -> Source:
    if clustered:
        engine_cases.write_clustered(case.rows, case.layout.unit, folder, files)
    else:
        engine_cases.write(case.rows, folder, files)
    return open_source(str(folder), case.clustered() if clustered else case.layout, SALT)


class Broken:
    """Fails on every block, with a value of the data in its message."""

    def create(self) -> NDArray[np.int64]:
        return np.zeros(1, dtype=np.int64)

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        raise RuntimeError("secret value 4711")

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        return left + right

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        return accumulator


@pytest.mark.parametrize("clustered", [False, True])
def test_a_failure_of_its_own_is_an_engine_error_without_values(tmp_path: Path, clustered: bool) -> None:
    source = source_of(engine_cases.messy_baskets(), tmp_path, 3, clustered)
    with pytest.raises(
        EngineError, match=r"^the local engine failed with RuntimeError at pipelines/engines/accumulation\.py:\d+$"
    ):
        LocalEngine(threads=2).reduce(source, Broken())


@pytest.mark.parametrize("settings", [{"threads": 0}, {"rows_in_memory": 0}])
def test_refuses_settings_that_do_no_work(settings: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="; want >= 1"):
        LocalEngine(**settings)


@pytest.mark.parametrize("rows_in_memory", [50, 200_000_000])
def test_shards_and_passes_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_in_memory: int) -> None:
    monkeypatch.setattr(local, "_SHARD_ROWS", 20)
    monkeypatch.setattr(parts, "_PART_ROWS", 30)
    case = engine_cases.messy_table()
    folder = tmp_path / "data"
    files = engine_cases.write(case.rows, folder, 2)
    source = open_source(str(folder), case.layout, SALT)
    request = case.requests[0]
    counted = EngineStatistics(LocalEngine(2, rows_in_memory), source).aggregate(request)
    assert counted.tolist() == reference.answers(files, case.layout, SALT, request)


def test_holds_a_part_of_the_rows_in_each_pass(tmp_path: Path) -> None:
    case = engine_cases.messy_baskets()
    source = source_of(case, tmp_path, 4)
    passes = -(-case.rows.num_rows // 100)
    held = LocalEngine(threads=1, rows_in_memory=100).over_whole_units(
        source, lambda batches: sum(batch.num_rows for batch in batches)
    )
    sizes = list(held)
    assert len(sizes) == passes
    assert sum(sizes) == case.rows.num_rows
    assert max(sizes) < 200


def test_keeps_no_more_files_in_hand_than_workers(tmp_path: Path) -> None:
    case = engine_cases.messy_baskets()
    source = source_of(case, tmp_path, 8, clustered=True)
    lock, running, most = threading.Lock(), 0, 0

    def task(batches: object) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        assert sum(1 for _ in batches) >= 0  # type: ignore[attr-defined]
        with lock:
            running -= 1
        return 1

    assert sum(LocalEngine(threads=2).over_whole_units(source, task)) == 8
    assert most <= 2


def test_finds_broken_units_only_where_the_claim_is_made(tmp_path: Path) -> None:
    case = engine_cases.messy_baskets()
    engine_cases.write(case.rows, tmp_path, 3)
    source = open_source(str(tmp_path), case.layout, SALT)
    engine = LocalEngine(threads=2)
    assert len(engine.broken_units(source)) == 0
    assert len(engine.broken_units(replace(source, layout=case.clustered()))) > 0


def test_statistics_declare_the_contribution_of_the_layout(tmp_path: Path) -> None:
    case = engine_cases.messy_baskets(bound=3)
    statistics = EngineStatistics(LocalEngine(threads=1), source_of(case, tmp_path, 1))
    assert statistics.contribution == case.layout.contribution
    units = statistics.aggregate(UnitCount())
    counter = aggregator_for(UnitCount(), case.layout)
    reduced = LocalEngine(1).reduce(open_source(str(tmp_path), case.layout, SALT), counter)
    assert units.tolist() == counter.extract(reduced).tolist()


def test_statistics_refuse_a_request_about_other_data_before_they_read(tmp_path: Path) -> None:
    table, baskets = engine_cases.messy_table(), engine_cases.messy_baskets()
    source = source_of(baskets, tmp_path, 1)
    (tmp_path / "part-00000.parquet").unlink()
    with pytest.raises(ConfigError, match="baskets have no marginals"):
        EngineStatistics(LocalEngine(), source).aggregate(table.requests[0])
