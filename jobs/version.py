"""The version in release ids and certificates. It is a constant, because code in a zip archive has no metadata."""

from __future__ import annotations

import platform
from importlib import metadata

VERSION = "0.26.0"

# Packages that draw, compute or write the numbers of a release.
_DEPENDENCIES = ("numpy", "scipy", "numba", "highspy", "pyarrow")


def versions() -> dict[str, str]:
    """Versions of Marquee, Python and the packages that a release was made with."""
    return {
        "marquee": VERSION,
        "python": platform.python_version(),
        **{package: metadata.version(package) for package in _DEPENDENCIES},
    }
