"""Checks that a generator makes before it writes anything."""

from __future__ import annotations

from pathlib import Path

from dpcore.errors import ConfigError


def want_at_least(lowest: int, **settings: int) -> None:
    """Raises ConfigError that names the first setting below ``lowest``."""
    for name, value in settings.items():
        if value < lowest:
            raise ConfigError(f"{name} is {value}; want >= {lowest}")


def want_blocks_for(files: int, blocks: int, block: str) -> None:
    """Checks that each file gets at least one block.

    files: Number of files.
    blocks: Number of blocks.
    block: Description of a block, for the error message.

    Raises: ConfigError when there are no files, or more files than blocks.
    """
    if not 1 <= files <= blocks:
        raise ConfigError(f"files is {files}; want 1 .. {blocks}, which is at most one per {block}")


def empty_folder(folder: str | Path) -> Path:
    """Creates the folder. Raises ConfigError if it is not empty, so that no dataset mixes the files of two runs."""
    path = Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ConfigError(f"{folder} exists and is not an empty folder; want a new or an empty folder")
    path.mkdir(parents=True, exist_ok=True)
    return path
