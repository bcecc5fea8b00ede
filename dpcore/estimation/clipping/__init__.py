"""Clipping: estimates of conjunctions from clipped answers with noise, by empirical Bayes.

Open ``estimates.py`` first; ``dpcore.mechanisms.clipping.completion`` calls it. It needs arrays alone: measured values,
the law of their noise, predictions, and how many queries units satisfy.

    estimates.py: estimates with intervals.
    column_factors.py: predictions of conjunctions from each other, by a low-rank factorisation with cross-fitting.
    loss_curve.py: what clipping takes from an answer of a given size.
    activity.py: how active units are that satisfy many queries.
    prior.py: the prior of exact answers given their predictions, learnt from noisy values.
    posterior.py: medians, means and quantiles.
    shrinkage.py: linear estimates, which are averaged with the posterior where predictions are informative.
    discoveries.py: q-values, which control the false discovery rate.
    noise_law.py: laws of noise.
    support.py: the counts at which densities are tabulated.
    expected_loss.py: the counts that each clipped answer is expected to lack, for signed sums.
    item_mixture.py: predictions of conjunctions of all orders from each other, for signed sums.
    pair_factors.py: how much more or less often two columns occur together than such predictions say.
    lattice_projection.py: the nearest values of a lattice that some data could have.
"""

from __future__ import annotations
