"""Structure: from the cliques of a model to a junction tree. Its size decides all costs, so it is kept small.

* ``junction_tree``: open first. ``JunctionTree`` has the nodes, separators and parents; a model keeps one table per
  node.
* ``triangulation``: ``Triangulation`` computes the size that the tree would have with one more clique, without making
  the tree. Mechanisms that choose cliques under a memory limit need this thousands of times.
* ``elimination``: the greedy elimination orders that both use, as compiled loops.

Every graph is triangulated by the best of a few greedy orders. ``dpcore.estimation.graphical.reference`` shows the same
steps in plain Python for a given elimination order.
"""

from __future__ import annotations
