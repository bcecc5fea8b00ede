"""One release by one engine, as ``marquee run`` makes it, and the CPU seconds of its whole process tree.

``python -m tests.benchmarks.engine_job CONFIG ENGINE [--empty]`` prints one JSON object. With ``--empty`` nothing is
released: the program is imported and the engine opened, which is what a release costs before it reads a row.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from tests.benchmarks import process_tree

SPARK = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def main(config: str, engine: str, *options: str) -> None:
    from jobs.config import EngineChoice, load_config
    from jobs.planning.engines import open_engine
    from jobs.planning.job import job_of
    from jobs.release.run import release

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    name, _, variant = engine.partition(":")
    settings: dict[str, object] = {}
    if name == "spark":
        settings = {"settings": {"spark.remote": variant} if variant else SPARK}
    path = Path(config)
    choice = EngineChoice(name=name, options=settings)  # type: ignore[arg-type]
    job = job_of(load_config(path).model_copy(update={"engine": choice}), path.parent)
    opened = open_engine(choice)
    if name == "spark" and "--empty" in options:
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        assert session is not None
        session.range(2).collect()
    started = time.perf_counter()
    if "--empty" not in options:
        release(job, engine=opened)
    seconds = process_tree.cpu_seconds()
    print(json.dumps({"cpu": seconds, "wall": time.perf_counter() - started}))


if __name__ == "__main__":
    main(*sys.argv[1:])
