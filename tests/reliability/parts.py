"""The parts of the reliability suite by name. A part is a section of tests.audit.section in this package."""

from __future__ import annotations

import importlib

from tests.audit.section import Section

# Part by name: the module tests.reliability.<name> has TITLE, CLAIM and run(size). In the order of RESULTS.md.
PARTS = (
    "faults",
    "fuzzing",
    "influence",
    "soak",
)


def load_part(name: str) -> Section:
    module = importlib.import_module(f"tests.reliability.{name}")
    return Section(name, module.TITLE, module.CLAIM, module)
