"""Shared real data that a test cannot do without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.datasets import folder


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
