"""The version that ids and certificates name; it travels with the code, so that a zip on a cluster has it too."""

from __future__ import annotations

VERSION = "0.1.0"
