"""Fitting: a graphical model from marginals, or products on marginals, that were measured with additive noise.

Open ``fit`` first: mechanisms call ``fit_model`` with ``FitSettings``. It uses the other files in this order:

* ``linear_measurements``: splits measurements into linear functions of single marginals.
* ``components``, ``consistency``: rewrite overlapping marginals as orthogonal components. ``LeastSquares`` of
  ``consistency`` is also the alternative without a model: least-squares estimates of marginals, unbiased but possibly
  negative.
* ``empirical_bayes_counts``: replaces noisy one-way counts by posterior medians.
* ``measurement_matrix``: stacks all measured functions as one matrix on the marginals of a few cliques.
* ``one_way_least_squares``: one-way marginals from measured products, for the base of a fit.
* ``prior``: how far components are expected to lie from what smaller marginals imply, learnt from noisy values.
* ``learnt_probabilities``: how common each of a few priors is, for ``empirical_bayes_counts`` and ``prior``.
* ``maximum_entropy``: the objective and its dual, with a certificate of how close a fit is to the optimum.
* ``quasi_newton``, ``block_descent``: two descents on that dual; large models start with the second.

``expected_error`` serves mechanisms that choose marginals: the error that a measurement is expected to leave.
"""

from __future__ import annotations
