"""MWEM: multiplicative weights with the exponential mechanism.

* ``mwem``: open it first. It measures whole marginals of a table of any width; its model is a product of dense tables.
* ``mwem_queries``: it measures single prefixes, ranges or parities; its model is one dense table.
* ``mwem_pgm``: it measures whole marginals; its model is a graphical model. It is usually the best of the three.
* ``profile``: the constants of all three. ``shares``: how they divide the budget.
* ``candidates``: the marginals that ``mwem`` may still select.

``dpcore.mechanisms.aim`` is the recommended mechanism for the same workloads.
"""

from __future__ import annotations
