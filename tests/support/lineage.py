"""Lineage in tests: without the variables of the machine, and without those that the client leaves behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def without_lineage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes ``folder`` the home and the working folder, and removes the client's variables.

    The client derives further variables from OPENLINEAGE_URL. They are removed after the test, because each is set here
    for a moment, which makes monkeypatch restore that it was not there.
    """
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder / "home"))
    derived = [
        f"OPENLINEAGE__TRANSPORT__TRANSPORTS__DEFAULT_HTTP__{name}" for name in ("TYPE", "URL", "AUTH", "ENDPOINT")
    ]
    for name in {*derived, *(name for name in os.environ if name.startswith("OPENLINEAGE"))}:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
