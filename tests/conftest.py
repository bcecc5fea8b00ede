"""How the suite runs: property tests have no deadline, so that no slow machine fails them."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("house", deadline=None)
settings.load_profile("house")
