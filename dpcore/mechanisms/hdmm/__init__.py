"""HDMM, the high-dimensional matrix mechanism: it measures optimised queries once; answers follow by least squares.

``hdmm`` is the mechanism; open it first. Which queries it measures, another module decides for each kind of workload:

* ``marginals``: marginals under Laplace noise, from a few weighted marginals.
* ``terms``, ``kronecker``, ``clusters``: unions of products under Laplace noise, by term, in one product, or by cluster
  of terms.
* ``products``: marginals of prefixes and ranges under Gaussian noise, by all their residuals, which is optimal.
* ``symmetric``: unions of products about few attributes under Gaussian noise, by the best strategy that keeps
  symmetries.
* ``joint_strategy``: one strategy for all parts of a workload, where that is possible.
* ``strategy_key``: how caches of strategies know a workload.

The optimisers themselves are in ``dpcore.strategies``.
"""

from __future__ import annotations
