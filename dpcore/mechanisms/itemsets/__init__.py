"""Frequent itemsets and association rules of baskets.

* ``frequent_itemsets``: open it first. The mechanism: items, then pairs of items, then triples of frequent pairs.
* ``constants``: its constants, and what they divide.
* ``clipped_stage``: one stage: a histogram of how many itemsets units hold, a clip from it, and clipped supports.
* ``listing``: the frequent itemsets and their rules, from the supports of all stages.

``dpcore.estimation.itemsets`` has the post-processing: candidates, supports and rules.
"""

from __future__ import annotations
