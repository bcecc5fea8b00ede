"""Confidence: intervals and bounds for a model's answers, from the public record of a run, also an adaptive one.

* ``intervals``: open first. ``answers_with_intervals`` gives each cell of a marginal an interval for the exact count.
* ``bounds``: bounds on the L1 distance of whole marginals from the exact ones, and the proof of all of them.
* ``unbiased``: unbiased estimates of measured marginals, with tails that hold although later measurements were chosen
  by earlier noise.
* ``selection_rounds``: what a noisy selection proves about all of its candidates.
* ``error_round``: what noisy errors of all candidates prove.
* ``farthest_table``: how far a model can be from any table in a confidence set.
* ``noise_tails``: tails of L1 norms and sums of discrete noise, by Chernoff's bound.

``intervals`` is for single cells, ``bounds`` for whole marginals; a bound is the only statement about a marginal that
was never measured.
"""

from __future__ import annotations
