"""The version stands for every default in a release id, so a default may not change without it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

from dpcore.mechanisms import gaussian_pgm, independent
from dpcore.mechanisms.query_game import dual_loop
from dpcore.mechanisms.registry import MECHANISMS
from jobs.config import Privacy
from jobs.planning.job import currency_of
from jobs.version import VERSION
from tests.support.constants import PROFILES

# Of the defaults below (0.1.0: of mechanisms alone; up to 0.9.0: without constants that are no settings); a new version
# is a new row.
DEFAULTS_OF = {
    "0.1.0": "da013f0e88e21d4a",
    "0.2.0": "4226559fc62eb3bd",
    "0.3.0": "2facc6a9d175254e",
    "0.4.0": "29740bc4ceeebf75",
    "0.5.0": "a97df85ef2096341",
    "0.6.0": "503a8648a0b23326",
    "0.7.0": "503a8648a0b23326",
    "0.8.0": "f7ba1bd2d152bd18",
    "0.9.0": "f7ba1bd2d152bd18",
    "0.10.0": "c9713b9f9bb0fead",
    "0.11.0": "4ad80be10610f368",
    "0.12.0": "c5e11b3f5ad10178",
    "0.13.0": "c5e11b3f5ad10178",
    "0.14.0": "6df42d4820637594",
    "0.15.0": "5390a91e6b2afbd7",
    "0.16.0": "a597f180ac784bfe",
    "0.16.1": "a597f180ac784bfe",
    "0.17.0": "dda9f2cac3a12b67",
    "0.18.0": "0c56f3e4ecda646b",
    "0.19.0": "0c56f3e4ecda646b",
    "0.20.0": "b342a505ed5c5c2a",
    "0.21.0": "3c2458c7bcef2079",
    "0.22.0": "75fe12fca1fcf372",
    "0.23.0": "a49bf2e211559e8e",
    "0.24.0": "9da5ace72eb1f235",
    "0.25.0": "9da5ace72eb1f235",
    "0.26.0": "fbeb606064b91d43",
}


def test_a_changed_default_needs_a_new_version() -> None:
    """Otherwise two releases that answer differently would share an id, and a retry would meet a stranger's journal."""
    defaults = {name: asdict(mechanism()) for name, mechanism in MECHANISMS.items()}  # type: ignore[call-overload]
    profiles = {
        mechanism.__name__: {name: asdict(profile) for name, profile in profiles.items() if " with " not in name}
        for mechanism, profiles in PROFILES.items()
    }  # A profile of tests is named after what it changes.
    privacy = Privacy(epsilon=1.0, delta=1e-6)
    accounting = {name: currency_of(privacy, mechanism()) for name, mechanism in MECHANISMS.items()}  # type: ignore[call-overload]
    others = [independent.UNITS_SHARE, asdict(gaussian_pgm._FIT_SETTINGS), dual_loop._NODES]
    content = json.dumps([defaults, profiles, others, accounting], sort_keys=True)
    found = hashlib.sha256(content.encode()).hexdigest()[:16]
    assert DEFAULTS_OF.get(VERSION) == found, f"raise the version, and record {found} for it; defaults are {content}"
