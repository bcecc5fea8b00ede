"""The closed union of linear queries whose exact answers are integers."""

from __future__ import annotations

from dpcore.queries.clipped import ClippedSums, SatisfactionHistogram
from dpcore.queries.conjunctions import Conjunctions
from dpcore.queries.marginals import Marginals
from dpcore.queries.parities import Parities
from dpcore.queries.products import Product, Products, rounded_rows
from dpcore.queries.units import UnitCount

# What engines count over the data; the kernel makes the answers of products from marginals.
CountingQueries = Marginals | Conjunctions | Parities
Queries = CountingQueries | Products
# Sums over units of what depends on all queries that a unit satisfies.
UnitQueries = UnitCount | SatisfactionHistogram | ClippedSums

__all__ = [
    "ClippedSums",
    "Conjunctions",
    "CountingQueries",
    "Marginals",
    "Parities",
    "Product",
    "Products",
    "Queries",
    "SatisfactionHistogram",
    "UnitCount",
    "UnitQueries",
    "rounded_rows",
]
