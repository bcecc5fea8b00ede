"""Reconstruction: answers of a workload from the measured answers of a strategy, by least squares.

Open first: ``residuals.py``, marginals from measured residuals or from measured marginals.

Alternatives, by the strategy that was measured:
    residuals.py: residuals of marginals (``dpcore.strategies.residual_planning.bases``) and plain marginals.
    product_residuals.py: residuals of products (``dpcore.strategies.residual_planning.product_residuals``).
    joint_products.py: products that overlap (``dpcore.strategies.marginals``).
All of these are unbiased and have exact variances.

    nonnegative.py: an option after any of them: the nearest non-negative and consistent answers. They have smaller
        errors on sparse data, but a bias, and no intervals.
"""

from __future__ import annotations
