"""More synthetic rows of a published release. Drawing them is post-processing and costs no budget."""

from __future__ import annotations

import json
from pathlib import Path

from dpcore.errors import ConfigError
from dpcore.mechanisms.api import Progress
from jobs.config import EngineChoice
from jobs.config.release import LARGEST_ROWS
from jobs.objects.output import Output, local_copy, read_file
from jobs.outputs.items_file import ITEMS_FILE
from jobs.outputs.model_file import BASKETS, MODEL, read_baskets, read_model
from jobs.planning.engines import open_row_workers
from jobs.planning.job import Job
from jobs.release.discovery import with_published_items
from jobs.release.evaluation import published_output
from jobs.release.folders import check_outside
from pipelines.generate.checks import empty_folder, want_at_least
from pipelines.generate.rows import write_rows


def advice_on_rows(job: Job, output: Output) -> str | None:
    """How to get as many synthetic rows as the config wants, if a published release has another number; else None.

    The number of rows is no part of the release id, because rows are drawn from noisy answers and cost no budget.

    job: The release.
    output: Its published folder.
    """
    wanted = job.config.output.synthetic_rows
    published = json.loads((read_file(output, "certificate.json") or b"{}").decode()).get("synthetic_rows") or 0
    if not isinstance(wanted, int) or wanted in (0, published):
        return None
    return (
        f"the release was published with {published:,} synthetic rows; draw {wanted:,} at no cost with: marquee "
        f"generate rows CONFIG FOLDER --rows {wanted}"
    )


def write_more_rows(
    job: Job, folder: Path, rows: int, seed: int, progress: Progress, engine: EngineChoice | None = None
) -> list[Path]:
    """Draws synthetic rows from the model of a published release and writes them to a folder.

    job: The release.
    folder: A new or empty folder outside the data.
    rows: Number of rows, from 1 to ``LARGEST_ROWS``.
    seed: Public seed, at least 0. The rows are a function of the release, their number and the seed.
    progress: Called with the number of rows written so far, and the number of all rows.
    engine: The engine on which rows are drawn; by default that of the config. It affects the speed, never the rows.

    Returns: The written files.
    Raises: ConfigError when the release is not published or has no model, or when the folder is not empty or lies among
        the data, or when the engine's extra is not installed. EngineError when the engine does not start or finish.
    """
    want_at_least(1, rows=rows)
    want_at_least(0, seed=seed)
    if rows > LARGEST_ROWS:
        raise ConfigError(f"--rows is {rows:,}; want at most {LARGEST_ROWS:,} rows")
    check_outside(job, folder, "part-00000.parquet")
    # Only the model, the items and the certificate are read, so a copy of a release without its answers will do.
    output = published_output(job, (MODEL, BASKETS, ITEMS_FILE, "certificate.json"))
    job = with_published_items(job, output)
    with local_copy(output, [MODEL, BASKETS]) as published:
        model = read_model(published, job.layout) or read_baskets(published, job.layout)
    if model is None:
        raise ConfigError(
            f"release {job.release_id[:12]} has no {MODEL}, because {job.config.mechanism.name} fits no graphical "
            "model and no model of baskets; want a release of a mechanism that does"
        )
    workers = open_row_workers(engine or job.config.engine, rows)
    return write_rows(model, rows, job.layout, empty_folder(folder), seed=seed, workers=workers, progress=progress)
