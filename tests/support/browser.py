"""Headless Chromium: the one of this machine, or installed from Debian's packages where a test may do that."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def chromium() -> str:
    """The program. The test is skipped where there is none and none can be installed."""
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None and shutil.which("apt-get") and os.geteuid() == 0:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
            subprocess.run(["apt-get", "--quiet", *command], check=True, capture_output=True, env=environment)
        program = shutil.which("chromium")
    if program is None:
        pytest.skip("no Chromium on this machine; install the package chromium")
    return program


@contextmanager
def open_browser() -> Iterator[Any]:
    """A browser of Playwright, as long as the context lasts."""
    from playwright.sync_api import sync_playwright

    program = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=_FLAGS)
        yield browser
        browser.close()
