"""What 10 billion pairs on 100 executors of 4 cores ask of the driver and of one task: each by the real code.

Each limit is one function. It does a full-size or a stated part of the work in this process, and returns what it saw
and what follows for the whole. ``python -m tests.benchmarks.scaling limits`` runs each in a process of its own.
"""

from __future__ import annotations

import io
import os
import pickle
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcore.domain import BinaryView
from dpcore.exact_statistics import QueryAnswers
from dpcore.queries import Conjunctions
from jobs.ledger import SqlLedger
from pipelines.aggregators import aggregator_for
from pipelines.aggregators.protocol import Aggregator
from pipelines.engines import worker_tasks
from pipelines.engines.parts import Part
from pipelines.engines.worker_tasks import Work
from pipelines.layout import BasketLayout
from pipelines.source import DataFile, Source, open_with_contents
from tests.benchmarks.scaling.many_files import PROTOCOL, ManyFiles, serve
from tests.support.ledgers import file_content, planned

PAIRS, ITEMS, FILES, CORES = 10_000_000_000, 17_770, 100_000, 400
ANSWERS, UNITS, ROWS = 10_000_000, 50_000_000, 1 << 20
SECONDS_PER_REQUEST = 0.03
TASKS = 3 * CORES  # Of the Spark engine, whatever the number of files.

Figures = dict[str, float]


def listing() -> Figures:
    """A listing of 100,000 files, and their footers."""
    sink = io.BytesIO()
    pairs = {"user": np.arange(1000) // 10, "item": np.arange(1000, dtype=np.int32)}
    pq.write_table(pa.table(pairs), sink)
    serve(sink.getvalue(), FILES)
    started = time.process_time()
    source, _ = open_with_contents(f"{PROTOCOL}://data", _layout(clustered=True), bytes(16), b"key")
    return {
        "CPU seconds": time.process_time() - started,
        "requests per file": ManyFiles.requests / FILES,
        "minutes at 30 ms a request, 64 readers": ManyFiles.requests * SECONDS_PER_REQUEST / 64 / 60,
        "MB of the list that tasks get": len(pickle.dumps(source.files)) / 2**20,
    }


def contents() -> Figures:
    """The ledger's record of what identifies 100,000 files with one row group each, in SQLite."""
    files = [file_content(f"part-{number}") for number in range(FILES)]
    with tempfile.TemporaryDirectory() as folder:
        ledger = SqlLedger(f"sqlite:///{folder}/ledger.db")
        ledger.create_dataset("adult", 1.0, 0.0)
        started = time.process_time()
        ledger.plan(planned(contents=tuple(files)))
        first = time.process_time()
        ledger.plan(planned("second", contents=tuple(files)))
        return {
            "CPU seconds of the first release": first - started,
            "CPU seconds of the next release": time.process_time() - first,
            "MB of the ledger": os.path.getsize(f"{folder}/ledger.db") / 2**20,
        }


def driver_vector() -> Figures:
    """10 million answers of 1,200 tasks: one slice of a million of them is summed here, as an executor does."""
    work = Work(Source((), _layout(), bytes(16)), _conjunctions(1 << 20), 1)
    size = work.aggregator.create().size
    part = np.ones(min(size, 1 << 20), dtype=np.int64)
    started = time.process_time()
    worker_tasks.summed(work, ((0, part) for _ in range(TASKS)))
    seconds = time.process_time() - started
    slices = -(-ANSWERS // (1 << 20))
    return {
        "CPU seconds of all executors": seconds * slices,
        "GB that executors exchange": TASKS * ANSWERS * 8 / 2**30,
        "GB with a task for each of 100,000 files": FILES * ANSWERS * 8 / 2**30,
        "MB on the driver": ANSWERS * 8 / 2**20,
    }


def shuffle() -> Figures:
    """Rows that are not clustered: one of 10,000 parts is split to 10,000 buckets here."""
    with tempfile.TemporaryDirectory() as folder:
        file = _part(Path(folder))
        buckets = worker_tasks.buckets_for(PAIRS, CORES)
        work = Work(Source((file,), _layout(), bytes(16)), _conjunctions(10), buckets)
        started, size, pieces = time.process_time(), 0, 0
        for _, piece in worker_tasks.split_rows(work, Part(file, (0,), ROWS)):
            size, pieces = size + len(piece), pieces + 1
        seconds = time.process_time() - started
    return {
        "buckets": buckets,
        "bytes per pair": size / ROWS,
        "pairs per piece": ROWS / pieces,
        "GB in the shuffle": size / ROWS * PAIRS / 2**30,
        "CPU minutes of each core": seconds / ROWS * PAIRS / CORES / 60,
    }


def broken_units() -> Figures:
    """50 million units of which each has pairs in two files that claim to be clustered, as one task finds them."""
    pieces = _unit_pieces(UNITS)
    started = time.process_time()
    broken = worker_tasks.joined_units(iter([*worker_tasks.broken_units(pieces)]))
    return {
        "CPU seconds of one bucket with all of them": time.process_time() - started,
        "MB on the driver and in each executor": (broken.nbytes if broken is not None else 0) / 2**20,
        "broken units": len(broken) if broken is not None else 0,
    }


def dropped_units() -> Figures:
    """One task that counts a file without 50 million broken units, which every task gets."""
    with tempfile.TemporaryDirectory() as folder:
        file = _part(Path(folder))
        work = Work(
            Source((file,), _layout(clustered=True), bytes(16)), _conjunctions(10), 1, pa.array(np.arange(UNITS))
        )
        started = time.process_time()
        worker_tasks.summed(work, worker_tasks.count_file(work, file))
        return {"CPU seconds": time.process_time() - started}


def large_task() -> Figures:
    """One task with a million pairs and 10 million queries: the memory of one worker."""
    with tempfile.TemporaryDirectory() as folder:
        file = _part(Path(folder))
        work = Work(Source((file,), _layout(clustered=True), bytes(16)), _conjunctions(ANSWERS), 1)
        started = time.process_time()
        worker_tasks.summed(work, worker_tasks.count_file(work, file))
        return {
            "CPU seconds": time.process_time() - started,
            "MB sent to each executor once": len(pickle.dumps(work)) / 2**20,
        }


def _part(folder: Path) -> DataFile:
    """A million pairs of 50 million users, sorted by user."""
    draw, path = np.random.default_rng(1), folder / "part.parquet"
    users = np.sort(draw.integers(0, UNITS, ROWS))
    pq.write_table(pa.table({"user": users, "item": draw.integers(0, ITEMS, ROWS).astype(np.int32)}), path)
    return DataFile(str(path))


LIMITS: dict[str, Callable[[], Figures]] = {
    limit.__name__: limit
    for limit in (listing, contents, driver_vector, shuffle, broken_units, dropped_units, large_task)
}


def _layout(clustered: bool = False) -> BasketLayout:
    return BasketLayout(unit="user", item="item", items=ITEMS, clustered_by_unit=clustered)


def _conjunctions(count: int) -> Aggregator:
    """Triples of items, without the cost of drawing distinct ones."""
    first = np.random.default_rng(2).integers(0, ITEMS - 2, count).astype(np.int32)
    columns = np.stack([first, first + 1, first + 2], axis=1)
    queries = Conjunctions(BinaryView(ITEMS), columns, np.zeros_like(columns, dtype=np.bool_))
    return aggregator_for(QueryAnswers(queries), _layout())


def _unit_pieces(units: int) -> list[bytes]:
    """The distinct units of two files with the same units, as tasks send them to one bucket."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([pa.array(np.arange(units))], names=["user"])
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return [bytes(sink.getvalue())] * 2
