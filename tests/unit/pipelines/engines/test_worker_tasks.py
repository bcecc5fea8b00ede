"""The tasks of the distributed engines, run here one after another as any engine might run them."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.exact_statistics import QueryAnswers
from dpcore.queries import Marginals
from pipelines.aggregators import aggregator_for
from pipelines.attributes import Attribute, Kind
from pipelines.engines import parts, worker_tasks
from pipelines.engines.local import LocalEngine
from pipelines.engines.worker_tasks import Work
from pipelines.layout import TableLayout
from pipelines.schema import Schema
from pipelines.source import Source, open_source

SCHEMA = Schema(
    (Attribute("a", Kind.CATEGORICAL, ("x", "y"), other=True), Attribute("b", Kind.INTEGER, edges=(0, 5, 9)))
)
QUERIES = QueryAnswers(Marginals(SCHEMA.domain, (("a", "b"), ("b",))))
ROWS = 5000


def source_of(folder: Path, *, clustered: bool, files: int = 3) -> Source:
    """Random rows of 900 units in files of small row groups; neighbouring files share some units."""
    generator = np.random.default_rng(5)
    units = np.sort(generator.integers(0, 900, ROWS))
    table = pa.table(
        {
            "unit": pa.array([None if unit % 97 == 0 else f"u{unit}" for unit in units]),
            "a": pa.array(generator.choice(["x", "y", "zebra"], ROWS)).dictionary_encode(),
            "b": pa.array(generator.integers(-3, 12, ROWS), mask=generator.random(ROWS) < 0.1),
        }
    )
    for number in range(files):
        part = table.slice(number * ROWS // files, (number + 1) * ROWS // files - number * ROWS // files)
        pq.write_table(part, folder / f"{number}.parquet", row_group_size=400)
    return open_source(str(folder), TableLayout("unit", SCHEMA, 2, clustered), bytes(range(16)))


def summed(work: Work, slices: list[tuple[int, np.ndarray]]) -> np.ndarray:
    sums: dict[int, np.ndarray] = {}
    for number, counts in slices:
        sums[number] = work.aggregator.merge(sums[number], counts) if number in sums else counts
    return worker_tasks.joined_counts(work.aggregator, sums.items())


def grouped(pieces: list[tuple[int, bytes]]) -> dict[int, list[bytes]]:
    groups: dict[int, list[bytes]] = defaultdict(list)
    for bucket, piece in reversed(pieces):
        groups[bucket].append(piece)
    return groups


@pytest.mark.parametrize("slice_size", [1, 5, 1 << 20])
def test_rows_split_by_unit_give_the_local_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slice_size: int
) -> None:
    monkeypatch.setattr(worker_tasks, "_SLICE", slice_size)
    monkeypatch.setattr(parts, "_PART_ROWS", 700)
    source = source_of(tmp_path, clustered=False)
    work = Work(source, aggregator_for(QUERIES, source.layout), buckets=7)
    cut = parts.parts_of(source)
    groups = grouped([piece for part in cut for piece in worker_tasks.split_rows(work, part)])
    slices = [found for pieces in groups.values() for found in worker_tasks.count_bucket(work, pieces)]
    expected = LocalEngine(1).reduce(source, work.aggregator)
    assert len(cut) > 3
    assert len(groups) == 7
    np.testing.assert_array_equal(summed(work, slices), expected)


def test_whole_files_without_their_broken_units_give_the_local_counts(tmp_path: Path) -> None:
    source = source_of(tmp_path, clustered=True)
    work = Work(source, aggregator_for(QUERIES, source.layout), buckets=4)
    groups = grouped([piece for file in source.files for piece in worker_tasks.split_units(work, file)])
    broken = worker_tasks.joined_units(
        found for pieces in groups.values() for found in worker_tasks.broken_units(pieces)
    )
    without = replace(work, dropped=broken)
    found = [found for file in source.files for found in worker_tasks.count_file(without, file)]
    assert broken is not None
    held = Counter(unit for path in source.paths for unit in set(pq.read_table(path)["unit"].to_pylist()))
    assert sorted(broken.to_pylist()) == sorted(unit for unit, files in held.items() if unit and files > 1)
    counts, ranges = worker_tasks.joined(work, found)
    assert len(ranges) == len(source.files)
    np.testing.assert_array_equal(counts, LocalEngine(1).reduce(source, work.aggregator))


def test_small_batches_of_a_frame_are_split_together(tmp_path: Path) -> None:
    source = source_of(tmp_path, clustered=False)
    work = Work(source, aggregator_for(QUERIES, source.layout), buckets=3)
    rows = pa.concat_tables(pq.read_table(path) for path in source.paths)
    small = rows.combine_chunks().to_batches(max_chunksize=10)
    assert len(small) > 30
    groups = grouped(list(worker_tasks.split_batches(work, small)))
    assert {bucket: len(pieces) for bucket, pieces in groups.items()} == {0: 1, 1: 1, 2: 1}
    slices = [found for pieces in groups.values() for found in worker_tasks.count_bucket(work, pieces)]
    np.testing.assert_array_equal(summed(work, slices), LocalEngine(1).reduce(source, work.aggregator))


def test_no_broken_unit_is_none(tmp_path: Path) -> None:
    source = source_of(tmp_path, clustered=True, files=1)
    work = Work(source, aggregator_for(QUERIES, source.layout), buckets=4)
    groups = grouped(list(worker_tasks.split_units(work, source.files[0])))
    assert (
        worker_tasks.joined_units(found for pieces in groups.values() for found in worker_tasks.broken_units(pieces))
        is None
    )


def test_parts_cover_every_row_group_once_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_PART_ROWS", 1000)
    source = source_of(tmp_path, clustered=False)
    cut = parts.parts_of(source)
    groups = [(part.file, group) for part in cut for group in part.row_groups]
    assert groups == [(file, group) for file in source.files for group in range(5)]
    assert sum(part.rows for part in cut) == ROWS
    assert max(part.rows for part in cut) < 1400


def test_a_piece_holds_no_dictionary(tmp_path: Path) -> None:
    source = source_of(tmp_path, clustered=False)
    work = Work(source, aggregator_for(QUERIES, source.layout), buckets=2)
    (_, piece), *_ = worker_tasks.split_rows(work, parts.parts_of(source)[0])
    with pa.ipc.open_stream(piece) as stream:
        assert stream.schema.field("a").type == pa.large_string()


def test_no_slice_is_no_count(tmp_path: Path) -> None:
    source = source_of(tmp_path, clustered=False)
    aggregator = aggregator_for(QUERIES, source.layout)
    np.testing.assert_array_equal(worker_tasks.joined_counts(aggregator, []), np.zeros(aggregator.create().size))


@pytest.mark.parametrize(("rows", "workers", "wanted"), [(0, 0, 1), (0, 4, 4), (3_000_000, 2, 3), (10**8, 8, 96)])
def test_buckets_follow_rows_and_workers(rows: int, workers: int, wanted: int) -> None:
    assert worker_tasks.buckets_for(rows, workers) == wanted
