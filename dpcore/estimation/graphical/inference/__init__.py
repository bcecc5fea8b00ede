"""Inference: exact marginals of a model from its log-potentials, by belief propagation on a junction tree.

* ``belief_propagation``: open first. The interface ``MarginalOracle`` and its implementation ``Inference``, one
  compiled loop for all structures.
* ``contraction_plan``: which intermediate tables save passes over a large node that is summed to many cliques.
* ``axis_runs``: sums and products of tables with many short axes.
* ``strides``: where the cells of a clique lie in the table of a node, planned once for the compiled loops.
* ``vector_exp``: an exponential that compilers vectorise, in which an oracle spends most of its time.
* ``node_tables``: the joint tables of the nodes after a call, and conditionals computed from them when needed.

``Inference`` is the only oracle; ``dpcore.estimation.graphical.reference`` is the same algorithm in plain numpy.
"""

from __future__ import annotations
