"""100 million rows of AIM's model of Adult, written by the local threads."""

from __future__ import annotations

from pipelines.generate.parallel_rows import LocalRowWorkers
from tests.benchmarks.graphical.rows_at_scale import rows_case

CASE = rows_case("local", LocalRowWorkers, largest_mb=1_536.0)
