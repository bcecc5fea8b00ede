"""PrivBayes: Bayesian networks. Half of the budget selects the structure, and half of it measures the tables.

* ``priv_bayes``: open it first. Both mechanisms, as published and with a graphical model fitted to the same tables,
  which is the better of the two.
* ``structure``: which parents an attribute may have, from public facts and earlier selections.
"""

from __future__ import annotations
