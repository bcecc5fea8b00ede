"""How the suite runs: recorded randomness, property tests without a deadline, and the tiers.

Tests of ``statistical`` and ``audit`` draw from the operating system, and state their chance of a false alarm. All
others draw from a stream that is a function of the test's name, or of the fixture's where several tests share it:
whichever tests run, in whatever order and process, each one sees the same draws.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Before numpy is imported: two workers whose linear algebra takes all cores each spend most of their time waiting.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tests.support.recorded_randomness import recorded

settings.register_profile("house", deadline=None, derandomize=True, database=None)
settings.load_profile("house")

ROOT = Path(__file__).parent
DRAW_FROM_THE_SYSTEM = (ROOT / "statistical", ROOT / "audit")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Audit and statistical tests are of the full tier, but for one smoke test of each section."""
    for item in items:
        if _draws_from_the_system(item.path) and item.get_closest_marker("smoke") is None:
            item.add_marker(pytest.mark.full)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Records the randomness of one test, from its setup to its teardown."""
    if _draws_from_the_system(item.path):
        return (yield)
    with recorded(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Iterator[None]:
    """Records the randomness of a fixture that several tests share."""
    if fixturedef.scope == "function" or _draws_from_the_system(request.path):
        return (yield)
    with recorded(f"{fixturedef.baseid}::{fixturedef.argname}[{getattr(request, 'param_index', 0)}]"):
        return (yield)


def _draws_from_the_system(path: Path) -> bool:
    return any(folder in path.parents for folder in DRAW_FROM_THE_SYSTEM)
