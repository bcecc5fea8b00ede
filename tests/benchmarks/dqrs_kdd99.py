"""DQRS with default parameters on KDD99."""

from __future__ import annotations

from dpcore.mechanisms.query_game.dqrs import Dqrs
from tests.benchmarks.dual_release import kdd99, table_case

CASE = table_case(Dqrs(), kdd99, largest=0.022, mean=0.0012, added=0.016)
