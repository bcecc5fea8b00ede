"""All checks of ``marquee doctor``, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from dpcore.errors import MarqueeError
from jobs.diagnosis import config as needs
from jobs.diagnosis import machine
from jobs.diagnosis.findings import Finding, fail, ok
from jobs.objects.address import is_url
from jobs.planning.job import Job, load_job


def examined(config: Path | None, settings: Sequence[str], deep: bool) -> Iterator[Finding]:
    """Yields the findings about this machine and, if there is a config, about what it needs.

    config: The config file; None for the machine alone.
    settings: Keys that are set in place of the file's.
    deep: Whether to start Java and Spark.
    """
    yield machine.check_python()
    yield machine.check_packages()
    yield machine.check_extras()
    job, finding = _job(config, settings)
    engine = None if job is None else job.config.engine
    spark = engine is not None and engine.name == "spark"
    yield machine.check_java(deep, spark)
    yield machine.check_spark(deep, spark, None if engine is None or not spark else engine.options.get("settings"))
    yield machine.check_memory(None if job is None else job.plan.memory_bytes)
    yield from machine.check_disk(_folders(job), 0 if job is None else job.work.rows_bytes or 0)
    yield machine.check_kernels()
    if finding is not None:
        yield finding
    if job is not None:
        yield from _of_config(job)


def _of_config(job: Job) -> Iterator[Finding]:
    yield needs.check_needed_extras(job)
    yield needs.check_data(job)
    yield from needs.check_folders(job)  # Before the ledger is opened, which takes it away from other users.
    yield from needs.check_ledger(job)


def _job(config: Path | None, settings: Sequence[str]) -> tuple[Job | None, Finding | None]:
    if config is None:
        return None, None
    try:
        job = load_job(config, settings)
    except MarqueeError as error:
        return None, fail("config", " ".join(str(error).split()), "correct the config")
    return job, ok("config", f"{config} is valid, for release {job.release_id[:12]}")


def _folders(job: Job | None) -> dict[str, Path]:
    """Where files are written, by what they are for."""
    folders = machine.temporary_folder()
    if job is not None and not is_url(job.config.output.path):
        folders["the output and the journal"] = Path(job.config.output.path).parent
    return folders
