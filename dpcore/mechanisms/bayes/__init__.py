"""PrivBayes: Bayesian networks. Half of the budget selects the structure, and half of it measures the tables.

* ``priv_bayes``: open it first. Two mechanisms: PrivBayes as published, and PrivBayes+PGM, which fits a graphical model
  to the same tables and is the more accurate of the two.
* ``structure``: the candidate parents of an attribute, from public facts and earlier selections.
"""

from __future__ import annotations
