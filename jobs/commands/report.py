"""marquee report"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jobs.options import AsJson, echo_result


def report(
    folder: Annotated[str, typer.Argument(help="The folder of a published release, or its URL.")],
    out: Annotated[Path | None, typer.Option("--out", help="The HTML file; by default FOLDER.html beside it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a report of a published release: one HTML file for everyone, with charts and search.

    It is made of published files alone. No data are read, and no budget is spent. It needs the extra [report].

    Examples:

        marquee report out/people

        marquee report s3://bucket/releases/people --out people.html
    """
    from dpcore.errors import ConfigError
    from jobs.objects.address import is_url
    from jobs.report import write_report

    if out is None and is_url(folder):
        raise ConfigError("--out is missing; a release in a store needs the name of a local HTML file")
    path = Path(folder.rstrip("/") + ".html") if out is None else out
    echo_result(as_json, {"report": str(write_report(folder, path))}, f"Wrote {path}.")
