"""Fits of a graphical model to any smooth convex loss of its marginals, such as a likelihood without Gaussian noise.

Only ``dual_query_pgm`` needs this folder, because its public record consists of sampled queries. Every mechanism that
measures marginals or products with additive noise uses ``fitting.fit`` instead, which is faster and certifies how close
the fit is to its optimum.

* ``losses``: open first. The interface ``Loss``, and ``SquaredLoss``, the negative log-likelihood of Gaussian noise.
* ``sample_likelihood``: the likelihood of DualQuery's draws.
* ``mirror_descent``: the recommended estimator, ``AcceleratedMirrorDescent``.
* ``mirror_steps``: one step of mirror descent with a search for its length. The tests build plain mirror descent
  (thesis, Algorithm 2) from it as a reference.
"""

from __future__ import annotations
