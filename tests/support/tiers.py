"""Which tests the fast tier runs: all but those that are marked ``full``, by hand or here.

``make test`` leaves ``full`` out and ``make test-rest`` runs it, so that every test is of exactly one tier.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
UNTIL = "MARQUEE_FULL_TIER_UNTIL"
DRAW_FROM_THE_SYSTEM = (TESTS / "statistical", TESTS / "audit")


def draws_from_the_system(path: Path) -> bool:
    """Whether the tests of a file draw from the operating system, and not from a recorded stream."""
    return any(folder in path.parents for folder in DRAW_FROM_THE_SYSTEM)


def assign_tiers(items: Sequence[pytest.Item]) -> None:
    """Marks the tests of the full tier.

    Of a test with the marker ``smoke(n)``, n cases, spread evenly, stay in the fast tier; ``smoke`` keeps all. Audit
    and statistical tests without the marker are of the full tier.
    """
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.split("[")[0]].append(item)
    for case in cases.values():
        smoke = case[0].get_closest_marker("smoke")
        if smoke is None:
            kept = [] if draws_from_the_system(case[0].path) else case
        else:
            kept = _spread_evenly(case, *smoke.args)
        for item in case:
            if item not in kept:
                item.add_marker(pytest.mark.full)


def _spread_evenly(cases: list[pytest.Item], count: int | None = None) -> list[pytest.Item]:
    """The first case, and count - 1 others; all without a count."""
    if count is None or count >= len(cases):
        return cases
    return [cases[index * len(cases) // count] for index in range(count)]


def skip_after_deadline(item: pytest.Item) -> None:
    """Skips a test of the full tier that would begin later than ``MARQUEE_FULL_TIER_UNTIL``, in seconds since 1970."""
    until = os.environ.get(UNTIL)
    if until and item.get_closest_marker("full") and time.time() >= float(until):
        pytest.skip(f"later than {UNTIL}")


def late_tests(skipped: Sequence[pytest.TestReport]) -> str:
    """What to say of the tests that the deadline left out; empty if it left out none."""
    late = sum(UNTIL in str(report.longrepr) for report in skipped)
    return f"{late} of the tests of the full tier did not begin before {UNTIL}" if late else ""
