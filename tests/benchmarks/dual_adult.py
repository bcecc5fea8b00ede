"""DualQuery with default parameters on the complete rows of Adult, as the paper's authors binned them."""

from __future__ import annotations

from dpcore.mechanisms.query_game.dual_query import DualQuery
from tests.benchmarks.dual_release import adult181, table_case

CASE = table_case(DualQuery(), adult181, largest=0.08, mean=None, added=None)
