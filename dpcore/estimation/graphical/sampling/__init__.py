"""Sampling: synthetic rows of a model, by randomised rounding or independently.

* ``synthetic_rows``: open first. ``dealt_codes`` deals rows without replacement from integer tables, and
  ``sampled_codes`` draws independent rows. Dealt rows are recommended: their marginals stay within about one count of
  the model's, which is at most a tenth of the error of independent rows.
* ``integer_tables``: rounds the tables of all nodes to integers, node by node, so that neighbours agree.
* ``rounded_tables``: the integer tables of all rows, and their shares for partitions of the rows.
* ``raking``: expected counts of a node whose separator is rounded already.
* ``rounding``: randomised rounding of one table, whose sums over many sets of cells stay balanced.
* ``cell_offsets``: the cells of other tables to which the cells of a node belong, in two small arrays.
"""

from __future__ import annotations
