"""Symmetric queries: the optimum under Gaussian noise where a workload treats many values alike.

If swapping two values of an attribute leaves the workload's Gram matrix unchanged, the optimal strategy can be chosen
to be unchanged too. The problem over n cells then falls into blocks as large as the number of orbits of cells, so that
the optimum for domains of billions of cells takes seconds.

Open first: ``symmetry.py``, then ``optimum.py``.

Here, in the order of use:
    symmetry.py: exchangeable values, and the workload's Gram matrix in blocks.
    optimum.py: the optimal block matrices, with a certificate.
    strategy.py: integer queries next to the optimum, and their pseudo-inverses.
    matrix.py: the rounding of one block to integers.
    variances.py: the variance of every answer.

In other rooms, where the import contracts want them:
    dpcore.queries.symmetric: the queries as values that the kernel can measure.
    dpcore.kernel.symmetric_sensitivity: their exact sensitivity.
    dpcore.mechanisms.hdmm.symmetric: measures them and reconstructs the answers.

Recommended where a domain has at most 2,048 orbits; ``dpcore.strategies.residual_planning`` has no such limit.
"""

from __future__ import annotations
