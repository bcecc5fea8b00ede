"""The closed union of linear queries whose exact answers are integers.

* Of a table: ``marginals`` (contingency tables, open it first), ``products`` (Kronecker products of integer matrices
  applied to marginals: prefixes, ranges, strategies), ``ranges`` (matrices of such rows), ``symmetric`` (sums over
      classes of values).
* Of 0/1 columns, one-hot or items of baskets: ``conjunctions``, ``parities``; ``generation`` chooses random ones.
* Of units: ``units`` (their number), ``clipped`` (how many queries each satisfies, and sums that no unit dominates).
* For strategies: ``residual_matrices``, ``residual_frames``, ``decomposition``, ``implicit`` (a matrix by what it
  does), ``distinct``.

Every query knows its size, a digest for the journal, and nothing about data; ``kernel/sensitivity.py`` has what each
may cost.
"""

from __future__ import annotations

from dpcore.queries.clipped import ClippedSums, SatisfactionHistogram
from dpcore.queries.conjunctions import Conjunctions
from dpcore.queries.marginals import Marginals
from dpcore.queries.parities import Parities
from dpcore.queries.products import Product, Products, rounded_rows
from dpcore.queries.symmetric import BlockQueries, SymmetricQueries
from dpcore.queries.units import UnitCount

# What engines count over the data; the kernel makes the answers of products from marginals.
CountingQueries = Marginals | Conjunctions | Parities
Queries = CountingQueries | Products
# Sums over units of what depends on all queries that a unit satisfies.
UnitQueries = UnitCount | SatisfactionHistogram | ClippedSums
# All that can be measured; nobody asks for symmetric queries, other answers are made from theirs.
Measurable = Queries | UnitQueries | SymmetricQueries

__all__ = [
    "BlockQueries",
    "ClippedSums",
    "Conjunctions",
    "CountingQueries",
    "Marginals",
    "Measurable",
    "Parities",
    "Product",
    "Products",
    "Queries",
    "SatisfactionHistogram",
    "SymmetricQueries",
    "UnitCount",
    "UnitQueries",
    "rounded_rows",
]
