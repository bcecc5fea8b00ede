"""OPT_M: marginals, or products on marginals, that are measured together and answered by joint least squares.

Open first: ``strategy.py`` (marginals) or ``product_strategy.py`` (prefixes, ranges and other queries about single
attributes). Both are for up to 16 attributes. Under Gaussian noise ``dpcore.strategies.residual_planning`` is
recommended in their place: it is exact and has no such limit. Under Laplace noise these are the best known here.

Behind them:
    subset_sums.py: sums over the 2^d subsets of attributes.
    attribute_algebra.py: what one attribute's query matrix contributes to the error: three numbers per attribute.
    problem.py: the error of given shares, and its gradient.
    search.py: the search over subsets and shares.
    shared_p_identity.py: p-Identity strategies of attributes that occur in several products.

``dpcore.estimation.reconstruction.joint_products`` reconstructs the answers.
"""

from __future__ import annotations
