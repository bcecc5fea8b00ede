"""The version that release ids and certificates name. It is part of the code, so that a zip on a cluster has it too."""

from __future__ import annotations

import platform
from importlib import metadata

VERSION = "0.10.0"

# Packages that draw, compute or write a release.
_PARTS = ("numpy", "scipy", "numba", "highspy", "pyarrow")


def versions() -> dict[str, str]:
    """Versions of Marquee, Python and the packages that a release was made with."""
    return {
        "marquee": VERSION,
        "python": platform.python_version(),
        **{part: metadata.version(part) for part in _PARTS},
    }
