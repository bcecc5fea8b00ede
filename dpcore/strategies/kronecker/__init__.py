"""OPT_x and OPT_+: products of strategies of single attributes, for unions of Kronecker products.

Open first: ``union_of_products.py``, which gives every term a product of its own.

Alternatives:
    union_of_products.py: OPT_+ with one group per term, for either noise. Each attribute of a term is measured by its
        own best strategy. It is the fastest, and optimal for a single term under Gaussian noise.
    joint_strategy.py: OPT_x under Laplace noise, one product of p-Identity strategies for all terms together.
    clustered_terms.py: OPT_+ under Laplace noise; terms with similar queries share one product. It calls
        ``joint_strategy.py`` for each cluster. Recommended under Laplace noise for at most 64 terms.
"""

from __future__ import annotations
