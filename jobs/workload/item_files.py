"""Reads a public list of items, whose order gives the codes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dpcore.errors import ConfigError
from jobs.config import Dataset
from jobs.config.items import ItemsChoice
from jobs.workload.public_files import read_texts
from pipelines.item_names import ItemNames

COLUMN: Final = "item"
"""Column of the names in files with columns."""

KEY: Final = "dataset.items.file"
"""Config key of the list, under which its hash is recorded."""


def item_names_of(dataset: Dataset) -> ItemNames | None:
    """The public names of the items of baskets; None if items are numbers, or are to be discovered.

    dataset: The section ``dataset`` of a config, with absolute paths.

    Raises: The exceptions of ``read_item_names``.
    """
    choice = dataset.items
    if not isinstance(choice, ItemsChoice) or choice.file is None:  # Items are numbers, or to be discovered.
        return None
    return read_item_names(Path(choice.file))


def read_item_names(path: Path) -> ItemNames:
    """Reads a list of items.

    path: A .parquet or .csv file with a column ``item`` of text or integers; further columns are ignored. In any other
        file, each line is one item, and empty lines are skipped.

    Raises: ConfigError that names the file, and the row or line if it is about one.
    """
    try:
        return ItemNames.of(read_texts(path, COLUMN))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
