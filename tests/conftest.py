"""How the suite runs: spread over worker processes, and with property tests that no slow machine fails."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("house", deadline=None)
settings.load_profile("house")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps a file in one worker, and everything that starts a JVM in one and the same worker."""
    for item in items:
        group = "spark" if item.get_closest_marker("spark") else item.path.as_posix()
        item.add_marker(pytest.mark.xdist_group(group))
