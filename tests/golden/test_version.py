"""The version stands for every default in a release id, so a default may not change without it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

from dpcore.mechanisms.registry import MECHANISMS
from jobs.version import VERSION

# Of the defaults below; a new version is a new row.
DEFAULTS_OF = {"0.1.0": "da013f0e88e21d4a"}


def test_a_changed_default_needs_a_new_version() -> None:
    """Otherwise two releases that answer differently would share an id, and a retry would meet a stranger's journal."""
    defaults = {name: asdict(mechanism()) for name, mechanism in MECHANISMS.items()}  # type: ignore[call-overload]
    content = json.dumps(defaults, sort_keys=True)
    found = hashlib.sha256(content.encode()).hexdigest()[:16]
    assert DEFAULTS_OF.get(VERSION) == found, f"raise the version, and record {found} for it; defaults are {content}"
