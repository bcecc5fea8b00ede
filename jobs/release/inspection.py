"""What ``marquee validate`` counts: everything that a release of the data would map, drop or truncate. SENSITIVE."""

from __future__ import annotations

from jobs.planning.job import Job
from jobs.release.input import engine_of, open_rows
from pipelines.inspect import Findings, inspect_source
from pipelines.source import SALT_BYTES


def inspected(job: Job) -> Findings:
    """Reads all data of a release once and counts what it would not take as it is. SENSITIVE.

    Files are read by this process whatever the engine is, and a table of Spark's catalog by Spark.

    job: The release.

    Raises: The exceptions of ``jobs.release.input.open_input``.
    """
    open_once = engine_of(job, None, None)
    # No unit is truncated here, so any salt will do.
    source = open_rows(job, job.layout, bytes(SALT_BYTES), open_once)
    if job.config.dataset.catalog is None:
        return inspect_source(source)
    from pipelines.engines.spark import SparkEngine

    engine = open_once()
    assert isinstance(engine, SparkEngine)  # It has opened the table.
    return inspect_source(source, engine)
