"""The closed union of linear queries whose exact answers are integers."""

from __future__ import annotations

from dpcore.queries.conjunctions import Conjunctions
from dpcore.queries.marginals import Marginals
from dpcore.queries.units import UnitCount

Queries = Marginals | Conjunctions

__all__ = ["Conjunctions", "Marginals", "Queries", "UnitCount"]
