"""Structure: from the cliques that a model must hold to a junction tree, small because its size decides all costs.

* ``junction_tree``: open first. ``JunctionTree``, the nodes, separators and parents over which a model keeps its
  tables.
* ``triangulation``: ``Triangulation``, the size that a tree would have with one more clique, without making the tree.
  Mechanisms that choose cliques under a limit of memory ask it thousands of times.
* ``elimination``: the greedy elimination orders behind both, as compiled loops.

There is one way to triangulate, the best of a few greedy orders; ``dpcore.estimation.graphical.reference`` shows the
same steps in plain Python for an elimination order that is given.
"""

from __future__ import annotations
