"""Symmetric queries: the optimal strategy under Gaussian noise for a workload with exchangeable values.

Two values of an attribute are exchangeable if swapping them leaves the Gram matrix of the workload unchanged. Some
optimal strategy is then unchanged as well. In a suitable basis the problem over n cells splits into independent blocks,
none larger than the number of orbits of cells (an orbit is a choice of one class of exchangeable values per attribute).
The optimum for a domain of billions of cells therefore takes seconds.

This is the map of the whole topic. Open ``symmetry.py`` first, then ``optimum.py``.

Planning, in this package, in the order of use:
    symmetry.py: the classes of exchangeable values, and the blocks of the workload's Gram matrix.
    optimum.py: the optimal Gram matrix of the strategy, block by block, with a certificate.
    strategy.py: integer queries close to the optimum, and their pseudo-inverses.
    matrix.py: these integer queries as a real matrix: column norms, sensitivity, and the pieces of a block.
    variances.py: the variance of every answer of the workload.
    dpcore/strategies/one_attribute/dual_fixed_point.py: the ascent of the dual problem that ``optimum.py`` uses.

Queries and sensitivity:
    dpcore/queries/symmetric.py: symmetric queries as a value that the kernel can measure.
    dpcore/queries/residual_matrices.py: the integer queries about differences within a class.
    dpcore/kernel/symmetric_sensitivity.py: the exact sensitivity.

Measurement and reconstruction:
    dpcore/mechanisms/hdmm/symmetric.py: measures the queries and reconstructs the workload's answers, for hdmm.
    dpcore/mechanisms/hdmm/strategy_key.py: the key under which that module caches strategies.
    dpcore/mechanisms/hdmm/joint_strategy.py: chooses between this and the other strategies of hdmm.

Recommended where a domain has at most 2,048 orbits (hdmm uses it up to 1,024, for the sake of speed), because it is
optimal over all strategies. ``dpcore.strategies.residual_planning`` has no such limit.
``dpcore/decisions/strategies.md`` says why, and what was measured.
"""

from __future__ import annotations
