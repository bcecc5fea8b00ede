"""Residual planning: the optimal measurement of marginals under Gaussian noise, one residual per set of attributes.

The marginal of a clique b is the sum of one residual for each subset a of b. Residuals of different subsets are
orthogonal, so each can be measured with a noise variance of its own. The variances that minimise the error of all
requested marginals have a closed form (ResidualPlanner: Xiao, He, Zhang and Kifer 2023). ResidualPlanner+ extends this
to prefixes, ranges and other products of queries about single attributes.

This is the map of the whole topic. Open ``planning.py`` first; then ``bases.py`` for marginals, or
``product_residuals.py`` for products.

Planning, in this package:
    planning.py: the noise variance of each residual, for the least squared, absolute or largest error. Recommended for
        marginals.
    remaining_error.py: the same for a second call, given what the first one has told.
    lattice.py: all subsets of the marginals, and what each adds to the variance of a marginal.
    bases.py: the integer queries that measure the residuals of such a plan.
    product_residuals.py: the plan and its integer queries for products. Recommended for everything but marginals.
    attribute_residuals.py: the best split of one attribute's queries into a mean part and a residual part.
    clique_parts.py: the subsets of the workload's cliques, and the error as a function of each attribute's split.

Queries and sensitivity:
    dpcore/queries/residual_matrices.py: integer matrices whose rows span the vectors of one attribute that sum to 0.
    dpcore/queries/residual_frames.py: the same for a mean vector other than the uniform one.
    dpcore/queries/decomposition.py: the split of a Gram matrix into a mean part and a residual part.
    dpcore/queries/products.py: stacks of integer products, the value that the kernel measures.
    dpcore/kernel/product_sensitivity.py: the exact sensitivity of such a stack.

Measurement, by mechanism:
    dpcore/mechanisms/shared/measured_residuals.py: plans and measures residuals of marginals, for hdmm, gaussian_pgm,
        aim and adaptive_residuals.
    dpcore/mechanisms/hdmm/products.py: plans and measures residuals of products, for hdmm.
    dpcore/mechanisms/hdmm/joint_strategy.py: chooses between residual planning and the other strategies of hdmm.

Reconstruction:
    dpcore/estimation/reconstruction/residuals.py: answers on marginals, with exact variances, from measured residuals.
    dpcore/estimation/reconstruction/product_residuals.py: the same from measured residuals of products.
    dpcore/estimation/graphical/fitting/components.py: measured residuals as input of a graphical model.

``dpcore/decisions/strategies.md`` says why, and what was measured.
"""

from __future__ import annotations
