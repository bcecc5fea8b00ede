"""Writes the SENSITIVE report: an HTML file without scripts, which only its owner may read."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import Any

from dpcore.errors import ConfigError
from jobs.evaluation_report.content import Content, gathered
from jobs.planning.job import Job

_MODE = 0o600


def write_evaluation_report(job: Job, path: Path, frame: Any = None) -> Path:
    """Writes how far a published release is from the exact answers. SENSITIVE: for the operator alone.

    job: The release.
    path: The HTML file. A new file may be read by its owner alone; an existing one is refused.
    frame: The data, if the config names a frame.

    Returns: ``path``.
    Raises: ConfigError when the release is not published, the file exists, or the extra ``report`` is not installed.
    """
    if path.exists():
        raise ConfigError(f"{path} exists; want a new file, which only its owner may read")
    text = rendered(gathered(job, frame))
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE), "w", encoding="utf-8") as file:
        file.write(text)
    return path


def rendered(content: Content) -> str:
    """The HTML of a report. SENSITIVE. Raises ConfigError when the extra ``report`` is not installed."""
    try:
        import jinja2
    except ModuleNotFoundError as error:
        raise ConfigError("a report needs 'jinja2'; install marquee[report]") from error
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    styles = resources.files("jobs.report").joinpath("page/report.css").read_text(encoding="utf-8")
    page = resources.files("jobs.evaluation_report").joinpath("evaluation.html").read_text(encoding="utf-8")
    return environment.from_string(page).render(content=content, styles=styles)
