"""Fitting: a graphical model from marginals, or products on marginals, that were measured with additive noise.

Open ``fit`` first: ``fit_model`` with its ``FitSettings`` is what mechanisms call, and it uses the others in this
order.

* ``linear_measurements``: measurements taken apart into linear functions of single marginals.
* ``components``, ``consistency``: overlapping marginals as orthogonal components. ``consistency.LeastSquares`` is also
  the alternative without a model: least-squares estimates of marginals, unbiased but possibly negative.
* ``empirical_bayes_counts``: posterior medians of one-way counts where noise is large.
* ``measurement_matrix``: all measured functions as one matrix of the marginals of a few cliques.
* ``prior``: how far components are expected to lie from what smaller marginals imply, learnt from noisy values.
* ``maximum_entropy``: the objective and its dual, with a certificate of how close a fit is to the optimum.
* ``quasi_newton``, ``block_descent``: the two descents on that dual; large models start with the second.
* ``one_way_least_squares``: one-way marginals from measured products, for the base of a fit.
* ``expected_error``: the error that a measurement is expected to leave, from public facts, for choosing marginals.
"""

from __future__ import annotations
