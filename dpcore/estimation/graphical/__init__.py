"""Graphical models over junction trees: from noisy measurements of marginals to a distribution over whole records.

Open ``reference`` first: a junction tree and belief propagation in 60 lines of plain Python, with which the tests
compare the package. The folders follow the path of the data:

1. ``structure``: which attributes interact, and the junction tree of their cliques (``junction_tree.JunctionTree``).
2. ``inference``: marginals from log-potentials, the marginal oracle (``belief_propagation.Inference``).
3. ``fitting``: a model from measurements with additive noise (``fit.fit_model``). This is the recommended way to fit a
   model.
4. ``likelihood``: a model from any other smooth convex loss of its marginals, such as the likelihood of DualQuery's
   draws (``mirror_descent.AcceleratedMirrorDescent``).
5. ``answering``: a model's answers to marginals, products, conjunctions and parities, and its file format
   (``model.GraphicalModel``).
6. ``sampling``: synthetic rows of a model, by randomised rounding (recommended) or independently.
7. ``confidence``: intervals and bounds for the errors of a model's answers (``intervals.answers_with_intervals``).

Source: McKenna's thesis (2022), chapter 4; each file states where it departs from the thesis.
"""

from __future__ import annotations
