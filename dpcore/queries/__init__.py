"""Linear queries with integer exact answers: a closed union of query types that the kernel can measure.

Open first: ``marginals.py``. Every query type is a frozen value that knows its size and a digest for the journal, and
nothing about data. ``dpcore/kernel/sensitivity.py`` derives the sensitivity of each type.

Queries about a table:
    marginals.py: contingency tables of cliques. Recommended wherever a workload consists of whole marginals.
    products.py: Kronecker products of integer matrices, applied to marginals: prefixes, ranges, strategies.
    ranges.py: the matrices of prefixes, ranges and single codes, and products made of them.
    symmetric.py: sums over classes of exchangeable values; the map of that topic is ``dpcore.strategies.symmetric``.

Queries about 0/1 columns (one-hot columns of a table, or items of baskets):
    conjunctions.py: conjunctions of literals.
    itemsets.py: the request for frequent itemsets, whose queries a mechanism chooses.
    parities.py: parities of 1 to 3 columns.
    generation.py: random conjunctions and parities, chosen from public facts.
    mixed_orders.py: random conjunctions of several orders.
    lattice.py: conjunctions with negations as signed sums of positive ones; sorted_rows.py has its index.
    distinct.py: the set of distinct rows that ``generation.py`` collects.

Queries about units:
    units.py: the number of units.
    clipped.py: a histogram of how many queries each unit satisfies, and sums in which no unit has much weight.

Building blocks of strategies:
    residual_matrices.py, residual_frames.py, decomposition.py: means and residuals of one attribute; the map of that
        topic is ``dpcore.strategies.residual_planning``.
"""

from __future__ import annotations

from dpcore.queries.clipped import ClippedSums, SatisfactionHistogram
from dpcore.queries.conjunctions import Conjunctions
from dpcore.queries.itemsets import Itemsets
from dpcore.queries.marginals import Marginals
from dpcore.queries.parities import Parities
from dpcore.queries.products import Product, Products, rounded_rows
from dpcore.queries.symmetric import BlockQueries, SymmetricQueries
from dpcore.queries.units import UnitCount

# Queries that engines answer from the data. The kernel computes the answers of products from marginals.
CountingQueries = Marginals | Conjunctions | Parities
Queries = CountingQueries | Products
# Sums over units of a function of all queries that a unit satisfies.
UnitQueries = UnitCount | SatisfactionHistogram | ClippedSums
# Everything that can be measured. No workload contains symmetric queries; only mechanisms measure them.
Measurable = Queries | UnitQueries | SymmetricQueries

__all__ = [
    "BlockQueries",
    "ClippedSums",
    "Conjunctions",
    "CountingQueries",
    "Itemsets",
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
