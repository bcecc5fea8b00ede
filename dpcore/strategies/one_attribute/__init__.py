"""OPT_0: strategies for the queries about one attribute of n values.

Open first: ``best_strategy.py``. It chooses among the others, rounds the strategy to integers, and is what every other
room calls.

Alternatives:
    gaussian_optimum.py: the optimum under Gaussian noise, with a certificate; up to 1,024 values. Recommended there.
    dual_fixed_point.py: the ascent of its dual, shared with ``dpcore.strategies.symmetric``.
    p_identity.py: p-Identity strategies, a local optimum under Laplace noise; up to 1,024 values. Recommended there.
    toeplitz.py: prefixes of more than 1,024 values under Gaussian noise, about 6 % above the optimum, in O(n log n).
"""

from __future__ import annotations
