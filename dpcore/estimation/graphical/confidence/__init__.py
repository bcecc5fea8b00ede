"""Confidence: intervals and bounds for a model's answers, from the public record of a run; the run may be adaptive.

* ``intervals``: open first. ``answers_with_intervals`` gives each cell of a marginal an interval for the exact count.
* ``bounds``: bounds on the L1 distance of whole marginals from the exact ones, and their proof.
* ``unbiased``: unbiased estimates of measured marginals, with tails that hold even if earlier noise decided what was
  measured later.
* ``selection_rounds``: error bounds of all candidates of a noisy selection.
* ``error_round``: error bounds of all candidates whose noisy errors were measured.
* ``farthest_table``: the largest distance of a model from any table in a confidence set.
* ``noise_tails``: tails of L1 norms and sums of discrete noise, by Chernoff's bound.

Use ``intervals`` for single cells and ``bounds`` for whole marginals. Intervals of a marginal that was never measured
follow from its bound.
"""

from __future__ import annotations
