"""Graphical models over junction trees: from noisy measurements of marginals to a distribution over whole records.

Open ``reference`` first: exact inference in 60 lines of code, with a junction tree and belief propagation that can be
held in one's head. The tests compare the package with it. The rooms follow the data:

1. ``structure``: which attributes interact, and the junction tree of their cliques (``junction_tree.JunctionTree``).
2. ``inference``: marginals from log-potentials, the marginal oracle (``belief_propagation.Inference``).
3. ``fitting``: a model from measurements with additive noise (``fit.fit_model``). This is the recommended way to a
   model.
4. ``likelihood``: a model from any other smooth convex loss of its marginals, such as the likelihood of DualQuery's
   draws (``mirror_descent.AcceleratedMirrorDescent``).
5. ``answering``: answers of a model to marginals, products, conjunctions and parities, and its file
   (``model.GraphicalModel``).
6. ``sampling``: synthetic rows of a model, by randomised rounding (recommended) or independently.
7. ``confidence``: intervals and bounds that hold for a model's answers (``intervals.answers_with_intervals``).

Source: thesis of McKenna (2022), chapter 4, with the departures that each file states.
"""

from __future__ import annotations
