"""Where generated data go."""

from __future__ import annotations

from pathlib import Path

from dpcore.errors import ConfigError


def empty_folder(folder: str | Path) -> Path:
    """Makes the folder; refuses one that holds something, so that no dataset mixes two runs. Raises ConfigError."""
    path = Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ConfigError(f"{folder} holds something already; want a new or an empty folder")
    path.mkdir(parents=True, exist_ok=True)
    return path
