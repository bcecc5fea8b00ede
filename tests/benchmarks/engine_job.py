"""What one engine does for one release, and the CPU seconds and memory of the whole process tree.

``python -m tests.benchmarks.engine_job CONFIG ENGINE [OPTION]`` prints one JSON object. ENGINE is local, spark, beam,
or spark:URL for a Spark Connect server. Without an option the release is made as ``marquee run`` makes it. With
``--count`` its queries are counted once, and the SHA-256 of the exact counts is printed; with ``--aggregate`` too, but
on Spark from a DataFrame. With ``--empty`` the engine is opened and nothing is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.benchmarks import process_tree

SPARK = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
_SECONDS_BETWEEN_LOOKS = 0.1


def main(config: str, engine: str, *options: str) -> None:
    from jobs.config import EngineChoice, load_config
    from jobs.planning.engines import open_engine
    from jobs.planning.job import job_of
    from jobs.release.run import release

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    name, _, remote = engine.partition(":")
    settings = {"settings": {"spark.remote": remote} if remote else SPARK} if name == "spark" else {}
    path = Path(config)
    choice = EngineChoice(name=name, options=settings)  # type: ignore[arg-type]
    job = job_of(load_config(path).model_copy(update={"engine": choice}), path.parent)
    opened, counts = open_engine(choice), ""
    passes = _Passes(opened)
    peak = _Peak()
    if "--empty" in options and name == "spark":
        _session().range(2).collect()
    started = time.perf_counter()
    if "--aggregate" in options or "--count" in options:
        counts = _counted(job, opened, framed=name == "spark" and "--aggregate" in options)
    elif "--empty" not in options:
        release(job, engine=passes)
    # Under spark-submit, the JVM has started this process.
    root = os.getppid() if "PYSPARK_GATEWAY_PORT" in os.environ else None
    seconds, wall = process_tree.cpu_seconds(root), time.perf_counter() - started
    measured = {"cpu": seconds, "wall": wall, "peak_mb": peak.stopped(), "passes": passes.count, "counts": counts}
    print(json.dumps(measured))


def _counted(job: Any, engine: Any, *, framed: bool) -> str:
    """SHA-256 of the exact counts of the release's queries, of generated data."""
    from dpcore.exact_statistics import QueryAnswers
    from pipelines.engines.statistics import EngineStatistics
    from pipelines.source import SALT_BYTES, open_frame, open_source

    salt, folder = bytes(SALT_BYTES), job.config.dataset.root
    if framed:
        source: Any = open_frame(_session().read.parquet(folder), job.layout, salt)
    else:
        source = open_source(folder, job.layout, salt)
    counts = EngineStatistics(engine, source).aggregate(QueryAnswers(job.stand_in.queries))
    return hashlib.sha256(counts.tobytes()).hexdigest()


def _session() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


class _Passes:
    """An engine that counts how often it reads the data."""

    def __init__(self, engine: Any) -> None:
        self._engine, self.name, self.count = engine, engine.name, 0

    def reduce(self, source: Any, aggregator: Any) -> Any:
        self.count += 1
        return self._engine.reduce(source, aggregator)


class _Peak:
    """Peak resident memory of this process tree, looked at from a thread."""

    def __init__(self) -> None:
        self._largest, self._ended = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stopped(self) -> float:
        self._ended.set()
        self._thread.join()
        return max(self._largest, process_tree.resident_mb(os.getpid()))

    def _watch(self) -> None:
        while not self._ended.wait(_SECONDS_BETWEEN_LOOKS):
            self._largest = max(self._largest, process_tree.resident_mb(os.getpid()))


if __name__ == "__main__":
    main(*sys.argv[1:])
