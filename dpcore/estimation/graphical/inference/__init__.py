"""Inference: exact marginals of a model from its log-potentials, by belief propagation on a junction tree.

* ``belief_propagation``: open first. The interface ``MarginalOracle`` and its implementation ``Inference``, one
  compiled loop for all structures.
* ``contraction_plan``: which intermediate tables save passes over a large node when many of its parts are needed.
* ``strides``: where the cells of a clique lie in the table of a node, planned once for the compiled loops.
* ``vector_exp``: an exponential that compilers vectorise; most of the time of an oracle is spent in it.
* ``node_tables``: the joint tables that an oracle leaves behind, and conditionals read from them without a copy.

``Inference`` is the only oracle; ``dpcore.estimation.graphical.reference`` is the same algorithm in plain numpy.
"""

from __future__ import annotations
