"""Sampling: synthetic rows of a model.

* ``synthetic_rows``: open first. ``dealt_codes`` deals rows from integer tables, and ``sampled_codes`` draws them
  independently. Dealt rows are recommended: their marginals stay within about one count of the model's, with a tenth of
  the error of independent rows and less.
* ``integer_tables``: the integer tables of all nodes, node by node, such that neighbours agree.
* ``raking``: expected counts of a node whose separator is rounded already.
* ``rounding``: randomised rounding of one table with balanced sums over many sets of cells.
* ``cell_offsets``: to which cells of other tables the cells of a node belong, in two small arrays.
"""

from __future__ import annotations
