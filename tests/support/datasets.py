"""Where tests and benchmarks find shared real data, which is never part of the project."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def folder() -> Path:
    """The folder named by MARQUEE_DATASETS, by default ``../shared/data`` beside the project."""
    return Path(os.environ.get("MARQUEE_DATASETS") or ROOT / ".." / "shared" / "data").resolve()
