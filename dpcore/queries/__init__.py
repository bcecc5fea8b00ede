"""The closed union of linear queries whose exact answers are integers."""

from __future__ import annotations

from dpcore.queries.conjunctions import Conjunctions
from dpcore.queries.marginals import Marginals
from dpcore.queries.products import Product, Products, rounded_rows
from dpcore.queries.units import UnitCount

# What engines count over the data; the kernel makes the answers of products from marginals.
CountingQueries = Marginals | Conjunctions
Queries = CountingQueries | Products

__all__ = [
    "Conjunctions",
    "CountingQueries",
    "Marginals",
    "Product",
    "Products",
    "Queries",
    "UnitCount",
    "rounded_rows",
]
