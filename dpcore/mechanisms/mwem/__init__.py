"""MWEM: multiplicative weights with the exponential mechanism.

* ``mwem``: open it first. Marginals of a table of any width, from a product of dense tables.
* ``mwem_queries``: single prefixes, ranges or parities, from one dense table.
* ``mwem_pgm``: the same rounds with a graphical model in place of dense tables; the best of the three for marginals.
* ``candidates``: what a round may select. ``shares``: how the budget is split.

``dpcore.mechanisms.aim`` is the recommended mechanism for the same workloads.
"""

from __future__ import annotations
