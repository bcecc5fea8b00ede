"""OPT_x and OPT_+: products of strategies of single attributes for a union of Kronecker products.

Open first: ``union_of_products.py``, one product per term, each attribute by its own best strategy.

Alternatives:
    union_of_products.py: OPT_+ with one group per term, for either noise; the fastest, and optimal for one term.
    joint_strategy.py: OPT_x under Laplace noise, one product of p-Identity strategies for all terms together.
    clustered_terms.py: OPT_+ under Laplace noise, terms that ask alike share one product. Recommended for Laplace noise
        with at most 64 terms; it calls ``joint_strategy`` for each cluster.
"""

from __future__ import annotations
