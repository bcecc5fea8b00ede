"""Example data, so that a first release needs no data of one's own."""

from __future__ import annotations

import os
from pathlib import Path

from pipelines.generate.table import write_table


def example_table(folder: str | os.PathLike[str], *, rows: int = 20_000, seed: int = 1) -> Path:
    """Writes a table of people, as ``marquee generate table`` does, with the unit column ``person_id``.

    folder: A new or empty folder.
    rows: Number of people, one row each, at least 1.
    seed: Public seed. The rows depend only on ``rows`` and ``seed``.

    Returns: The schema file, FOLDER.schema.yaml.
    Raises: ConfigError when the folder is not empty, or the schema exists already.
    """
    return write_table(Path(folder), rows=rows, seed=seed)
