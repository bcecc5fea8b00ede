"""DQRS with default parameters on the complete rows of Adult, as the paper's authors binned them."""

from __future__ import annotations

from dpcore.mechanisms.query_game.dqrs import Dqrs
from tests.benchmarks.dual_release import adult181, table_case

CASE = table_case(Dqrs(), adult181, largest=0.068, mean=None, added=None)
