"""HDMM, the high-dimensional matrix mechanism: it measures optimised queries once, and least squares gives the answers.

``hdmm`` is the mechanism; open it first. The other modules decide which queries it measures:

* ``parts``: each part of the workload by its own strategy; the budget is split between the parts.
* ``marginals``: marginals under Laplace noise, by a few weighted marginals (OPT_M).
* ``product_marginals``: the same for products that ask an attribute the same queries in every term.
* ``kronecker``: products over few attributes under Laplace noise, by one product (OPT_x).
* ``clusters``: products over many attributes under Laplace noise, by one product per cluster of terms (OPT_+).
* ``products``: marginals of prefixes and ranges under Gaussian noise, by all their residuals, which is optimal.
* ``symmetric``: products over few attributes under Gaussian noise, by the best strategy that keeps the symmetries.
* ``joint_strategy``: the best of these strategies for a whole workload.
* ``strategy_key``: the cache key of a strategy for products.

The optimisers themselves are in ``dpcore.strategies``.
"""

from __future__ import annotations
