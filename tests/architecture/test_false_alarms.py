"""Draws of the operating system fail a run of the whole suite with a chance below 1e-4.

Statistical and audit tests alone draw from the operating system, and each states the chance that right code fails one
of its cases. By the union bound a run has at most the sum as chance of a false alarm, however its tests depend on
each other.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.checks import ROOT
from tests.support.tiers import DRAW_FROM_THE_SYSTEM

LARGEST_SUM = 1e-4
PROGRAM = """
import json, sys
import pytest

class Collector:
    def pytest_collection_finish(self, session):
        self.stated = {}
        for item in session.items:
            marker = item.get_closest_marker("false_alarm")
            self.stated[item.nodeid] = None if marker is None else float(*marker.args)

collector = Collector()
code = pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *sys.argv[1:]], plugins=[collector])
print("\\n" + json.dumps(collector.stated))
sys.exit(code)
"""


@pytest.mark.full
def test_the_chances_of_all_cases_sum_to_less_than_one_in_ten_thousand() -> None:
    command = [sys.executable, "-c", PROGRAM, *map(str, DRAW_FROM_THE_SYSTEM)]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    stated = json.loads(printed.splitlines()[-1])
    assert {test.split("/")[1] for test in stated} == {folder.name for folder in DRAW_FROM_THE_SYSTEM}
    assert [test for test, chance in stated.items() if chance is None] == []
    assert all(0 <= chance < 1e-4 for chance in stated.values())
    assert sum(stated.values()) > 1e-5  # A sum over tests that were not found would be small.
    assert sum(stated.values()) < LARGEST_SUM
