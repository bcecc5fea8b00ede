"""OPT_M: marginals, or products on marginals, that are measured together and answered by joint least squares.

Open first: ``strategy.py`` for marginals, or ``product_strategy.py`` for prefixes, ranges and other queries about
single attributes. Both support up to 16 attributes. They are recommended under Laplace noise. Under Gaussian noise
``dpcore.strategies.residual_planning`` is recommended instead: it is exact and has no such limit.

Behind them:
    subset_sums.py: sums over the 2^d subsets of d attributes.
    attribute_algebra.py: the three numbers that describe what one attribute's queries contribute to the error.
    problem.py: the error of given shares, and its gradient.
    search.py: the search for the measured subsets and their shares.
    shared_p_identity.py: p-Identity strategies of attributes that occur in several products.

``dpcore/estimation/reconstruction/joint_products.py`` reconstructs the answers.
"""

from __future__ import annotations
