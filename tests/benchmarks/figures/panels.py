"""Every panel by its name, in the order of the report."""

from __future__ import annotations

from typing import Final

from tests.benchmarks.figures import dual_panels, fem_panels
from tests.benchmarks.figures.panel import Panel

PANELS: Final[dict[str, Panel]] = {panel.name: panel for panel in (*dual_panels.PANELS, *fem_panels.PANELS)}
