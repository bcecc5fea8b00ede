"""How the suite runs: recorded randomness, property tests without a deadline, and the tiers.

Tests of ``statistical`` and ``audit`` draw from the operating system, and state their chance of a false alarm. All
others draw from a stream that is a function of the test's name, or of the fixture's where several tests share it:
whichever tests run, in whatever order and process, each one sees the same draws.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

# Before numpy is imported: two workers whose linear algebra takes all cores each spend most of their time waiting.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Heartbeats come after a while, which depends on the machine; tests of them choose another interval.
os.environ["MARQUEE_HEARTBEAT_SECONDS"] = "0"

from tests.support.recorded_randomness import recorded
from tests.support.tiers import assign_tiers, draws_from_the_system, late_tests, skip_after_deadline

settings.register_profile("house", deadline=None, derandomize=True, database=None)
settings.load_profile("house")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of the full tier before any is deselected."""
    assign_tiers(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Ends the full tier where its time is limited, before any fixture starts."""
    skip_after_deadline(item)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how many tests the limit left out."""
    said = late_tests(terminalreporter.stats.get("skipped", []))
    if said:
        terminalreporter.write_line(said, yellow=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Records the randomness of one test, from its setup to its teardown."""
    if draws_from_the_system(item.path):
        return (yield)
    with recorded(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Iterator[None]:
    """Records the randomness of a fixture that several tests share."""
    if fixturedef.scope == "function" or draws_from_the_system(request.path):
        return (yield)
    with recorded(f"{fixturedef.baseid}::{fixturedef.argname}[{getattr(request, 'param_index', 0)}]"):
        return (yield)
