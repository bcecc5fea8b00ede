"""Where tests find shared real data, which is never part of the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def folder() -> Path:
    """The folder named by MARQUEE_DATASETS, by default ``../shared/data`` beside the project."""
    return Path(os.environ.get("MARQUEE_DATASETS") or ROOT / ".." / "shared" / "data").resolve()


def dataset(name: str) -> Path:
    """The path of one dataset, such as ``dataset("raw/adult")``.

    Skips the test when it is absent, with a message that names the path; fails it instead when
    MARQUEE_REQUIRE_DATASETS=1, so that a machine which has the data cannot pass by skipping.
    """
    path = folder() / name
    if path.exists():
        return path
    message = f"no shared data at {path}; set MARQUEE_DATASETS to the folder that holds {name}"
    if os.environ.get("MARQUEE_REQUIRE_DATASETS") == "1":
        pytest.fail(message)
    pytest.skip(message, allow_module_level=True)
