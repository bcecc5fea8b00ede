"""Fits of a graphical model to any smooth convex loss of its marginals: maximum likelihood where noise is not Gaussian.

Only ``dual_query_pgm`` needs this room, whose public record is draws of queries. Every mechanism that measures
marginals or products with additive noise fits by ``fitting.fit`` instead, which is faster and proves how close it is.

* ``losses``: open first. The interface ``Loss``, and ``SquaredLoss``, the likelihood of Gaussian noise.
* ``sample_likelihood``: the likelihood of DualQuery's draws.
* ``mirror_descent``: the recommended estimator, ``AcceleratedMirrorDescent``.
* ``mirror_steps``: one step of mirror descent with a search for its length. The tests build plain mirror descent
  (thesis, Algorithm 2) from it, as a reference.
"""

from __future__ import annotations
