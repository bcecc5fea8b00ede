"""Residual planning: the optimal measurement of marginals under Gaussian noise, one residual per set of attributes.

A marginal of clique b is the sum of one residual for each subset a of b. Residuals of different sets are orthogonal, so
each can be measured with noise of its own, and the least variance of all wanted marginals has a closed form for every
residual (ResidualPlanner: Xiao, He, Zhang and Kifer 2023; ResidualPlanner+ for prefixes, ranges and other products).

Open first: ``planning.py``. For marginals, read then ``bases.py``; for products, ``product_residuals.py``.

Here, in the order of use:
    planning.py: noise variances of the residuals, for a sum of squares or for the largest of the errors.
    bases.py: the integer queries that measure the residuals of a plan.
    product_residuals.py: the plan and the queries when attributes are asked for prefixes, ranges or other queries.
    attribute_residuals.py: for one attribute's queries, the best split into a mean and a residual.
    clique_parts.py: the subsets of the workload's cliques, and the error as a function of each attribute's split.

In other rooms, where the import contracts want them:
    dpcore.queries.residual_matrices: integer matrices whose rows span the vectors of sum 0 of one attribute.
    dpcore.queries.residual_frames: the same for a mean other than the uniform one.
    dpcore.queries.decomposition: a Gram matrix as a part along a mean vector and a residual part.
    dpcore.mechanisms.shared.measured_residuals: measures a plan through the kernel.
    dpcore.mechanisms.hdmm.products: measures product residuals.
    dpcore.estimation.reconstruction.residuals: marginals and variances from measured residuals of marginals.
    dpcore.estimation.reconstruction.product_residuals: answers and variances from measured product residuals.

``planning.py`` is recommended for marginals, ``product_residuals.py`` for everything else.
"""

from __future__ import annotations
