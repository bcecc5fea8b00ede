"""DualQuery with default parameters on KDD99."""

from __future__ import annotations

from dpcore.mechanisms.query_game.dual_query import DualQuery
from tests.benchmarks.dual_release import kdd99, table_case

CASE = table_case(DualQuery(), kdd99, largest=0.028, mean=0.0018, added=0.022)
