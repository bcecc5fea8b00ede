"""Reconstruction: answers of a workload from the measured answers of a strategy, by least squares.

Open first: ``residuals.py``, marginals from measured residuals or from measured marginals.

Alternatives, by the strategy that was measured; all of them are unbiased and have exact variances:
    residuals.py: residuals of marginals (``dpcore.strategies.residual_planning``), and plain marginals.
    product_residuals.py: residuals of products (``dpcore.strategies.residual_planning``).
    joint_products.py: products that overlap (``dpcore.strategies.marginals``).
Strategies whose parts are reconstructed separately use ``dpcore/estimation/least_squares.py``; symmetric queries are
reconstructed by ``SymmetricStrategy.estimate`` (``dpcore.strategies.symmetric``).

Optional afterwards:
    nonnegative.py: the nearest non-negative and consistent answers. Their errors are smaller on sparse data, but they
        are biased and have no intervals. consistent_tables.py: the nearest consistent ones.
    shrunken.py: empirical-Bayes estimates of marginals from their residuals. scale_mixture.py: the prior that they use.
    latent_classes.py: a mixture of tables of independent attributes. alternating_fit.py: how it is fitted.
    weighted_mean.py: a mean of all of these.
"""

from __future__ import annotations
