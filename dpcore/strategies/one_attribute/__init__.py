"""OPT_0: strategies for the queries about one attribute of n values.

Open first: ``best_strategy.py``. It chooses among the alternatives, rounds the strategy to integers, and is what all
other rooms call.

Alternatives:
    gaussian_optimum.py: the optimum under Gaussian noise, with a certificate. Recommended under Gaussian noise, up to
        1,024 values.
    p_identity.py: p-Identity strategies, a local optimum under Laplace noise. Recommended under Laplace noise; up to
        1,024 values.
    toeplitz.py: square-root Toeplitz strategies for prefixes under Gaussian noise, about 6 % above the optimum, in
        O(n log n). Recommended for more than 1,024 values.

Behind them:
    dual_fixed_point.py: the ascent of the dual problem, shared with ``dpcore.strategies.symmetric``.
"""

from __future__ import annotations
