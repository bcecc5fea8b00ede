"""Writes a report: one file with its styles, scripts and figures, which fetches nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from pathlib import Path
from typing import Any

from dpcore.errors import ConfigError
from jobs.objects.output import Output, local_copy, output_of
from jobs.outputs.items_file import ITEMS_FILE
from jobs.outputs.itemset_tables import ITEMSETS, RULES
from jobs.outputs.model_file import MODEL
from jobs.reading.release_folder import ReleaseFolder
from jobs.report.content import Content, gathered
from jobs.verification.manifest import MANIFEST, SUCCESS

_SCRIPTS = ("vendor/d3.min.js", "vendor/plot.min.js", "page/report.js")


def write_report(folder: Output | str, path: Path) -> Path:
    """Writes the report of a release. Only published files are read; nothing is charged.

    folder: The folder of the release, or its URL.
    path: The new HTML file. It must not lie in the folder, whose files the manifest lists.

    Returns: ``path``.
    Raises: ConfigError when the folder is no release, ``path`` lies in it, or the extra ``report`` is not installed.
    """
    output = output_of("FOLDER", folder) if isinstance(folder, str) else folder
    if isinstance(output, Path) and path.resolve().is_relative_to(output.resolve()):
        raise ConfigError(
            f"{path} lies in the release, whose files are listed in {MANIFEST}; want a file outside of it"
        )
    names = [SUCCESS, "certificate.json", "answers.parquet", MODEL, MANIFEST, "synthetic/part-00000.parquet"]
    names += [ITEMS_FILE, ITEMSETS, RULES]
    with local_copy(output, names) as local:
        text = rendered(gathered(ReleaseFolder.open(local)), str(output))
    path.write_text(text, encoding="utf-8")
    return path


def rendered(content: Content, folder: str) -> str:
    """The HTML of a report.

    content: What it says.
    folder: The release's folder as a reader should name it.

    Raises: ConfigError when the extra ``report`` is not installed.
    """
    try:
        import jinja2
    except ModuleNotFoundError as error:
        raise ConfigError("a report needs 'jinja2'; install marquee[report]") from error
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    scripts = [_file(name) for name in _SCRIPTS]
    data = {"charts": content.charts, "searched": content.searched}
    return environment.from_string(_file("page/report.html")).render(
        content=content,
        folder=folder,
        styles=_file("page/report.css"),
        scripts=scripts,
        hashes=" ".join(f"'sha256-{_hash(script)}'" for script in scripts),
        figures=_in_script(data),
    )


def _file(name: str) -> str:
    return resources.files("jobs.report").joinpath(name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _in_script(data: dict[str, Any]) -> str:
    """JSON that can stand in a script element: no text in it can end the element or begin a comment."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
