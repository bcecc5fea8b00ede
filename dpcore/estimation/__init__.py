"""Post-processing: noisy measurements and noisy draws become answers and models; none of it costs privacy.

Open first: ``model.py``, what every model answers; then ``least_squares.py``, the answers and intervals of mechanisms
that have no model.

Subpackages:
    graphical: models that factorise over a junction tree, fitted to noisy marginals. Recommended for synthetic rows and
        for workloads of marginals over many attributes.
    multiplicative_weights: MWEM's update, on a dense table, on independent factors, or on the weights of queries.
    reconstruction: unbiased least squares from measured strategies and residuals; non-negative tables as an option.
    baskets: a model of baskets, a mixture of products by size and taste, from noisy sizes, counts and pairs.
    itemsets: candidates, supports and association rules from noisy counts.
    clipping: what clipping of contributions took from conjunctions, and how to shrink and complete them.

Files:
    model.py: the protocol of a model.
    independent.py: the product of one-way marginals, the smallest model.
    row_partitions.py: synthetic rows in partitions that any worker makes alone; rounded_items.py: those of independent
        items.
    array_archive.py: arrays in a zip archive, the file of a model.
    record_model.py: a model that is a list of weighted records.
    least_squares.py: answers with standard deviations and intervals; Kronecker products times a vector.
    linear_answers.py: answers of a workload from the tables of a model.
"""

from __future__ import annotations
