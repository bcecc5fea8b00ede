"""Generated inputs, created once and then reused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path


def kept(data: Path, name: str, make: Callable[[Path], object]) -> Path:
    """The folder ``data``/``name``; ``make`` fills it when it is not there. Half a folder is never left behind."""
    folder = data / name
    if not folder.exists():
        partial = data / f"{name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.parent.mkdir(parents=True, exist_ok=True)
        make(partial)
        partial.rename(folder)
    return folder
